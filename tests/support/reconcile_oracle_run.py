"""What several counting rules in plain Python ask of a run and its rows."""

from __future__ import annotations

from reconcile_oracle_tables import PlacedTables, Row, place_of

from ebbtide.record.manifest import Manifest


def has_transactions(tables: dict[str, list[Row]], manifest: Manifest) -> bool:
    """Whether any value may be one of a transaction."""
    return any(producer.transactional for producer in manifest.producers.values()) or any(
        send["txn"] is not None or send["txn_outcome"] is not None for send in tables["sends"]
    )


def served_marks(tables: PlacedTables) -> list[Row]:
    """The HWs that leaders answered, each with its leader epoch."""
    return [row for row in tables["watermarks"] if row["source"] == "list_offsets" and row["leader_epoch"] is not None]


def clock_went_back(marks: list[Row]) -> bool:
    """Whether a broker's answers for a partition go back in time.

    The answers are in the order of the rows.
    """
    last: dict[tuple[str, int, int], int] = {}
    for row in marks:
        of = (row["topic"], row["partition"], row["broker"])
        asked_ns = row["at_ns"] if row["asked_ns"] is None else row["asked_ns"]
        if row["at_ns"] < max(asked_ns, last.get(of, row["at_ns"])):
            return True
        last[of] = row["at_ns"]
    return False


def compacted_topics(tables: dict[str, list[Row]]) -> set[str]:
    """The topics whose own cleanup policy was compaction at any time."""
    policies = [row for row in tables.get("configs", []) if row["name"] == "cleanup.policy"]
    return {row["resource"].removeprefix("topic:") for row in policies if "compact" in (row["value"] or "")}


def is_final(row: Row, manifest: Manifest) -> bool:
    return manifest.final_consumer is not None and row["consumer"] == manifest.final_consumer


def is_unread(row: Row, tables: PlacedTables, manifest: Manifest) -> bool:
    """Whether nothing came back of the partition's final log, which is not empty."""
    ends = manifest.final_offsets[f"{row['topic']}-{row['partition']}"]
    read = any(is_final(poll, manifest) for poll in tables.polls_at(place_of(row)))
    return ends.high_watermark > ends.log_start and not read


def lowest_epoch(value: int | None, here: list[Row]) -> int | None:
    """Return the lowest known leader epoch of a value in `here`, an offset's rows."""
    epochs = [row.get("leader_epoch") for row in here if row["value"] == value]
    return min((epoch for epoch in epochs if epoch is not None), default=None)


def stands_at(row: Row, value: int | None, tables: PlacedTables, manifest: Manifest) -> bool:
    """Whether the final log has the value at the offset of the row."""
    place = place_of(row)
    polls, log = tables.polls_of_offset(place, row["offset"]), tables.leader_log(place)
    return any(poll["value"] == value and is_final(poll, manifest) for poll in polls) or any(
        other["offset"] == row["offset"] and other["value"] == value for other in log
    )


def places_of(tables: dict[str, list[Row]]) -> set[tuple[str, int, int, int]]:
    acked = [row for row in tables["sends"] if row["status"] == "acked" and row["offset"] is not None]
    polled = [row for row in tables["polls"] if row["value"] is not None]
    return {(*place_of(row), row["offset"], row["value"]) for row in [*acked, *polled]}


def _is_surely_visible(row: Row, tables: dict[str, list[Row]], manifest: Manifest) -> bool:
    """Whether a read_committed consumer surely may see a row of the final read."""
    sends = [send for send in tables["sends"] if send["value"] == row["value"]]
    transactional = has_transactions(tables, manifest)
    hides = any(poll["isolation"] == "read_committed" for poll in tables["polls"] if is_final(poll, manifest))
    if hides or not transactional:
        return True
    if row["value"] is None or not sends:
        return False
    return all(
        (send["txn"] is None and send["txn_outcome"] is None) or send["txn_outcome"] == "committed" for send in sends
    )


def may_see(session: Row, row: Row, tables: dict[str, list[Row]], manifest: Manifest) -> bool:
    return session["isolation"] != "read_committed" or _is_surely_visible(row, tables, manifest)


def is_in_final_read(poll: Row, tables: PlacedTables, manifest: Manifest) -> bool:
    """Whether the final read returned the very record that a consumer got."""
    return any(
        is_final(row, manifest)
        and all(row[name] == poll[name] for name in ("topic", "partition", "offset", "value", "leader_epoch"))
        for row in tables.polls_of_offset(place_of(poll), poll["offset"])
    )
