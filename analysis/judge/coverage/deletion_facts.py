"""Counts the records that steps deleted on purpose, those that came back, and those that Kafka's retention deleted.

A broker writes its log starts to a file once a minute. Where every replica ends before that, the
log begins again at an earlier offset, and what was deleted can be read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.record.record import Record
from ebbtide.coverage_fact import Fact
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.log_losses import log_start_moves
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.admin import DeleteTopicStep

FACTS = (
    Fact("steps", "deleted-records", "offsets by which steps moved log starts (DeleteRecords), as the leader said"),
    Fact(
        "steps", "deleted-records-that-came-back", "such offsets that the final log has again", "", ("deleted-records",)
    ),
    Fact(
        "steps", "expired-records", "offsets below final log starts that no step moved: retention deleted these records"
    ),
)


def count(record: Record) -> Mapping[str, int]:
    """Count the facts."""
    steps = record.split_steps
    return {**deletion_facts(record, steps), "expired-records": count_expired_records(record, steps)}


def deletion_facts(record: Record, steps: Sequence[StepEntry] | None) -> Mapping[str, int]:
    """Count deleted offsets, and those of them that the final log has again.

    Without a final read of each such partition, what came back is not known and left out. So it is for a topic that
    a step deleted: created again, its log begins at 0. What lies above the final HW did not come back: nobody can
    read it.
    """
    if steps is None:
        return {}
    moves = list(log_start_moves(steps))
    counts = {"deleted-records": sum(move.new - move.old for _, move in moves)}
    highest: dict[TopicPartition, int] = {}
    for at, move in moves:
        highest[at] = max(move.new, highest.get(at, 0))
    deleted = {step.asked.topic for step in steps if step.is_a(DeleteTopicStep)}
    ends = record.manifest.final_offsets
    if all(str(at) in ends and at.topic not in deleted for at in highest):
        counts["deleted-records-that-came-back"] = sum(
            max(0, min(log_start, ends[str(at)].high_watermark) - ends[str(at)].log_start)
            for at, log_start in highest.items()
        )
    return counts


def count_expired_records(record: Record, steps: Sequence[StepEntry] | None) -> int:
    """Count the offsets below the final log starts that no step moved."""
    moved = {str(at) for at, _ in log_start_moves(steps or ())}
    ends = record.manifest.final_offsets
    return sum(end.log_start for at, end in ends.items() if at not in moved)
