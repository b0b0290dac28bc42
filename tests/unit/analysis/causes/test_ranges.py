"""Records share an answer only where no time lies between them at which it may change."""

from __future__ import annotations

import pytest

from analysis.causes.evidence import (
    NEVER,
    AckedSends,
    ClusterEvidence,
    Down,
    InForce,
    PartitionEvidence,
    ReadRows,
    Silence,
    column,
)
from analysis.causes.partition import EvidentPartition
from analysis.causes.ranges import answers_of_sends
from ebbtide.record.node_times import Span
from ebbtide.record.rows import BrokerEvent, PartitionState

SECOND = 1_000_000_000
SENT_S = {0: 9.5, 1: 15.0}
"""When the two records were sent: the followers are cut off from their leader from the tenth second on."""


def state(offset: int, at_s: float, leader: int, epoch: int, isr: list[int]) -> PartitionState:
    return PartitionState(
        metadata_offset=offset,
        metadata_epoch=1,
        at_ns=int(at_s * SECOND),
        topic="t",
        partition=0,
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=(10, 20, 21, 25, 26, 30).index(offset),
        replicas=[1, 2, 3],
        isr=isr,
    )


def cluster() -> ClusterEvidence:
    events = [("registered", 0, one, one) for one in (1, 2, 3)] + [("unfenced", 0, one, one + 3) for one in (1, 2, 3)]
    events += [("fenced", 30, 1, 22), ("fenced", 44.5, 2, 27)]
    return ClusterEvidence(
        broker_events=tuple(
            BrokerEvent(
                metadata_offset=offset, at_ns=int(at_s * SECOND), broker=broker, broker_epoch=broker, event=event
            )
            for event, at_s, broker, offset in events
        ),
        downs=tuple(
            Down(broker=broker, ended=Span(first_ns=at_s * SECOND, last_ns=at_s * SECOND))
            for broker, at_s in ((1, 21), (2, 44))
        ),
        silences=(Silence(from_ns=10 * SECOND, until_ns=60 * SECOND, links=frozenset({(1, 2), (1, 3)})),),
    )


def elections_of(values: list[int]) -> dict[int, int | None]:
    """Return the guilty election of each record, where these were lost."""
    sent = column([int(SENT_S[value] * SECOND) for value in values])
    history = PartitionEvidence(
        topic="t",
        partition=0,
        cluster=cluster(),
        states=(
            state(10, 1, 1, 0, [1, 2, 3]),
            state(20, 20, 1, 0, [1]),
            state(21, 30, -1, 1, [1]),
            state(25, 32, 2, 2, [2]),
            state(26, 44.5, -1, 3, [2]),
            state(30, 45, 3, 4, [3]),
        ),
        rules=(InForce(unclean=True),),
        sends=AckedSends(
            value=column(values),
            offset=column(values) + 100,
            acks=column([1] * len(values)),
            sent_ns=sent,
            done_ns=sent + 10_000_000,
        ),
        polls=ReadRows(value=column([98]), offset=column([150]), epoch=column([2]), at_ns=column([40 * SECOND])),
        final=ReadRows(value=column([99]), offset=column([50]), epoch=column([4]), at_ns=column([NEVER])),
    )
    partition = EvidentPartition(history)
    answers, which = answers_of_sends(partition, partition.lost, committed=True)
    return {values[send]: answers[at].guilty for send, at in zip(partition.lost.tolist(), which.tolist(), strict=True)}


@pytest.mark.parametrize("values", [[0], [1], [0, 1], [1, 0]])
def test_only_what_was_sent_after_a_cut_surely_reached_no_follower(values: list[int]) -> None:
    assert elections_of(values) == {value: {0: None, 1: 3}[value] for value in values}
