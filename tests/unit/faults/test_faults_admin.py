"""Administrative steps: proven by a new record in the metadata log, a broker's word, or the refusal that was wanted."""

from __future__ import annotations

from pathlib import Path

import evidence_builders as build
import pytest

from cluster.kafka_api.admin_requests import (
    AddPartitions,
    AdminAnswer,
    AdminRequest,
    DeleteRecords,
    DeleteTopic,
    Elect,
    MakeTopic,
    Reassign,
    SetConfig,
    SetFeature,
    Unregister,
)
from cluster.kafka_api.log_dirs import ReplicaMove, ReplicaPaths
from ebbtide.errors import HarnessError
from ebbtide.kraft.image import MetadataImage
from ebbtide.scenario.steps.admin import MoveReplicaStep
from ebbtide.scenario.steps.step import LogStartMove
from ebbtide.scenario.words import PartitionName, Role
from faults import admin
from faults.base import Effect
from faults.replica_moves import effect_of_move
from harness.runner.view import ClusterView

MOVE = Reassign(topic="t", partition=0, replicas=(3, 2, 1))
PREFERRED = Elect(topic="t", partition=0, unclean=False)
MIN_ISR = SetConfig(resource="topic:t", config="min.insync.replicas", value="1")
ELR = SetFeature(feature="eligible.leader.replicas.version", level=1, downgrade=False)


class Kafka:
    """A cluster that answers `error` (None: nothing) and writes `records` whatever it answers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "log"
        self._batches: list[bytes] = []
        self._offset = 0
        self.error: str | None = "NONE"
        self.log_start: LogStartMove | None = None
        self.records: tuple[bytes, ...] = ()
        self.write(
            build.topic("t", "T"),
            build.partition("T", 0, (2, 1, 3), 1),
            build.config(2, "t", "min.insync.replicas", "2"),
            build.register(2, 3, "I"),
        )
        self._view = ClusterView({100: self._folder}, {100: folder / "mirror"}, (1, 2, 3))

    def write(self, *messages: bytes) -> None:
        self._batches.append(build.metadata_batch(self._offset, *messages))
        self._offset += len(messages)
        build.write_log(self._folder, *self._batches)

    def look(self) -> MetadataImage:
        self._view.poll()
        return self._view.image

    def ask(self, request: AdminRequest, timeout_s: float) -> AdminAnswer:
        if self.records:
            self.write(*self.records)
        if self.error is None:
            raise HarnessError("no broker answered", got="timed out")
        return AdminAnswer(broker="10.99.0.1:9092", error=self.error, log_start=self.log_start)


@pytest.fixture
def kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kafka:
    monkeypatch.setattr(admin, "_UNANSWERED_WAIT_S", 0.05)
    monkeypatch.setattr(admin, "_RECORD_WAIT_MIN_S", 0.05)
    return Kafka(tmp_path)


def carry_out(kafka: Kafka, request: AdminRequest, expect_error: str | None = None) -> Effect:
    return admin.carry_out(
        request, ask=kafka.ask, look=kafka.look, expect_error=expect_error, timeout_s=0.05, running=(1, 2)
    )


@pytest.mark.parametrize(
    ("request_", "record"),
    [
        (MOVE, build.change("T", 0, replicas=(3, 2, 1))),
        (
            Reassign(topic="t", partition=0, replicas=(4, 1, 3)),
            build.change("T", 0, replicas=(4, 1, 3, 2), adding=(4,), removing=(2,)),
        ),
        (PREFERRED, build.change("T", 0, leader=2)),
        (Elect(topic="t", partition=0, unclean=True), build.change("T", 0, leader=3)),
        (MIN_ISR, build.config(2, "t", "min.insync.replicas", "1")),
        (
            SetConfig(resource="topic:t", config="min.insync.replicas", value=None),
            build.config(2, "t", "min.insync.replicas", None),
        ),
        (ELR, build.feature("eligible.leader.replicas.version", 1)),
        (DeleteTopic(topic="t"), build.remove_topic("T")),
        (Unregister(broker=2), build.unregister(2, 3)),
    ],
)
def test_a_request_is_proven_by_its_own_record_and_by_no_other(
    kafka: Kafka, request_: AdminRequest, record: bytes
) -> None:
    kafka.records = (build.change("T", 0, isr=(2, 1)),)
    other = carry_out(kafka, request_)
    assert other.effect_ns is None
    assert "Kafka accepted, but" in str(other.why)
    kafka.records = (record,)
    effect = carry_out(kafka, request_)
    assert effect.effect_ns is not None, effect.why
    assert effect.proof["answer"] == "NONE"


def test_added_partitions_are_proven_once_every_one_has_a_record(kafka: Kafka) -> None:
    request = AddPartitions(topic="t", count=3)
    kafka.records = (build.partition("T", 1, (1, 2, 3), 1),)
    assert carry_out(kafka, request).effect_ns is None
    kafka.records = (build.partition("T", 2, (2, 3, 1), 2),)
    effect = carry_out(kafka, request)
    assert effect.effect_ns is not None, effect.why
    # Partition 1 was there when this request began.
    assert effect.proof["record"]["added"] == 1
    assert effect.proof["record"]["replicas"] == {"2": [2, 3, 1]}


def test_a_topic_made_again_is_proven_by_its_new_id_and_by_the_brokers_that_know_it(kafka: Kafka) -> None:
    request = MakeTopic(topic="t")
    kafka.records = (build.topic("t", "V"), build.partition("V", 0, (1, 2, 3), 1))
    # The topic exists all the time: nothing of it is made by this request.
    assert carry_out(kafka, request).effect_ns is None
    kafka.records = (build.remove_topic("T"), build.remove_topic("V"))
    deleted = carry_out(kafka, DeleteTopic(topic="t"))
    assert deleted.effect_ns is not None, deleted.why
    kafka.records = (build.topic("t", "W"), build.partition("W", 0, (1, 2, 3), 1))
    effect = carry_out(kafka, request)
    assert effect.effect_ns is not None, effect.why
    record = effect.proof["record"]
    assert record["topic_id"] != deleted.proof["record"]["topic_id"]
    assert effect.proof["since"] <= record["metadata_offset"]
    # No broker said that it knows the topic.
    assert (effect.proof["known_ns"], effect.proof["unaware"]) == (None, [1, 2])


def test_a_topic_that_is_not_there_gets_no_partitions(kafka: Kafka) -> None:
    kafka.records = (build.topic("u", "U"), build.partition("U", 0, (1, 2, 3), 1))
    assert carry_out(kafka, AddPartitions(topic="u", count=1)).effect_ns is None


DELETION = DeleteRecords(topic="t", partition=0, before=10, leader=2)


def moved(old: int, new: int) -> LogStartMove:
    return LogStartMove(old=old, new=new, leader_epoch=0, asked_ns=1, answered_ns=2)


def test_deleted_records_are_proven_by_the_leaders_log_start(kafka: Kafka) -> None:
    kafka.log_start = moved(0, 10)
    effect = carry_out(kafka, DELETION)
    assert effect.effect_ns is not None, effect.why
    assert effect.proof["log_start"] == {"old": 0, "new": 10, "leader_epoch": 0, "asked_ns": 1, "answered_ns": 2}


@pytest.mark.parametrize(
    ("move", "why"),
    [(None, "did not say"), (moved(10, 10), "no record was deleted"), (moved(0, 9), "starts at 9, not at 10")],
)
def test_an_accepted_deletion_that_moved_no_log_start_proves_nothing(
    kafka: Kafka, move: LogStartMove | None, why: str
) -> None:
    kafka.log_start = move
    effect = carry_out(kafka, DELETION)
    assert effect.effect_ns is None
    assert why in str(effect.why)


def test_a_deletion_that_kafka_answered_with_an_error_keeps_how_the_log_start_moved(kafka: Kafka) -> None:
    kafka.error, kafka.log_start = "REQUEST_TIMED_OUT", moved(0, 10)
    effect = carry_out(kafka, DELETION)
    assert effect.effect_ns is None
    assert effect.proof["log_start"]["new"] == 10


def test_a_cancelled_reassignment_is_proven_where_one_was_under_way(kafka: Kafka) -> None:
    cancel = Reassign(topic="t", partition=0, replicas=None)
    kafka.records = (build.change("T", 0, replicas=(2, 1, 3), adding=(), removing=()),)
    assert carry_out(kafka, cancel).effect_ns is None
    kafka.write(build.change("T", 0, replicas=(4, 2, 1, 3), adding=(4,)))
    assert carry_out(kafka, cancel).effect_ns is not None


def test_a_state_that_was_so_before_is_no_proof(kafka: Kafka) -> None:
    effect = carry_out(kafka, SetConfig(resource="topic:t", config="min.insync.replicas", value="2"))
    assert effect.effect_ns is None


def test_a_refusal_is_no_effect_unless_it_is_the_one_that_was_wanted(kafka: Kafka) -> None:
    kafka.error = "ELECTION_NOT_NEEDED"
    assert "Kafka refused: ELECTION_NOT_NEEDED" in str(carry_out(kafka, PREFERRED).why)
    assert carry_out(kafka, PREFERRED, "ELECTION_NOT_NEEDED").effect_ns is not None
    assert "instead of the expected PREFERRED_LEADER_NOT_AVAILABLE" in str(
        carry_out(kafka, PREFERRED, "PREFERRED_LEADER_NOT_AVAILABLE").why
    )


def test_an_acceptance_where_a_refusal_was_wanted_is_not_proven(kafka: Kafka) -> None:
    kafka.records = (build.change("T", 0, leader=2),)
    assert "Kafka answered NONE" in str(carry_out(kafka, PREFERRED, "ELECTION_NOT_NEEDED").why)


def test_no_answer_and_no_record_prove_nothing(kafka: Kafka) -> None:
    kafka.error = None
    for request in (MIN_ISR, PREFERRED):
        effect = carry_out(kafka, request)
        assert effect.effect_ns is None
        assert "did not answer" in str(effect.why)
    assert "did not answer" in str(carry_out(kafka, PREFERRED, "ELECTION_NOT_NEEDED").why)


def test_the_record_of_a_request_without_an_answer_proves_it_but_for_an_election(kafka: Kafka) -> None:
    kafka.error = None
    kafka.records = (build.config(2, "t", "min.insync.replicas", "1"),)
    assert carry_out(kafka, MIN_ISR).effect_ns is not None
    kafka.records = (build.change("T", 0, leader=2),)
    assert carry_out(kafka, PREFERRED).effect_ns is None


DIRS = (Path("/one/kafka"), Path("/two/kafka"))
ONE, TWO = map(str, DIRS)


def effect(
    before: str | None,
    after: str | None,
    future: str | None = None,
    *,
    future_before: str | None = None,
    error: str = "NONE",
    expect: str | None = None,
) -> Effect:
    """The effect of a move to directory 2."""
    step = MoveReplicaStep(partition=PartitionName("t-0"), target=Role("broker(1)"), directory=2, expect_error=expect)
    move = ReplicaMove(
        before=ReplicaPaths(current=before, future=future_before), after=ReplicaPaths(current=after, future=future)
    )
    return effect_of_move(AdminAnswer(broker="b", error=error, replica_move=move), DIRS, step, "move it")


@pytest.mark.parametrize(("after", "future"), [(TWO, None), (ONE, TWO)])
def test_a_replica_that_is_there_or_on_its_way_has_moved(after: str, future: str | None) -> None:
    proven = effect(ONE, after, future)
    assert proven.effect_ns is not None
    assert (proven.proof["directory_before"], proven.proof["future"]) == (1, 2 if future else None)


def test_a_replica_that_was_there_already_did_not_move() -> None:
    assert effect(TWO, TWO).why == "the replica was in log directory 2 already"


def test_a_replica_that_an_earlier_step_moves_there_proves_nothing() -> None:
    moving = effect(ONE, ONE, TWO, future_before=TWO)
    assert moving.why == "the replica was on its way to the directory already"


def test_a_broker_that_accepts_and_copies_nothing_proves_nothing() -> None:
    assert effect(ONE, ONE).why == "Kafka accepted, but no future replica is in the directory"


def test_a_replica_whose_directory_is_offline_cannot_move() -> None:
    assert "no replica of the partition" in str(effect(None, None).why)


def test_a_refusal_is_an_effect_only_where_it_is_expected() -> None:
    assert effect(ONE, ONE, error="KAFKA_STORAGE_ERROR").why == "Kafka refused: KAFKA_STORAGE_ERROR"
    expected = effect(ONE, ONE, error="KAFKA_STORAGE_ERROR", expect="KAFKA_STORAGE_ERROR")
    assert expected.effect_ns is not None
    assert "instead of the expected" in str(effect(ONE, TWO, expect="KAFKA_STORAGE_ERROR").why)
