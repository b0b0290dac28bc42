"""KIP-966: the leader takes a follower out of the ISR that lags for longer than replica.lag.time.max.ms.

Judged where a step cut a follower off from the leader, so that no fetch arrives, and the leader not from a controller.
The leader acked a record with acks=1 that was sent after the cut, so the follower lacks it. A session is allowed beside
the lag time, and the leader must have gone on to ack records all the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from analysis.judge.rules.clause import Clause, state_row
from analysis.judge.rules.duties.duty import PATIENCE, SECOND_NS, Duty, finds_duties, lasting_partitions
from analysis.record.files import of_partition
from analysis.record.record import Record
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.step import LinkProof


@finds_duties
def _check(record: Record) -> Iterator[Duty]:
    known = record.readable_scenario
    if known is None:
        return
    within_ns = int((known.cluster.replica_lag_max_s + record.session_timeout_s) * SECOND_NS)
    for step in record.proven_steps or ():
        cut_ns, ends = step.effect_ns, _cut_ends(step)
        if cut_ns is None or not ends:
            continue
        for (topic, partition), states in lasting_partitions(record).items():
            before = record.timeline.state_at_time(topic, partition, cut_ns)
            controllers = record.manifest.topology.controllers
            if before is None or any(frozenset({before.leader, one}) in ends for one in controllers):
                continue
            later = [one for one in states if one.metadata_offset > before.metadata_offset]
            for follower in sorted({*before.isr} - {before.leader}):
                if frozenset({before.leader, follower}) in ends:
                    yield from _duty_on(record, step, cut_ns, follower, before, later, within_ns)


def _duty_on(
    record: Record,
    step: StepEntry,
    cut_ns: int,
    follower: int,
    before: PartitionState,
    later: Sequence[PartitionState],
    within_ns: int,
) -> Iterator[Duty]:
    kept_ns = next((one.at_ns for one in later if follower not in one.isr), None)
    over = [one.at_ns for one in later if (one.leader, one.leader_epoch) != (before.leader, before.leader_epoch)]
    over += [one.at_ns for one in record.timeline.brokers if one.broker == before.leader and one.at_ns > cut_ns]
    over += [] if step.healed_ns is None else [step.healed_ns]
    in_time = kept_ns is not None and kept_ns <= cut_ns + PATIENCE * within_ns
    acked = [cut_ns] if in_time else _acked(record, before, cut_ns)
    if acked:
        yield Duty(
            about=state_row(before, follower=follower, step=step.index),
            since_ns=acked[0],
            within_ns=within_ns,
            kept_ns=kept_ns,
            over_ns=min(over, default=None),
            alive_ns=acked,
            despite=(step.index,),
        )


def _cut_ends(step: StepEntry) -> set[frozenset[int]]:
    """Return the pairs of nodes between which packets were dropped; one direction is enough to end a connection."""
    cuts = step.figures(LinkProof).cuts
    return set() if cuts is None else {frozenset(pair) for pair in cuts.pairs}


def _acked(record: Record, state: PartitionState, since_ns: int) -> list[int]:
    """Return when records were acked with acks=1 that were sent after some time, oldest first."""
    where = of_partition(state.topic, state.partition) & (pc.field("acks") == 1) & (pc.field("status") == "acked")
    where &= pc.field("sent_ns") > since_ns
    return sorted(row["done_ns"] for batch in record.batches("sends", ["done_ns"], where) for row in batch.to_pylist())


RULE = Clause(
    kip="KIP-966",
    check=_check,
    applies=lambda judged: any(_cut_ends(one) for one in judged.record.proven_steps or ()),
    parts=("sends",),
    needed="never",
    compares_times=True,
    unknown_when=(
        "a follower that is cut off stays in the ISR, and the leader did not ack records with acks=1 all the time, or "
        "a controller may not have been alive"
    ),
    example="""
        Broker 3 is cut off from leader 1 at 5 s. The leader acks records until 45 s, and broker 3 is in the ISR still.
        setting: sends
        partitions: leader=1
        steps: step=partition nodes=1,3 at=5 cuts=1>3,3>1
        sends: acks=1 0=0 1=1 2=2 3=3 4=4 5=5 6=6 7=7 8=8 9=9 10=10 11=11 12=12 13=13
            14=14 15=15 16=16 17=17 18=18 19=19 20=20 21=21 22=22 23=23 24=24 25=25
        clock: from=0 to=80
        gives: follower=3 isr=1,2,3
    """,
)
