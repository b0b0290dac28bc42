"""What the rules of copiers in plain Python share, and their cases."""

from __future__ import annotations

from typing import Any

from reconcile_cases import transactional
from reconcile_oracle_run import compacted_topics, is_final, is_in_final_read
from reconcile_oracle_tables import PlacedTables, Row, place_of
from records import RecordBuilder

from ebbtide.record.manifest import Manifest

Input = tuple[str, str, int]


def copying() -> RecordBuilder:
    """A run in which groups copy records in transactions."""
    return transactional().transactions(one="CompleteCommit").coordinated_by(1)


def inputs(b: RecordBuilder, *values: int) -> RecordBuilder:
    """Inputs from offset 0 on, which the final read and a read_committed consumer got."""
    b.acked(*values, at=0).final(*values, at=0, leader_epoch=0)
    return b.read(*values, at=0, isolation="read_committed", leader_epoch=0)


def copy(b: RecordBuilder, value: int, *, of: int, outcome: str = "committed", group: str = "copiers") -> RecordBuilder:
    """A copy that the final read got, at an offset of partition 1 that is its value."""
    b.copy(value, of=of, group=group).send(value, at=value, partition=1, txn=1, txn_outcome=outcome)
    return b.final(value, at=value, partition=1)


def shown(b: RecordBuilder, value: int) -> RecordBuilder:
    """A read_committed consumer gets a copy."""
    return b.read(value, at=value, partition=1, isolation="read_committed", session=value)


def copied() -> RecordBuilder:
    """A run in which the first of two inputs has no copy, and nobody asked what the group committed."""
    return shown(copy(inputs(copying(), 1, 2), 12, of=1), 12)


def add_copy(b: RecordBuilder, value: int, *, of: int, outcome: str = "committed", **columns: Any) -> None:
    """A copy in a transaction with this outcome, at an offset of partition 9 that is its value."""
    b.copy(value, of=of, **columns).send(value, at=value, partition=9, txn=1, txn_outcome=outcome)


def show(b: RecordBuilder, *values: int, partition: int = 9) -> None:
    """The final read and a read_committed consumer get values at offsets that are these values."""
    for value in values:
        columns = {"partition": partition, "isolation": "read_committed"}
        b.final(value, at=value, partition=partition).read(value, at=value, consumer=3, session=value, **columns)


def input_of(row: Row) -> Input:
    """The group, topic and partition of a copied input."""
    return row["group"], row["topic"], row["partition"]


def _outcomes(value: int, tables: PlacedTables) -> set[str | None]:
    return {row["txn_outcome"] for row in tables["sends"] if row["value"] == value}


def may_be_hidden(value: int, tables: PlacedTables) -> bool:
    """Whether a value may be of a transaction that was not committed."""
    sent = [row for row in tables["sends"] if row["value"] == value]
    return any(
        row["txn_outcome"] != "committed" and (row["txn"] is not None or row["txn_outcome"] is not None) for row in sent
    )


def is_visible(value: int, tables: PlacedTables, manifest: Manifest, *, certainly: bool) -> bool:
    """Whether a copy is visible; `certainly`: whatever is not known."""
    outcomes, polls = _outcomes(value, tables), [row for row in tables["polls"] if row["value"] == value]
    if "aborted" in outcomes:
        return False
    standing = [row for row in polls if is_final(row, manifest)]
    stands = standing and ("committed" in outcomes or not (certainly or _is_passed_over(standing, tables, manifest)))
    return bool(stands) or any(row["isolation"] == "read_committed" for row in polls)


def _is_passed_over(rows: list[Row], tables: PlacedTables, manifest: Manifest) -> bool:
    """Whether a read_committed session has a row below one of these, and above it a row that is in the final log.

    No such session may have a row at its offset.
    """
    for row in rows:
        here = [one for one in tables.polls_at(place_of(row)) if one["isolation"] == "read_committed"]
        if any(one["offset"] == row["offset"] and not is_final(one, manifest) for one in here):
            continue
        below = {(one["consumer"], one["session"]) for one in here if one["offset"] < row["offset"]}
        above = [one for one in here if one["offset"] > row["offset"] and not is_final(one, manifest)]
        if any((one["consumer"], one["session"]) in below and is_in_final_read(one, tables, manifest) for one in above):
            return True
    return False


def can_judge(copy: Row, tables: PlacedTables, manifest: Manifest) -> bool:
    """Whether the final read shows all that became of an input and its copies."""
    ends = manifest.final_offsets
    read = {f"{row['topic']}-{row['partition']}" for row in tables["polls"] if is_final(row, manifest)}
    at = f"{copy['topic']}-{copy['partition']}"
    topics = {copy["topic"], copy["copied_to"]}
    named = {name for name in ends if name.rpartition("-")[0] in topics}
    unread = {name for name in named if ends[name].high_watermark > ends[name].log_start and name not in read}
    is_moved = not topics.isdisjoint(compacted_topics(tables)) or any(ends[name].log_start > 0 for name in named)
    needed = {at} | {name for name in named if name.rpartition("-")[0] == copy["copied_to"]}
    return at in ends and not is_moved and unread.isdisjoint(needed)
