"""Partitions that lost records for one reason are in one sentence, with how many they are."""

from __future__ import annotations

import pytest

from analysis.judge.history.evidence import (
    AttributedAnomaly,
    Attribution,
)
from analysis.judge.outcome.reasons import elections_in_brackets, group_alike, places_of, reasons_of
from analysis.reconcile.model import LostRange
from analysis.record.elections import ElectionEvent
from ebbtide.record.rows import PartitionState
from ebbtide.record.verdict import Cause

WHY = "the last ISR member lost its log"


def state(partition: int, leader: int, epoch: int) -> PartitionState:
    return PartitionState(
        metadata_offset=40 + partition,
        metadata_epoch=1,
        at_ns=0,
        topic="t",
        partition=partition,
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=epoch,
        replicas=(1, 2, 3),
        isr=(leader,),
    )


def loss(
    partition: int,
    *,
    leader: int = 2,
    epoch: int = 2,
    why: str = WHY,
    topic: str = "t",
    cause: Cause | None = "last-replica-standing",
) -> AttributedAnomaly[LostRange]:
    election = ElectionEvent(before=state(partition, 1, 1), after=state(partition, leader, epoch), road="isr")
    return AttributedAnomaly(
        items=LostRange(
            kind="lost",
            topic=topic,
            partition=partition,
            acks=-1,
            committed=True,
            first_offset=0,
            last_offset=99,
            count=100,
            first_done_ns=0,
            last_done_ns=0,
        ),
        committed=True,
        attribution=Attribution(cause=cause, election=election, why=why),
    )


def test_six_alike_partitions_are_one_sentence() -> None:
    losses = [loss(partition, leader=1 + partition % 3, epoch=2 + partition // 3) for partition in range(6)]
    assert reasons_of(losses) == [
        f"t-0 to t-5 (6 partitions), 600 lost records, last-replica-standing: {WHY} "
        "(elections of brokers 1, 2, 3, leader epochs 2 to 3)"
    ]


def test_one_partition_is_named_as_before() -> None:
    assert reasons_of([loss(0), loss(0)]) == [
        f"t-0, 200 lost records, last-replica-standing: {WHY} (election of broker 2, leader epoch 2)"
    ]


def test_another_reason_or_a_second_election_of_a_partition_is_a_sentence_of_its_own() -> None:
    losses = [loss(0), loss(1), loss(1, epoch=5), loss(2, why="another"), loss(3, cause=None)]
    assert [sentence.split(",")[0] for sentence in reasons_of(losses)] == ["t-0 and t-1", "t-1", "t-2", "t-3"]


def test_the_first_elections_of_all_partitions_are_one_sentence_in_whatever_order_their_losses_come() -> None:
    losses = [loss(0, epoch=5), loss(0), loss(1), loss(1, epoch=5)]
    assert [elections_in_brackets(alike) for alike in group_alike(losses)] == [
        " (election of broker 2, leader epoch 5)",
        " (election of broker 2, leader epoch 2)",
    ]


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ([("t", 4)], "t-4"),
        ([("t", 4), ("t", 0)], "t-0 and t-4"),
        ([("t", 0), ("t", 1), ("t", 3)], "t-0, t-1 and t-3 (3 partitions)"),
        ([("t", n) for n in range(12)], "t-0 to t-11 (12 partitions)"),
        ([("t", 2 * n) for n in range(12)], "t-0, t-2, t-4, t-6 and 8 more (12 partitions)"),
        ([("u", 0), ("t", 0), ("t", 1), ("t", 2)], "t-0 to t-2 and u-0 (4 partitions)"),
    ],
)
def test_partitions_in_a_row_are_a_range(places: list[tuple[str, int]], text: str) -> None:
    [alike] = group_alike(loss(partition, topic=topic) for topic, partition in places)
    assert places_of(alike) == text


def test_elections_of_one_broker_in_one_epoch_are_told_as_one() -> None:
    [alike] = group_alike([loss(0), loss(1)])
    assert elections_in_brackets(alike) == " (election of broker 2, leader epoch 2)"
