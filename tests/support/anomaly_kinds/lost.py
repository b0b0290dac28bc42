"""Acked records that the final log lacks: cases, the rule a second time, and what it says of them."""

from __future__ import annotations

import json

from healthy_history import HEALTHY
from reconcile_cases import Cases, Found, Mutant, compacted, complete, interrupted, no_final_read
from reconcile_draws import Draws, Parts, Setup
from reconcile_oracle_run import compacted_topics, has_transactions, is_final, is_unread, lowest_epoch, stands_at
from reconcile_oracle_tables import Item, PlacedTables, Row, place_of
from records import RecordBuilder

from analysis.judge.rules.losses import acked_rows
from analysis.judge.rules.losses import lost as rule
from analysis.reconcile.model import LostRange
from ebbtide.record.manifest import Manifest

KIND = "lost"

CASES: Cases = {
    complete: {
        "what the final read returned is not lost": (lambda b: b.acked(1, 2, at=0).final(1, 2), {}),
        "an acked value that is in no final log is lost": (lambda b: b.acked(1, 2, at=0).final(1), {"lost": [(1, 2)]}),
        "all is lost of an empty final log": (lambda b: b.acked(1, 2, at=0), {"lost": [(0, 1), (1, 2)]}),
        "a send without an offset is never lost": (lambda b: b.send(1, acks=0), {}),
        "failed and unknown sends are never lost": (
            lambda b: b.send(1, at=0, status="failed").send(2, at=1, status="unknown"),
            {},
        ),
        "a value of a committed transaction is lost": (
            lambda b: b.acked(1, at=0, txn=7, txn_outcome="committed"),
            {"lost": [(0, 1)]},
        ),
        "a value of an aborted transaction is not lost": (lambda b: b.acked(1, at=0, txn=7, txn_outcome="aborted"), {}),
        "a value of a transaction that may be open is not lost": (
            lambda b: b.acked(1, at=0, txn=7, txn_outcome="unknown").acked(2, at=1, txn=8),
            {},
        ),
        "below the final log start nothing is lost": (
            lambda b: b.acked(1, 2, 3, at=4).end(log_start=5, high_watermark=5),
            {"lost": [(5, 2), (6, 3)]},
        ),
        "a value at another offset of the final log is a duplicate, not lost": (
            lambda b: b.acked(1, at=0).final(1, at=3),
            {"duplicate": [(0, 1)]},
        ),
        "a value in the final log of another partition is lost": (
            lambda b: b.acked(1, at=0).final(1, at=0, partition=1),
            {"lost": [(0, 1)], "duplicate": [(0, 1)]},
        ),
        "what stands in the last leader's own log is not lost": (
            lambda b: b.acked(1, 2, at=0).final(1).led_by(2, epoch=1).replica(2, 1, 2).replica(1, 1),
            {},
        ),
        "what stands in a follower's log only is lost": (
            lambda b: b.acked(1, 2, at=0).final(1).led_by(1, epoch=0).led_by(2, epoch=1).replica(2, 1).replica(1, 1, 2),
            {"lost": [(1, 2)]},
        ),
        "without a last leader no log saves a record": (
            lambda b: b.acked(1, at=0).led_by(1, epoch=0).led_by(-1, epoch=1).replica(1, 1),
            {"lost": [(0, 1)]},
        ),
        "a record whose payload is damaged is not also lost": (
            lambda b: b.acked(1, 2, at=0).final(1, None),
            {"damaged": [(1, None)]},
        ),
        "a value that was acked twice is lost once": (
            lambda b: b.acked(1, at=0).acked(1, at=0),
            {"lost": [(0, 1)]},
        ),
        "retention removes records below the log start": (
            lambda b: b.acked(1, 2, 3, at=0).read(1, 2, 3, at=0).final(3, at=2).end(log_start=2),
            {},
        ),
    },
    interrupted: {
        "nothing is lost": (lambda b: b.acked(1, 2, at=0).final(1).end(high_watermark=1), {}),
    },
    no_final_read: {
        "nothing is lost": (lambda b: b.acked(1, at=0), {}),
    },
    compacted: {
        "what a compacted topic lacks is not lost and has not vanished": (
            lambda b: b.acked(1, 2, at=0).read(1, 2, at=0).final(2, at=1).compacted(),
            {},
        ),
        "other topics are judged": (lambda b: b.acked(1, at=0).final(2, at=1), {"lost": [(0, 1)]}),
    },
}


MUTANTS: tuple[Mutant, ...] = (
    (acked_rows, '        & ~F.col("in_final_log_of_partition")\n', ""),
    (acked_rows, '(F.col("offset") >= F.col("log_start"))', '(F.col("offset") > F.col("log_start"))'),
    (acked_rows, '        & ~F.col("damaged")\n', ""),
    (rule, " & ~_can_hold_unread_record(runs)", ""),
    (rule, 'F.least(F.col("final_log_epoch"), gone_again)', "gone_again"),
    (rule, 'F.least(F.col("final_log_epoch"), gone_again)', 'F.col("final_log_epoch")'),
    (rule, "F.when(era.isNull() | (epoch >= era), epoch)", "epoch"),
    (rule, "F.when(era.isNull(), 0).otherwise(era + 1)", "era + 1"),
    (rule, "F.when(era.isNull(), 0).otherwise(era + 1)", "F.lit(0)"),
)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """An acked record that the final log surely lacks."""
    if manifest.final_consumer is None or manifest.status != "complete" or not tables["polls"]:
        return []
    items = set()
    for row in tables["sends"]:
        if row["status"] != "acked" or row["offset"] is None:
            continue
        if (row["txn"] is not None or row["txn_outcome"] is not None) and row["txn_outcome"] != "committed":
            continue
        ends = manifest.final_offsets.get(f"{row['topic']}-{row['partition']}")
        if ends is None or row["offset"] < ends.log_start or is_unread(row, tables, manifest):
            continue
        if row["topic"] in compacted_topics(tables):
            continue
        polls = tables.polls_at(place_of(row))
        if any(is_final(poll, manifest) and poll["value"] == row["value"] for poll in polls):
            continue
        if any(poll["value"] is None and poll["offset"] == row["offset"] for poll in polls):
            continue
        if any(log["value"] == row["value"] for log in tables.leader_log(place_of(row))):
            continue
        items.add(("lost", *place_of(row), row["offset"], row["value"]))
    return list(items)


def told(found: Found) -> object:
    """Which values are said to have been committed, and how many the groups count."""
    committed = [row["value"] for row in found.items(KIND) if json.loads(row["details"])["committed"]]
    return sorted(committed), sum(one.count for one in found.groups(LostRange, KIND) if one.committed)


def expected(tables: PlacedTables, manifest: Manifest) -> object:
    """The same by the rule."""
    committed = committed_lost(tables, manifest)
    return sorted(committed), len(committed)


def committed_lost(tables: PlacedTables, manifest: Manifest) -> set[int | None]:
    """The values that are lost and were committed."""
    lost = {item[4] for item in found_in(tables, manifest)}
    return {
        row["value"]
        for row in tables["sends"]
        if row["value"] in lost and row["status"] == "acked" and _was_committed(row, tables, manifest)
    }


def _was_committed(row: Row, tables: PlacedTables, manifest: Manifest) -> bool:
    if row["acks"] == -1:
        return True
    if any(poll["value"] == row["value"] and not is_final(poll, manifest) for poll in tables.polls_at(place_of(row))):
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
        epoch = lowest_epoch(value, here)
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


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Acked records above all that the final read got."""
    b.acked(*range(100, 100 + n), at=HEALTHY)
    return {"lost": n}


def _draw_acked_alone(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw a record that only its ack shows, among values of known leader epochs.

    The nearest value limits what can have passed it.
    """
    values = iter(range(46, 60))
    sent_ns = d.number(1, 60)
    b.send(next(values), at=7, acks=1, partition=2, sent_ns=sent_ns, done_ns=sent_ns)
    for epoch in d.numbers_between(0, 6):
        b.read(next(values), at=7, consumer=6, polled_ns=90, leader_epoch=epoch, partition=2)
    for epoch in d.numbers_between(0, 6):
        asked_ns = d.number(1, 80)
        b.served(8, epoch=epoch, asked_ns=asked_ns, at_ns=asked_ns, partition=2)


PARTS: Parts = {_draw_acked_alone: 25}
