"""KIP-107: a follower takes over the leader's log start with its next fetch, so records that were deleted stay so.

A step moved the leader's log start, as the leader itself said. The partition's last leader must not serve an older log
start at the final read, if it knew the newer one and cannot have forgotten it:

- It led at that time. Or it was in the ISR in each state of that leader epoch, and a record was acked with acks=all
  that was sent after the leader had said its log start. With that record it fetched the log start.
- It did not register again, because a log start is written to disk once a minute only.
- Nobody else has led since the end of that leader epoch.
"""

from __future__ import annotations

import pyarrow.compute as pc

from analysis.judge.rules.clause import Cases, Clause, Finding, Judged
from analysis.record.clock_steps import CLOCKS_AGREE_NS
from analysis.record.files import of_partition
from analysis.record.record import Record
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.log_losses import log_start_moves
from ebbtide.scenario.steps.admin import DeleteRecordsStep
from ebbtide.scenario.steps.step import LogStartMove


def _check(judged: Judged) -> Finding:
    record = judged.record
    cases = Cases()
    for at, move in log_start_moves(record.proven_steps or ()):
        end = record.manifest.final_offsets.get(str(at))
        if end is None or at.topic in record.timeline.reused_names:
            continue
        leader = states[-1].leader if (states := record.timeline.states(*at)) else -1
        row = {"topic": at.topic, "partition": at.partition, "leader": leader, "log_start": end.log_start}
        row |= {"moved_to": move.new, "answered_ns": move.answered_ns}
        cases.add(row if end.log_start < move.new and _must_know(record, at, move, leader) else None)
    return cases.finding()


def _must_know(record: Record, at: TopicPartition, move: LogStartMove, broker: int) -> bool:
    """Whether a broker must have taken over a log start, and cannot have forgotten it."""
    again = [one for one in record.timeline.brokers if one.broker == broker and one.event == "registered"]
    if (record.manifest.log_dirs or 1) > 1 or any(one.at_ns > move.asked_ns - CLOCKS_AGREE_NS for one in again):
        return False
    states = record.timeline.states(*at)
    later = [state for state in states if state.leader_epoch > move.leader_epoch]
    if any(state.leader not in (broker, -1) for state in later):
        return False
    epoch = [state for state in states if state.leader_epoch == move.leader_epoch]
    if any(broker not in state.isr for state in epoch):
        return False
    until_ns = later[0].at_ns - CLOCKS_AGREE_NS if later else None
    return bool(epoch) and (epoch[0].leader == broker or _is_acked(record, at, move.answered_ns, until_ns))


def _is_acked(record: Record, at: TopicPartition, since_ns: int, until_ns: int | None) -> bool:
    """Whether a record was sent and acked with acks=all between two times."""
    where = of_partition(*at) & (pc.field("acks") == -1) & (pc.field("status") == "acked")
    where &= pc.field("sent_ns") > since_ns
    if until_ns is not None:
        where &= pc.field("done_ns") < until_ns
    return any(True for _ in record.batches("sends", ["sent_ns"], where))


RULE = Clause(
    kip="KIP-107",
    check=_check,
    applies=lambda judged: any(step.is_a(DeleteRecordsStep) for step in judged.record.split_steps or ()),
    parts=("sends",),
    needed="never",
    compares_times=True,
    unknown_when=(
        "`sends/` is not as the run left it. Only with the step `delete-records`, where the last leader must have "
        "known the log start, and was not restarted"
    ),
    example="""
        Broker 1 moves its log start to 500. Broker 2 fetches a record from it, and leads then. Its log starts at 0.
        partitions: leader=1; at=50 leader=2 isr=2,3
        sends: 600=1 at=40
        polls: final 600=1
        steps: step=delete-records nodes=1 at=30 partition=t-0 before=500 log_start=0,500
        gives: leader=2 log_start=0 moved_to=500
    """,
)
