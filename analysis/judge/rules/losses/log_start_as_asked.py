"""KIP-107: DeleteRecords moves the log start of a partition to the offset that was asked for, and no further.

What a step asked for is held against the log start that the leader gave right after its answer, and against the log
start at the final read. Both log starts of a step come over one connection, so no restart lies between them. A
success that moved the log start less far violates the clause, too.

A log start may be higher for other reasons: retention or compaction deletes records, or a log was lost. Where one of
them is possible, the clause is unknown. A step without `before` asks for the HW, and bounds no log start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged, unknown_finding
from analysis.record.record import Record
from ebbtide.errors import EbbtideError
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.admin import DeleteRecordsStep
from ebbtide.scenario.steps.clock import SetClockStep
from ebbtide.scenario.words import PartitionName

_DELETE = ("retention.", "cleanup.policy")
"""What is in the names of configs by which a broker itself deletes records."""
_RETENTION_NS = 24 * 3600 * 10**9
"""Without such configs, retention deletes no records that are younger than a day."""


def _check(judged: Judged) -> Finding:
    record = judged.record
    steps = record.proven_steps
    if steps is None:
        return unknown_finding("no steps prove what was asked for")
    requests = [*_requests(steps)]
    asked: dict[TopicPartition, list[int | None]] = {}
    for at, step in requests:
        asked.setdefault(at, []).append(step.asked.before)
    # Where a step asked for the HW, no log start is too high.
    highest = {
        at: max(one for one in befores if one is not None) for at, befores in asked.items() if None not in befores
    }
    cases = Cases()
    too_high: list[tuple[TopicPartition, Row]] = []
    highest_before: dict[TopicPartition, int] = {}
    for at, step in requests:
        proof, before = step.figures(DeleteRecordsStep.Proof), step.asked.before
        if (move := proof.log_start) is None or before is None:
            continue
        cases.add()
        highest_before[at] = max(move.old, highest_before.get(at, move.old))
        row = _row(at, before, move.new) | {"step": step.index, "log_start_before": move.old}
        if proof.answer == "NONE" and move.new < before:
            cases.add(row)
        elif at in highest and move.new > max(move.old, highest[at]):
            too_high.append((at, row))
    for at, before in highest.items():
        end = record.manifest.final_offsets.get(str(at))
        if end is not None and not record.log_losses:
            cases.add()
            if end.log_start > max(before, highest_before.get(at, before)):
                too_high.append((at, _row(at, before, end.log_start)))
    for at, row in too_high:
        cases.add(row, why=_why_deleted(record, at.topic, steps))
    return cases.finding()


def _row(at: TopicPartition, asked: int, log_start: int) -> Row:
    return {"topic": at.topic, "partition": at.partition, "asked": asked, "log_start": log_start}


def _requests(steps: Sequence[StepEntry]) -> Iterator[tuple[TopicPartition, StepEntry]]:
    """Yield the steps that asked Kafka to delete records, each with its partition."""
    for step in steps:
        if step.is_a(DeleteRecordsStep) and step.fired_ns is not None:
            try:
                at = PartitionName(step.asked.partition or "").at
            except EbbtideError:
                continue
            yield TopicPartition(*at), step


def _why_deleted(record: Record, topic: str, steps: Sequence[StepEntry]) -> str | None:
    """Return why Kafka itself may have deleted records of a topic; None: it cannot have."""
    known, manifest = record.readable_scenario, record.manifest
    if known is None or manifest.start_ns is None or manifest.end_ns is None:
        return "the scenario or the times of the run are missing: retention may have deleted the records"
    asked = (known.cluster, known.topics, [step.parameters for step in steps])
    set_anywhere = str(msgspec.json.encode(asked), "utf-8") + " ".join(one.name for one in record.timeline.configs)
    if any(name in set_anywhere for name in _DELETE):
        return "a config of retention or compaction was set"
    if manifest.end_ns - manifest.start_ns > _RETENTION_NS:
        return "the run was so long that retention may have deleted the records"
    if any(step.is_a(SetClockStep) for step in steps) or record.unsure_spans:
        return "a clock was set: retention may have deleted the records"
    if topic not in {one.topic for one in known.producers}:
        return "no producer of the scenario sends to the topic, so the age of its records is not known"
    return None


RULE = Clause(
    kip="KIP-107",
    check=_check,
    applies=lambda judged: any(_requests(judged.record.split_steps or ())),
    reads_timeline=False,
    needed="never",
    unknown_when=(
        "a log start is higher than a step asked for, and retention, compaction, a clock that was set or other "
        "clients may explain it. Only with the step `delete-records` and `before`"
    ),
    example="""
        A step asked broker 1 to delete the records below 500. The log then starts at 1011.
        setting: sends
        steps: step=delete-records nodes=1 at=30 partition=t-0 before=500 log_start=0,1011
        gives: asked=500 log_start=1011
    """,
)
