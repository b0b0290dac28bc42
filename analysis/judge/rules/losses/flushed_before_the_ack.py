"""A record of a topic with flush.messages=1 is on a replica's disk before the replica acks it or fetches further.

A power loss takes what was not flushed, and Ebbtide measures each log right before and right after it. So an acked
record in the range that a log lost had not been flushed. It counts only if the replica must have acked it:

- It was acked with acks=all under the leader epoch that was in force at the power loss: it was sent after that epoch
  began, and acked before the process ended.
- The replica was in the ISR in each state of that epoch, and in the state before.

An unclean election, trouble with the replica's disk, or whatever deletes records leave the clause unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow.compute as pc

from analysis.judge.history.contact import LEARNS_WITHIN_NS
from analysis.judge.history.evidence import Row
from analysis.judge.history.steps import MeasuredLoss, measured_power_losses
from analysis.judge.rules.clause import Clause, Finding, Judged, finding
from analysis.record.files import of_partition
from analysis.record.record import Record
from ebbtide.record.rows import ConfigChange, PartitionState
from ebbtide.scenario.steps.admin import DeleteRecordsStep
from ebbtide.scenario.steps.table import CLOCK_KINDS, DISK_TROUBLES, LOSES_RECORDS

FLUSH = "flush.messages"
_DELETE = ("retention.", "cleanup.policy", "log.retention.", "log.cleanup.policy")


class _Taken(NamedTuple):
    """A power loss took a replica, whose process ended at `ended_ns`, in a leader epoch in force since `since_ns`."""

    log: MeasuredLoss
    state: PartitionState
    since_ns: int
    ended_ns: int
    doubt: str | None


def _check(judged: Judged) -> Finding:
    record = judged.record
    taken = [*_taken(record)]
    violations: list[Row] = []
    unknown: list[Row] = []
    for one in taken:
        rows = [*_unflushed(record, one)] if one.log.after < one.log.before else []
        if one.doubt is None:
            violations += rows
        else:
            unknown += [row | {"why": one.doubt} for row in rows[:1]]
    return finding(exercised=len(taken), violations=violations, unknown=unknown)


def _taken(record: Record) -> Iterator[_Taken]:
    """Yield the measured power losses of replicas that had to flush, and were in the ISR."""
    flushed = _flushed_topics(record)
    for log in measured_power_losses(record):
        ended = log.step.times_of(log.broker).ended
        if log.topic not in flushed or ended is None:
            continue
        states = record.timeline.partitions[log.topic, log.partition]
        if not (before := [state for state in states if state.at_ns <= ended.first_ns]):
            continue
        epoch = [state for state in before if state.leader_epoch == before[-1].leader_epoch]
        if all(log.broker in state.isr for state in before[-len(epoch) - 1 :]):
            since_ns = epoch[0].at_ns + LEARNS_WITHIN_NS
            yield _Taken(log, before[-1], since_ns, ended.first_ns, _doubt(record, log.broker, ended.first_ns))


def _flushed_topics(record: Record) -> set[str]:
    """Return the topics that were made with flush.messages=1 and kept it: who learns of a change may learn it late."""
    made_ns: dict[str, int] = {}
    for (topic, _), states in record.timeline.partitions.items():
        made_ns[topic] = min(states[0].at_ns, made_ns.get(topic, states[0].at_ns))
    changes: dict[str, list[ConfigChange]] = {}
    for change in record.timeline.configs:
        kind, _, topic = change.resource.partition(":")
        if kind == "topic" and change.name == FLUSH and topic not in record.timeline.reused_names:
            changes.setdefault(topic, []).append(change)
    return {
        topic
        for topic, found in changes.items()
        if len(found) == 1 and found[0].value == "1" and found[0].at_ns <= made_ns.get(topic, 0)
    }


def _doubt(record: Record, broker: int, until_ns: int) -> str | None:
    """Return why the record may have been lost or replaced in another way; None: it cannot."""
    steps = record.proven_steps or ()
    if any(one.is_from_outside or one.removes_isr for one in record.elections if one.after.at_ns <= until_ns):
        return "an election outside ISR and ELR may have replaced records"
    if any(one.name.startswith(_DELETE) for one in record.timeline.configs) or any(
        one.is_a(DeleteRecordsStep) or one.step in CLOCK_KINDS for one in steps
    ):
        return "a step, a config or a clock that was set may have had records deleted"
    others = (LOSES_RECORDS - {"power-loss"}) | DISK_TROUBLES
    if any(one.step in others and broker in one.nodes and (one.fired_ns or until_ns) < until_ns for one in steps):
        return "a step had troubled the disk before"
    return None


def _unflushed(record: Record, one: _Taken) -> Iterator[Row]:
    """Yield the acked records in the range that a log lost."""
    log, state = one.log, one.state
    where = of_partition(state.topic, state.partition) & (pc.field("acks") == -1) & (pc.field("status") == "acked")
    where &= (pc.field("offset") >= log.after) & (pc.field("offset") < log.before)
    where &= (pc.field("sent_ns") > one.since_ns) & (pc.field("done_ns") < one.ended_ns)
    for batch in record.batches("sends", ["offset", "value", "sent_ns", "done_ns"], where):
        for row in batch.to_pylist():
            about = {"topic": state.topic, "partition": state.partition, "broker": log.broker}
            yield {**about, **row, "log_end_before": log.before, "log_end_after": log.after}


RULE = Clause(
    kip="Kafka's promise",
    check=_check,
    parts=("sends",),
    needed="never",
    compares_times=True,
    unknown_when=(
        "a power loss took acked records, and an unclean election, trouble with the disk or a deletion of records may "
        "explain that. Only in topics that were made with `flush.messages` at 1, where a step measured what a power "
        "loss took"
    ),
    example="""
        Broker 2 is in the ISR. A record is acked at 20 s, and broker 2 loses power at 30 s: its log had the record, and
        has it no more.
        partitions: leader=1
        configs: resource=topic:t name=flush.messages value=1 at=0.9
        sends: 0=1 at=20
        steps: step=power-loss nodes=2 at=30 leo=1,0
        gives: offset=0 broker=2 log_end_after=0
    """,
)
