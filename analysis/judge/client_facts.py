"""What clients saw in the states that a rule on the HW is about, counted: below min ISR, and while a join is pending.

Both are stretches in which a leader surely knew of the state (`hw_check`). Below min ISR acks=all must be refused,
acks=0 and acks=1 are answered, and whether the HW moves depends on the release. While the leader's AlterPartition is
held on the wire the controller may at any time grant what it asks for, so that the HW must wait for the maximal ISR.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from analysis.judge.evidence import Evidence
from analysis.judge.hw_check import LEARNS_WITHIN_NS, Interval, Touch, first_and_highest, intervals_below
from harness.errors import UsageError
from harness.record.steps import StepEntry
from harness.record.tables import TABLES, table_files
from harness.scenario.model import CUT_KINDS

_ACKS = {"0": 0, "1": 1, "all": -1}
_BELOW = "below-min-isr"
_HELD = "while-alter-partition-held"


def client_facts(record: Path, evidence: Evidence, touch: Touch) -> Counter[str]:
    """The facts, each with its count; those that need a table which the record lacks are left out."""
    facts: Counter[str] = Counter()
    for suffix, intervals in ((_BELOW, intervals_below(evidence, touch)), (_HELD, _held(evidence, touch.steps))):
        _count_sends(record, intervals, suffix, facts)
        _count_watermarks(record, intervals, suffix, facts)
    return facts


def _count_sends(record: Path, intervals: Sequence[Interval], suffix: str, facts: Counter[str]) -> None:
    """`acked-`: sent and acked within a stretch; `not-acked-`: sent within it, and not acked before it ended."""
    if not table_files(record, "sends"):
        return
    for word, acks in _ACKS.items():
        sent = pc.field("acks") == acks
        acked, waiting = f"acked-{suffix}-acks-{word}", f"not-acked-{suffix}-acks-{word}"
        facts[acked] += 0
        facts[waiting] += 0
        for interval in intervals:
            within = sent & _within(interval, "sent_ns")
            done = _within(interval, "done_ns") & (pc.field("status") == "acked")
            in_time = _count(record, "sends", within & done)
            facts[acked] += in_time
            facts[waiting] += _count(record, "sends", within) - in_time


def _count_watermarks(record: Path, intervals: Sequence[Interval], suffix: str, facts: Counter[str]) -> None:
    """Stretches in which the leader served one HW only, though its log grew, or served a higher one later.

    `read-`: rows that a consumer got within a stretch, at or above the HW that was served at its start.
    """
    files = table_files(record, "watermarks")
    if not files:
        return
    frozen, advanced, read = f"hw-frozen-{suffix}", f"hw-advanced-{suffix}", f"read-{suffix}"
    facts.update({frozen: 0, advanced: 0, read: 0})
    for interval in intervals:
        seen = first_and_highest(files, interval)
        if seen is None:
            continue
        first, highest = seen
        if highest["high_watermark"] > first["high_watermark"]:
            facts[advanced] += 1
        elif _log_grew(record, interval):
            facts[frozen] += 1
        above = (pc.field("offset") >= first["high_watermark"]) & (pc.field("polled_ns") > first["at_ns"])
        if table_files(record, "polls"):
            facts[read] += _count(record, "polls", above & _within(interval, "polled_ns"))


def _log_grew(record: Path, interval: Interval) -> bool:
    """Whether the leader took a record with acks=1 within the stretch."""
    if not table_files(record, "sends"):
        return False
    taken = (pc.field("acks") == 1) & (pc.field("status") == "acked")
    return _count(record, "sends", taken & _within(interval, "sent_ns") & _within(interval, "done_ns")) > 0


def _held(evidence: Evidence, steps: Sequence[StepEntry]) -> list[Interval]:
    """The stretches in which a leader's AlterPartition was held, from the last cut on: that may end fetching."""
    found = []
    for step in steps:
        if step.step != "hold-request" or step.parameters.get("api") != "AlterPartition":
            continue
        if step.effect_ns is None or step.healed_ns is None:
            continue
        cuts = [
            cut.effect_ns
            for cut in steps
            if cut.step in CUT_KINDS and cut.effect_ns is not None and step.effect_ns <= cut.effect_ns < step.healed_ns
        ]
        start_ns = max([step.effect_ns, *cuts]) + LEARNS_WITHIN_NS
        for topic, partition in evidence.timeline.partitions:
            state = evidence.timeline.at_time(topic, partition, step.effect_ns)
            if state is not None and state.leader in step.nodes and start_ns < step.healed_ns:
                found.append(
                    Interval(
                        topic=topic,
                        partition=partition,
                        leader=state.leader,
                        leader_epoch=state.leader_epoch,
                        metadata_offset=state.metadata_offset,
                        min_isr=0,
                        isr=state.isr,
                        start_ns=start_ns,
                        end_ns=step.healed_ns,
                    )
                )
    return found


def _within(interval: Interval, column: str) -> pc.Expression:
    where = (
        (pc.field("topic") == interval.topic)
        & (pc.field("partition") == interval.partition)
        & (pc.field(column) >= interval.start_ns)
    )
    return where if interval.end_ns is None else where & (pc.field(column) < interval.end_ns)


def _count(record: Path, table: str, where: pc.Expression) -> int:
    files = [str(file) for file in table_files(record, table)]
    try:
        return int(ds.dataset(files, format="parquet", schema=TABLES[table]).count_rows(filter=where))
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"the table {table} cannot be read", where=str(record), got=str(error)) from None
