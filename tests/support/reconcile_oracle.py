"""The counting rules a second time, in slow and plain Python from the rules' sentences, for tests only."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise

from anomaly_kinds import functions
from reconcile_oracle_commits import lost_commit_items
from reconcile_oracle_copies import wrong_copies
from reconcile_oracle_run import clock_went_back, compacted_topics, has_transactions
from reconcile_oracle_tables import PlacedTables, Row, place_of
from reconcile_oracle_transactions import hanging_items
from records import RecordBuilder

from analysis.reconcile.model import HwRegression
from ebbtide.record.manifest import Manifest

Item = tuple[str, str, int, int | None, int | None]
"""(kind, topic, partition, offset, value)."""


def anomalies(tables: dict[str, list[Row]], manifest: Manifest) -> list[Item]:
    """Every item of every kind that the tables alone show, sorted."""
    tables = PlacedTables.of(tables)
    items = [
        *_lost_items(tables, manifest),
        *_vanished_items(tables, manifest),
        *_inconsistent(tables),
        *_duplicates(tables),
        *_regressions(tables),
        *_divergences(tables),
        *_unseen(tables, manifest),
        *_aborted_reads(tables),
        *_disorder(tables, manifest),
        *_poll_skips(tables, manifest),
        *_damaged_items(tables),
        *lost_commit_items(tables, manifest),
        *hanging_items(tables, manifest),
        *wrong_copies(tables, manifest),
        *(item for find in functions("found_in") for item in find(tables, manifest)),
    ]
    return sorted(items, key=repr)


def anomalies_of(builder: RecordBuilder) -> list[Item]:
    """Every item of a record, sorted; some kinds need more than its tables."""
    return sorted([*anomalies(builder.tables, builder.manifest()), *items_beside_tables(builder)], key=repr)


def items_beside_tables(builder: RecordBuilder) -> list[Item]:
    """Every item of the kinds that tables alone do not show."""
    return [item for find in functions("found_in_record") for item in find(builder)]


def committed_lost(tables: dict[str, list[Row]], manifest: Manifest) -> set[int]:
    """The values that are lost and were committed."""
    tables = PlacedTables.of(tables)
    lost = {item[4] for item in _lost_items(tables, manifest)}
    return {
        row["value"]
        for row in tables["sends"]
        if row["value"] in lost and row["status"] == "acked" and _was_committed(row, tables, manifest)
    }


def _is_final(row: Row, manifest: Manifest) -> bool:
    return manifest.final_consumer is not None and row["consumer"] == manifest.final_consumer


def _is_unread(row: Row, tables: PlacedTables, manifest: Manifest) -> bool:
    """Whether nothing came back of the partition's final log, which is not empty."""
    ends = manifest.final_offsets[f"{row['topic']}-{row['partition']}"]
    read = any(_is_final(poll, manifest) for poll in tables.polls_at(place_of(row)))
    return ends.high_watermark > ends.log_start and not read


def _lost_items(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    if manifest.final_consumer is None or manifest.status != "complete" or not tables["polls"]:
        return []
    items = set()
    for row in tables["sends"]:
        if row["status"] != "acked" or row["offset"] is None:
            continue
        if (row["txn"] is not None or row["txn_outcome"] is not None) and row["txn_outcome"] != "committed":
            continue
        ends = manifest.final_offsets.get(f"{row['topic']}-{row['partition']}")
        if ends is None or row["offset"] < ends.log_start or _is_unread(row, tables, manifest):
            continue
        if row["topic"] in compacted_topics(tables):
            continue
        polls = tables.polls_at(place_of(row))
        if any(_is_final(poll, manifest) and poll["value"] == row["value"] for poll in polls):
            continue
        if any(poll["value"] is None and poll["offset"] == row["offset"] for poll in polls):
            continue
        if any(log["value"] == row["value"] for log in tables.leader_log(place_of(row))):
            continue
        items.add(("lost", *place_of(row), row["offset"], row["value"]))
    return list(items)


def _was_committed(row: Row, tables: PlacedTables, manifest: Manifest) -> bool:
    if row["acks"] == -1:
        return True
    if any(poll["value"] == row["value"] and not _is_final(poll, manifest) for poll in tables.polls_at(place_of(row))):
        return True
    began: dict[int, int] = {}
    for state in sorted(tables["partitions"], key=lambda state: -state["metadata_offset"]):
        if place_of(state) == place_of(row):
            began[state["leader_epoch"]] = state["at_ns"]
    acked_ns = row["sent_ns"] if row["done_ns"] is None else row["done_ns"]
    era = max((epoch for epoch, at_ns in began.items() if at_ns <= acked_ns), default=None)
    acked = [other for other in tables["sends"] if other["status"] == "acked"]
    here = [
        other
        for other in [*tables.polls_at(place_of(row)), *tables.leader_log(place_of(row)), *acked]
        if place_of(other) == place_of(row) and other["offset"] == row["offset"]
    ]
    bounds = []
    for value in {other["value"] for other in here} - {row["value"]}:
        epoch = _lowest_epoch(value, here)
        if stands_at(row, value, tables, manifest):
            bounds.append(0 if epoch is None else epoch)
        elif epoch is None:
            bounds.append(0 if era is None else era + 1)
        elif era is None or epoch >= era:
            bounds.append(epoch)
    # Nobody returns a control record; what stands there unseen is of an epoch that nobody knows.
    unseen = not any(stands_at(row, other["value"], tables, manifest) for other in here)
    final_hw = manifest.final_offsets[f"{row['topic']}-{row['partition']}"].high_watermark
    if has_transactions(tables, manifest) and unseen and row["offset"] < final_hw:
        return False
    replaced_in = min(bounds, default=None)
    for mark in tables["watermarks"]:
        if place_of(mark) != place_of(row) or mark["high_watermark"] <= row["offset"] or mark["at_ns"] < row["sent_ns"]:
            continue
        if replaced_in is None or (mark["leader_epoch"] is not None and mark["leader_epoch"] < replaced_in):
            return True
    return False


def _lowest_epoch(value: int | None, here: list[Row]) -> int | None:
    """Return the lowest known leader epoch of a value in `here`, an offset's rows."""
    epochs = [row.get("leader_epoch") for row in here if row["value"] == value]
    return min((epoch for epoch in epochs if epoch is not None), default=None)


def stands_at(row: Row, value: int | None, tables: PlacedTables, manifest: Manifest) -> bool:
    """Whether the final log has the value at the offset of the row."""
    place = place_of(row)
    final = [poll for poll in tables.polls_of_offset(place, row["offset"]) if _is_final(poll, manifest)]
    logs = [*final, *tables.leader_log(place)]
    return any(log["offset"] == row["offset"] and log["value"] == value for log in logs)


def _was_replaced(poll: Row, tables: PlacedTables, manifest: Manifest) -> bool:
    """Whether another value was at the offset after a consumer got the one of `poll`."""
    here = [
        row
        for row in [*tables.polls_at(place_of(poll)), *tables.leader_log(place_of(poll))]
        if row["offset"] == poll["offset"]
    ]
    polls = [row for row in here if "polled_ns" in row]
    same = [row["polled_ns"] for row in polls if row["value"] == poll["value"] and _is_final(row, manifest)]
    epochs = {value: _lowest_epoch(value, here) for value in {row["value"] for row in here}}
    epoch, stands = epochs[poll["value"]], stands_at(poll, poll["value"], tables, manifest)
    for other in polls:
        if other["value"] is None or other["value"] == poll["value"]:
            continue
        if _is_final(other, manifest) and other["polled_ns"] > max(same, default=poll["polled_ns"]):
            return True
        theirs = epochs[other["value"]]
        older = epoch is not None and theirs is not None and theirs < epoch
        if other["polled_ns"] > poll["polled_ns"] and not older and not stands:
            return True
    return False


def _vanished_items(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    final_rows = [poll for poll in tables["polls"] if _is_final(poll, manifest)]
    hides = any(poll["isolation"] == "read_committed" for poll in final_rows)
    transactional = any(producer.transactional for producer in manifest.producers.values())
    items = set()
    for poll in tables["polls"]:
        if _is_final(poll, manifest) or poll["value"] is None:
            continue
        place, offset = place_of(poll), poll["offset"]
        ends = manifest.final_offsets.get(f"{poll['topic']}-{poll['partition']}")
        if ends is not None and poll["offset"] < ends.log_start:
            continue
        same_place = tables.polls_of_offset(place, offset)
        replaced = _was_replaced(poll, tables, manifest)
        gone = False
        if manifest.final_consumer is not None and ends is not None and not _is_unread(poll, tables, manifest):
            last = max((row["offset"] for row in tables.polls_at(place) if _is_final(row, manifest)), default=-1)
            reached = manifest.status == "complete" or poll["offset"] < last or poll["offset"] >= ends.high_watermark
            here = any(row["value"] == poll["value"] and _is_final(row, manifest) for row in same_place)
            damaged = any(row["value"] is None for row in same_place)
            held = any(log["offset"] == offset and log["value"] == poll["value"] for log in tables.leader_log(place))
            sends = [send for send in tables["sends"] if send["value"] == poll["value"]]
            hidden = hides and (
                any(
                    (send["txn"] is not None or send["txn_outcome"] is not None) and send["txn_outcome"] != "committed"
                    for send in sends
                )
                if sends
                else transactional
            )
            gone = reached and not (here or damaged or held or hidden or poll["topic"] in compacted_topics(tables))
        if replaced or gone:
            items.add(("vanished", *place, offset, poll["value"]))
    return list(items)


def places_of(tables: dict[str, list[Row]]) -> set[tuple[str, int, int, int]]:
    acked = [row for row in tables["sends"] if row["status"] == "acked" and row["offset"] is not None]
    polled = [row for row in tables["polls"] if row["value"] is not None]
    return {(*place_of(row), row["offset"], row["value"]) for row in [*acked, *polled]}


def _inconsistent(tables: dict[str, list[Row]]) -> list[Item]:
    values: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    for topic, partition, offset, value in places_of(tables):
        values[topic, partition, offset].add(value)
    return [("inconsistent-offset", *place, None) for place, held in values.items() if len(held) > 1]


def _duplicates(tables: dict[str, list[Row]]) -> list[Item]:
    places: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for topic, partition, offset, value in places_of(tables):
        places[value].append((topic, partition, offset))
    return [("duplicate", *min(stood), value) for value, stood in places.items() if len(stood) > 1]


def _regressions(tables: dict[str, list[Row]]) -> list[Item]:
    marks = [row for row in tables["watermarks"] if row["source"] == "list_offsets" and row["leader_epoch"] is not None]
    if clock_went_back(marks):
        return []
    return [
        ("hw-regression", *place_of(later), later["high_watermark"], None)
        for later in marks
        if later["asked_ns"] is not None
        and any(
            place_of(earlier) == place_of(later)
            and earlier["leader_epoch"] <= later["leader_epoch"]
            and earlier["at_ns"] < later["asked_ns"]
            and earlier["high_watermark"] > later["high_watermark"]
            for earlier in marks
        )
    ]


def unnamed_drops(stored: list[Row], named: list[HwRegression]) -> list[Row]:
    """Return the hw-regression items of anomalies/ outside all named drops."""
    told = [(row, json.loads(row["details"])) for row in stored if row["kind"] == "hw-regression"]
    return [
        row
        for row, details in told
        if not any(
            (one.topic, one.partition) == place_of(row)
            and details["earlier"]["leader_epoch"] <= one.leader_epoch <= details["leader_epoch"]
            and one.to <= details["high_watermark"] < one.from_
            for one in named
        )
    ]


def _divergences(tables: dict[str, list[Row]]) -> list[Item]:
    hw: dict[tuple[str, int, int], int] = {}
    for row in sorted(tables["watermarks"], key=lambda row: (row["at_ns"], -row["high_watermark"])):
        if row["source"] == "checkpoint":
            hw[(*place_of(row), row["broker"])] = row["high_watermark"]
    held: dict[tuple[str, int, int], list[Row]] = defaultdict(list)
    for row in tables["replicas"]:
        if row["offset"] < hw.get((*place_of(row), row["broker"]), -1):
            held[(*place_of(row), row["offset"])].append(row)
    return [
        ("replica-divergence", *place, None)
        for place, rows in held.items()
        if any(
            one["broker"] != other["broker"]
            and (one["value"] != other["value"] or one["leader_epoch"] != other["leader_epoch"])
            for one in rows
            for other in rows
        )
    ]


def _is_surely_visible(row: Row, tables: dict[str, list[Row]], manifest: Manifest) -> bool:
    """Whether a read_committed consumer surely may see a row of the final read."""
    sends = [send for send in tables["sends"] if send["value"] == row["value"]]
    transactional = has_transactions(tables, manifest)
    hides = any(poll["isolation"] == "read_committed" for poll in tables["polls"] if _is_final(poll, manifest))
    if hides or not transactional:
        return True
    if row["value"] is None or not sends:
        return False
    return all(
        (send["txn"] is None and send["txn_outcome"] is None) or send["txn_outcome"] == "committed" for send in sends
    )


def _may_see(session: Row, row: Row, tables: dict[str, list[Row]], manifest: Manifest) -> bool:
    return session["isolation"] != "read_committed" or _is_surely_visible(row, tables, manifest)


def _is_in_final_read(poll: Row, tables: PlacedTables, manifest: Manifest) -> bool:
    """Whether the final read returned the very record that a consumer got."""
    return any(
        _is_final(row, manifest)
        and all(row[name] == poll[name] for name in ("topic", "partition", "offset", "value", "leader_epoch"))
        for row in tables.polls_of_offset(place_of(poll), poll["offset"])
    )


def _unseen(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    items = set()
    for row in tables["polls"]:
        if not _is_final(row, manifest):
            continue
        here = [poll for poll in tables.polls_at(place_of(row)) if not _is_final(poll, manifest)]
        if any(poll["offset"] == row["offset"] for poll in here):
            continue
        for below in here:
            for above in here:
                same = all(below[name] == above[name] for name in ("consumer", "session", "isolation"))
                between = below["offset"] < row["offset"] < above["offset"]
                over = same and between and _is_in_final_read(above, tables, manifest)
                if over and _may_see(below, row, tables, manifest):
                    items.add(("unseen", *place_of(row), row["offset"], None))
    return list(items)


def _aborted_reads(tables: dict[str, list[Row]]) -> list[Item]:
    places: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for poll in tables["polls"]:
        for send in tables["sends"]:
            if poll["value"] is None or poll["value"] != send["value"]:
                continue
            aborted = send["txn_outcome"] == "aborted" and poll["isolation"] == "read_committed"
            if send["status"] == "failed" or aborted:
                places[poll["value"]].append((*place_of(poll), poll["offset"]))
    return [("aborted-read", *min(got), value) for value, got in places.items()]


def _disorder(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    producers: dict[tuple[str, int, int], list[Row]] = defaultdict(list)
    for send in tables["sends"]:
        if send["status"] == "acked" and send["offset"] is not None:
            producers[(*place_of(send), send["producer"])].append(send)
    items: list[Item] = []
    for sent in producers.values():
        sent.sort(key=lambda send: send["sequence"])
        for first, second in pairwise(sent):
            place = place_of(first)
            final = [poll for poll in tables.polls_at(place) if _is_final(poll, manifest)]
            stands = any(
                row["offset"] == first["offset"] and row["value"] == first["value"]
                for row in [*final, *tables.leader_log(place)]
            )
            if second["offset"] < first["offset"] and stands and tables["polls"]:
                items.append(("dirty-order", *place_of(second), second["offset"], second["value"]))
    return items


def _poll_skips(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    return [
        ("poll-skip", *place_of(poll), poll["offset"], poll["value"])
        for poll in tables["polls"]
        if poll["prev_offset"] is not None
        and _is_in_final_read(poll, tables, manifest)
        and any(
            _is_final(row, manifest)
            and poll["prev_offset"] < row["offset"] < poll["offset"]
            and _may_see(poll, row, tables, manifest)
            for row in tables.polls_at(place_of(poll))
        )
    ]


def _damaged_items(tables: dict[str, list[Row]]) -> set[Item]:
    return {("damaged", *place_of(poll), poll["offset"], None) for poll in tables["polls"] if poll["value"] is None}
