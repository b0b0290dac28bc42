"""A replica that moves between log directories is proven by where its broker says that it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.kafka_api.admin_requests import AdminAnswer
from cluster.kafka_api.log_dirs import ReplicaMove, ReplicaPaths
from ebbtide.scenario.roles import Role
from ebbtide.scenario.steps.admin import MoveReplicaStep
from ebbtide.scenario.words import PartitionName
from faults.base import Effect
from faults.replica_moves import effect_of_move

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
