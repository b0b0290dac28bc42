"""verdict.json lists all anomalies that may have a cause in one list; the others are views of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from clause_cases import lost_range
from coordinator_stories import last_coordinator_standing
from judge_records import Story, last_replica_standing, only_loss
from stale_joins import stale_join
from worked_examples import Example, record_of

from analysis.judge.causes.gone_topics import of_gone_topics
from analysis.judge.history.evidence import AttributedAnomaly, Attribution
from analysis.judge.outcome.reasons import elections_in_brackets, group_alike, places_of, reasons_of
from analysis.reconcile.model import LostRange
from analysis.record.elections import ElectionEvent
from ebbtide.record.own_producers import WireFacts
from ebbtide.record.rows import PartitionState
from ebbtide.record.verdict import Cause, Verdict
from ebbtide.rules.table import COMMIT_LOST, LOST


def counted(verdict: Verdict) -> Counter[tuple[object, ...]]:
    """How many anomalies of each kind, place, cause and election are blamed, of those with a known cause."""
    found: Counter[tuple[object, ...]] = Counter()
    for one in verdict.blamed:
        if one.cause is not None:
            found[one.kind, one.topic, one.partition, one.cause, one.election] += one.count
    return found


def test_each_loss_is_in_the_list_with_its_cause_and_why(tmp_path: Path) -> None:
    verdict = last_replica_standing(tmp_path).judge()
    losses: Counter[tuple[object, ...]] = Counter()
    for one in verdict.losses:
        losses[LOST, one.topic, one.partition, one.cause, one.election] += one.count
    assert losses
    assert counted(verdict) == losses
    assert all(one.why for one in verdict.blamed)
    assert {(one.first, one.last) for one in verdict.blamed} == {
        (one.first_offset, one.last_offset) for one in verdict.losses
    }


def test_a_lost_commit_is_in_the_list_at_the_partition_that_its_group_reads(tmp_path: Path) -> None:
    story = last_coordinator_standing(tmp_path)
    story.lose_commit(acked_s=5, asked_s=25, epoch=2)
    verdict = story.judge()
    (lost,) = verdict.commits
    (blamed,) = [one for one in verdict.blamed if one.kind == COMMIT_LOST]
    assert (blamed.topic, blamed.partition, blamed.group) == (lost.topic, lost.partition, lost.group)
    assert (blamed.count, blamed.cause, blamed.election) == (lost.count, lost.cause, lost.election)


@pytest.mark.parametrize("missing", ["partitions"])
def test_a_loss_without_a_known_cause_is_in_the_list_and_in_no_other(tmp_path: Path, missing: str) -> None:
    verdict = last_replica_standing(tmp_path).judge(missing=(missing,))
    assert verdict.losses == []
    assert [(one.kind, one.cause) for one in verdict.blamed] == [(LOST, None)]
    assert verdict.blamed[0].why


# What was lost with a topic that the controllers no longer know is theirs, unless a step touched their disks.


def cause(folder: Path, steps: str, topic: str = "t", wire: WireFacts | None = None) -> tuple[str | None, str]:
    """Return the cause of a loss of t-0 and its reason, where one topic is gone."""
    record = record_of(Example({"steps": [steps]}, "", ""), folder / "record")
    record.manifest = msgspec.structs.replace(record.manifest, gone_topics=(topic,), wire=wire)
    elsewhere = Attribution(cause="unclean-election", election=None, why="an election")
    (one,) = of_gone_topics(record, [AttributedAnomaly(items=lost_range(0, 8), committed=True, attribution=elsewhere)])
    return one.attribution.cause, one.attribution.why


@pytest.mark.parametrize("steps", ["step=kill nodes=100,101,102 at=5", "step=wipe-disk nodes=1,2,3 at=5"])
def test_without_a_step_on_the_disks_of_controllers_nothing_explains_it(tmp_path: Path, steps: str) -> None:
    assert cause(tmp_path, steps)[0] == "unexplained"


def test_where_the_disks_of_controllers_were_replaced_nobody_knows_a_cause(tmp_path: Path) -> None:
    found, why = cause(tmp_path, "step=wipe-disk nodes=100,101,102 at=5")
    assert found is None
    assert "step 0 (wipe-disk) may explain it" in why


def test_other_topics_keep_their_cause(tmp_path: Path) -> None:
    assert cause(tmp_path, "step=kill nodes=1 at=5", topic="u")[0] == "unclean-election"


def test_a_client_through_published_ports_may_have_deleted_it(tmp_path: Path) -> None:
    kill = "step=kill nodes=100,101,102 at=5"
    assert cause(tmp_path / "deletes", kill, wire=WireFacts(unrecorded={"DeleteTopics": 1}))[0] is None
    assert cause(tmp_path / "others", kill, wire=WireFacts(unrecorded={"CreateTopics": 1}))[0] == "unexplained"


# How old the oldest lost record was when it was lost, and by which event.


def _age(story: Story) -> tuple[float | None, str | None]:
    loss = only_loss(story.judge())
    return loss.oldest_s, loss.lost_by


def test_a_power_loss_of_the_last_replica_lost_the_records_not_the_later_election(tmp_path: Path) -> None:
    # Acked at 5 s, power lost at 12 s, elected at 21 s.
    assert _age(last_replica_standing(tmp_path)) == (7, "disk")


def test_a_record_of_an_unclean_election_is_lost_by_the_election(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.config(0, "topic:t", "unclean.leader.election.enable", "true")
    story.state(1)
    story.state(10, isr=[1])
    story.state(15, leader=-1)
    story.state(21, leader=2, isr=[2], leader_recovery_state=1)
    story.lose(0, 999, acked_s=12)
    assert only_loss(story.judge()).cause == "unclean-election"
    assert _age(story) == (9, "election")


def test_a_disk_that_was_replaced_before_the_election_of_its_broker_lost_no_record_yet(tmp_path: Path) -> None:
    # Broker 1 still had the records until broker 2 led, at 18 s.
    assert _age(stale_join(tmp_path, {"metadata.version": 8})) == (13, "election")


def test_of_two_power_losses_only_one_took_the_record(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    # Power was lost again, when the log was empty already.
    story.step(13, "power-loss", 1, lost_bytes=1, logs={"t-0": {"leo_before": 0, "leo_after": 0}})
    assert _age(story) == (7, "disk")


def test_without_a_cause_no_event_is_known(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.steps = None
    verdict = story.judge()
    assert [(one.oldest_s, one.lost_by) for one in verdict.losses] == []


# Partitions that lost records for one reason are in one sentence, with how many they are.


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
        items=lost_range(0, 99, topic=topic, partition=partition),
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
