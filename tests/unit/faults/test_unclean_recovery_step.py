"""An unclean recovery from outside: whom it asks, whom it has elected, and one clear outcome for each bad input."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import evidence_builders as build
import pytest
from plain_steps import step_of

from cluster.kafka_api.admin_requests import AdminAnswer, AdminRequest, Elect, Reassign
from cluster.kafka_api.replica_log import ReplicaAnswers, ReplicaLogInfo
from ebbtide.errors import HarnessError
from ebbtide.kraft.image import MetadataImage
from ebbtide.logs.segments import TopicPartition
from faults.base import Effect
from faults.recovery import Recovery
from harness.runner.recovery import choose
from harness.runner.view import ClusterView

LEADERLESS_EPOCH = 1


class Kafka:
    """A leaderless partition of brokers 1, 2 and 3, whose leader was 1; 2 and 3 are alive.

    `ends` has the last epoch and the LEO that each broker answers with; a broker without them is silent. `on_election`
    is called before an election, and may write records of its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._batches: list[bytes] = []
        self._offset = 0
        self.ends: dict[int, tuple[int, int]] = {2: (0, 115), 3: (0, 145)}
        self.volumes: dict[int, tuple[int, int]] = {}
        self.replica_epoch = LEADERLESS_EPOCH
        self.asked: list[AdminRequest] = []
        self.refuses: str | None = None
        self.on_election: Callable[[], None] = lambda: None
        self.replicas = (1, 2, 3)
        self.leader, self.leader_epoch = -1, LEADERLESS_EPOCH
        self.write(
            build.topic("t", "T"),
            build.partition("T", 0, (1, 2, 3), 1),
            build.config(2, "t", "min.insync.replicas", "1"),
            *(build.register(one, 10 + one, "I", fenced=False) for one in (1, 2, 3)),
            build.change("T", 0, isr=(1,)),
            build.change("T", 0, leader=-1, isr=()),
            build.registration_change(1, 11, fenced=1),
        )
        self._view = ClusterView({100: folder / "log"}, {100: folder / "mirror"}, (1, 2, 3))

    def write(self, *messages: bytes) -> None:
        self._batches.append(build.metadata_batch(self._offset, *messages))
        self._offset += len(messages)
        build.write_log(self._folder / "log", *self._batches)

    def comes_back_unclean(self, broker: int, epoch: int) -> None:
        """Let a broker register after an unclean shutdown, and be unfenced."""
        self.write(
            build.register(broker, epoch, "J", fenced=True),
            build.registration_change(broker, epoch, fenced=-1),
        )

    def elects(self, broker: int) -> None:
        self.leader, self.leader_epoch = broker, self.leader_epoch + 1
        self.write(build.change("T", 0, leader=broker, isr=(broker,)))

    def look(self) -> MetadataImage:
        self._view.poll()
        return self._view.image

    def administer(self, request: AdminRequest, timeout_s: float) -> AdminAnswer:
        self.asked.append(request)
        if self.refuses is not None:
            return AdminAnswer(broker="b", error=self.refuses)
        if isinstance(request, Reassign):
            assert request.replicas is not None
            self.replicas = request.replicas
            self.write(build.change("T", 0, replicas=request.replicas))
        elif isinstance(request, Elect):
            self.on_election()
            self.elects(next(one for one in self.replicas if self.look().brokers[one].event == "unfenced"))
        return AdminAnswer(broker="b", error="NONE")

    def ask_replicas(self, at: TopicPartition, replicas: Sequence[int]) -> Kafka:
        assert (at, tuple(replicas)) == (TopicPartition("t", 0), (1, 2, 3))
        return self

    def answers(self) -> ReplicaAnswers:
        now_ns = time.time_ns()
        return ReplicaAnswers(
            asking=True,
            logs={
                broker: ReplicaLogInfo(
                    broker=broker,
                    log_end_offset=leo,
                    last_epoch=epoch,
                    current_leader_epoch=max(self.replica_epoch, self.leader_epoch if self.leader == broker else 0),
                    asked_ns=now_ns,
                    at_ns=now_ns,
                )
                for broker, (epoch, leo) in self.ends.items()
            },
            errors={broker: "timed out" for broker in (1, 2, 3) if broker not in self.ends},
        )

    def close(self) -> None: ...

    def data_dirs(self, broker: int) -> tuple[Path, ...]:
        return (self.data_dir(broker),)

    def data_dir(self, broker: int) -> Path:
        folder = self._folder / f"broker-{broker}"
        if broker in self.volumes:
            epoch, leo = self.volumes[broker]
            build.write_log(folder / "t-0", build.plain_batch(leo - 1, b"last", epoch=epoch))
        return folder


@pytest.fixture
def kafka(tmp_path: Path) -> Kafka:
    return Kafka(tmp_path)


def recover(kafka: Kafka, strategy: str = "proactive", **keys: object) -> Effect:
    step = step_of("recover", partition="t-0", strategy=strategy, **{"timeout": "50ms", "deadline_s": 0.4, **keys})
    return Recovery(
        step,  # type: ignore[arg-type]
        runtime=kafka,  # type: ignore[arg-type]
        look=kafka.look,
        ask_replicas=kafka.ask_replicas,
        choose=choose,
    ).carry_out()


def test_the_longest_log_is_put_first_and_elected_and_the_order_comes_back(kafka: Kafka) -> None:
    effect = recover(kafka)
    assert effect.effect_ns is not None, effect.why
    assert kafka.asked == [
        Reassign(topic="t", partition=0, replicas=(3, 2, 1)),
        Elect(topic="t", partition=0, unclean=True),
        Reassign(topic="t", partition=0, replicas=(1, 2, 3)),
    ]
    assert (effect.proof["chosen"], effect.proof["record"]["leader"]) == (3, 3)
    assert effect.proof["replies"]["3"]["log_end_offset"] == 145
    assert effect.proof["replies"]["1"]["no_answer"] == "timed out"


def test_a_later_epoch_goes_before_a_longer_log(kafka: Kafka) -> None:
    kafka.ends[2] = (1, 20)
    assert recover(kafka).proof["chosen"] == 2


def test_a_partition_with_a_leader_is_left_alone(kafka: Kafka) -> None:
    kafka.elects(2)
    effect = recover(kafka)
    assert effect.effect_ns is None
    assert str(effect.why).startswith("ELECTION_NOT_NEEDED: the partition has a leader, broker 2")
    assert kafka.asked == []
    assert recover(kafka, expect_error="ELECTION_NOT_NEEDED").effect_ns is not None


def test_without_a_living_replica_nobody_is_elected(kafka: Kafka) -> None:
    kafka.ends = {}
    effect = recover(kafka)
    assert effect.effect_ns is None
    assert "ELIGIBLE_LEADERS_NOT_AVAILABLE: no replica's reply counted within 0.4 s" in str(effect.why)
    assert "broker 2: timed out" in str(effect.why)
    assert kafka.asked == []


def test_proactive_takes_the_first_answer_that_comes_after_the_timeout(kafka: Kafka) -> None:
    late, kafka.ends = kafka.ends, {}
    began = time.monotonic()
    answers = kafka.answers

    def come_late() -> ReplicaAnswers:
        if time.monotonic() - began > 0.2:
            kafka.ends = {2: late[2]}
        return answers()

    kafka.answers = come_late  # type: ignore[method-assign]
    effect = recover(kafka)
    assert effect.proof["chosen"] == 2
    assert effect.proof["decided_after_s"] > 0.2


def test_an_answer_from_old_metadata_does_not_count(kafka: Kafka) -> None:
    kafka.replica_epoch = LEADERLESS_EPOCH - 1
    effect = recover(kafka)
    assert effect.effect_ns is None
    assert "broker 3: leader epoch 0, the partition has 1" in str(effect.why)


def test_a_broker_that_registers_again_between_its_answer_and_the_election_is_asked_again(kafka: Kafka) -> None:
    administer = kafka.administer

    def restart_before_election(request: AdminRequest, timeout_s: float) -> AdminAnswer:
        if isinstance(request, Reassign) and not kafka.asked:
            kafka.comes_back_unclean(3, 23)
            kafka.ends[3] = (0, 100)
        return administer(request, timeout_s)

    kafka.administer = restart_before_election  # type: ignore[method-assign]
    effect = recover(kafka)
    assert effect.proof["void_before_election"] == [3]
    assert effect.proof["chosen"] == 2, "the log of broker 3 is shorter now"


def test_a_broker_that_dies_after_its_answer_is_not_chosen_and_the_proof_says_why(kafka: Kafka) -> None:
    answers = kafka.answers
    asked = 0

    def die_after_the_answer() -> ReplicaAnswers:
        nonlocal asked
        asked += 1
        if asked == 2:
            kafka.write(build.registration_change(3, 13, fenced=1))
        return answers()

    kafka.answers = die_after_the_answer  # type: ignore[method-assign]
    effect = recover(kafka)
    assert effect.proof["chosen"] == 2
    assert effect.proof["replies"]["3"]["void"] == "fenced or not registered"
    assert Elect(topic="t", partition=0, unclean=True) in kafka.asked


def test_a_chosen_broker_that_is_fenced_at_the_election_leaves_no_proof(kafka: Kafka) -> None:
    kafka.on_election = lambda: kafka.write(build.registration_change(3, 13, fenced=1))
    effect = recover(kafka)
    assert effect.why == "broker 3 was chosen, and Kafka elected broker 2"
    assert effect.proof["record"]["leader"] == 2


def test_an_elected_broker_that_died_before_its_session_ended_leaves_no_proof(kafka: Kafka) -> None:
    kafka.on_election = lambda: kafka.ends.pop(3, None) and None
    effect = recover(kafka, deadline_s=0.3)
    assert effect.why == "broker 3 was elected, and does not answer as the leader of epoch 2: timed out"


def test_a_leader_that_kafka_elects_meanwhile_ends_the_recovery(kafka: Kafka) -> None:
    kafka.write(build.register(1, 31, "J", fenced=True), build.registration_change(1, 31, fenced=-1))
    look = kafka.look
    looks = 0

    def elect_at_third_look() -> MetadataImage:
        nonlocal looks
        looks += 1
        if looks == 3:
            kafka.elects(1)
        return look()

    kafka.look = elect_at_third_look  # type: ignore[method-assign]
    effect = recover(kafka, "balanced")
    assert "ELECTION_NOT_NEEDED: Kafka elected broker 1 by itself" in str(effect.why)
    assert effect.proof["elected_by_kafka"]["leader"] == 1
    assert "record" not in effect.proof


def test_balanced_waits_for_a_fenced_member_of_the_elr(kafka: Kafka) -> None:
    effect = recover(kafka, "balanced")
    assert "Balanced waits for the fenced ELR members [1], which did not return" in str(effect.why)
    assert kafka.asked == []


def test_balanced_waits_for_the_answer_of_each_member_of_last_known_elr(kafka: Kafka) -> None:
    kafka.comes_back_unclean(1, 31)
    effect = recover(kafka, "balanced")
    assert "no reply of the LastKnownElr members [1] counted" in str(effect.why)
    kafka.ends[1] = (-1, 0)
    effect = recover(kafka, "balanced")
    assert effect.proof["last_known_elr"] == [1]
    assert effect.proof["chosen"] == 3


def test_manual_shows_the_answers_and_elects_nobody(kafka: Kafka) -> None:
    effect = recover(kafka, "manual")
    assert effect.effect_ns is not None, effect.why
    assert effect.proof["replies"]["3"]["log_end_offset"] == 145
    assert (kafka.asked, "record" in effect.proof) == ([], False)
    kafka.ends = {}
    assert recover(kafka, "manual").why == "no replica answered within 50ms"


def test_an_answer_that_the_volume_does_not_bear_out_elects_nobody(kafka: Kafka) -> None:
    kafka.volumes = {2: (0, 115), 3: (0, 145)}
    assert recover(kafka).proof["replies"]["3"]["as_on_volume"] is True
    other = Kafka(kafka.data_dir(9))
    other.volumes = {2: (0, 115), 3: (0, 140)}
    effect = recover(other)
    assert effect.why == "the answers of brokers [3] are not what their volumes hold"
    assert other.asked == []


def test_a_refused_request_is_no_recovery(kafka: Kafka) -> None:
    kafka.refuses = "CLUSTER_AUTHORIZATION_FAILED"
    assert recover(kafka).why == "Kafka refused the reassignment: CLUSTER_AUTHORIZATION_FAILED"


def test_a_request_without_an_answer_is_no_recovery(kafka: Kafka) -> None:
    def fail(request: AdminRequest, timeout_s: float) -> AdminAnswer:
        raise HarnessError("no broker answered within 1 s")

    kafka.administer = fail  # type: ignore[method-assign]
    assert "Kafka did not answer the reassignment: no broker answered" in str(recover(kafka).why)
