"""Counts records that clients sent."""

from __future__ import annotations

from collections import Counter

import pyarrow.compute as pc

from analysis.record.record import Record


def is_acked_with(acks: int) -> pc.Expression:
    """Match the sends that were acked with these acks."""
    return (pc.field("acks") == acks) & (pc.field("status") == "acked")


def count_acks_0_sends(record: Record) -> int:
    """Count the records sent with acks=0.

    They count as acked, but no broker acked them.
    """
    if not record.has("sends"):
        return 0
    return sum(batch.num_rows for batch in record.batches("sends", ["acks"], is_acked_with(0)))


def count_copies(record: Record) -> Counter[str]:
    """Count the records that copiers sent, by group; empty without copies."""
    counts: Counter[str] = Counter()
    if record.has("copies"):
        for batch in record.batches("copies", ["group"]):
            counts.update(batch.column("group").to_pylist())
    return counts
