"""The HW of each replica is asked of its own broker, until it is the final one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.kafka_api.connection import Refused, WireError
from cluster.kafka_api.replica_log import LogPart
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.manifest import FinalOffsets
from workloads import replica_high_watermarks
from workloads.config import AnsweredHighWatermarks, Endpoints
from workloads.replica_high_watermarks import ask_high_watermarks

ENDPOINTS = Endpoints(status="", stop="")
BROKERS = {1: "host-1:9092", 2: "host-2:9092"}
REPLICAS = {"t-0": (1, 2), "other-0": (1,)}
ENDS = {"t-0": FinalOffsets(log_start=0, high_watermark=9)}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """What each address answers in turn, a HW or an error; the last one again and again."""
    found: dict[str, list[Any]] = {}

    def answer(connection: SimpleNamespace, at: TopicPartition, offset: int) -> LogPart:
        assert (at, offset) == (TopicPartition("t", 0), 9)
        said = found[connection.address]
        one = said.pop(0) if len(said) > 1 else said[0]
        if isinstance(one, Exception):
            raise one
        return LogPart(batches=b"", high_watermark=one, log_start=0)

    monkeypatch.setattr(replica_high_watermarks, "read_replica", answer)
    monkeypatch.setattr(replica_high_watermarks, "ASKING_S", 0.3)
    return found


def test_a_follower_is_asked_until_it_has_the_final_hw(answers: dict[str, list[Any]]) -> None:
    answers.update({"host-1:9092": [9], "host-2:9092": [WireError("reset"), Refused(6), 8, 9]})
    assert ask_high_watermarks(ENDPOINTS, BROKERS, REPLICAS, ENDS) == AnsweredHighWatermarks(
        reached={1: {"t-0": 9}, 2: {"t-0": 9}}
    )


@pytest.mark.parametrize("last", [8, 10, Refused(56), WireError("refused")])
def test_a_replica_with_another_hw_has_none_in_the_record(answers: dict[str, list[Any]], last: object) -> None:
    answers.update({"host-1:9092": [9], "host-2:9092": [last]})
    found = ask_high_watermarks(ENDPOINTS, BROKERS, REPLICAS, ENDS)
    assert found.reached == {1: {"t-0": 9}}
    assert "t-0 on broker 2" in (found.why_not_all or "")
    assert str(last) in (found.why_not_all or "")


def test_without_replicas_to_ask_nothing_is_waited_for() -> None:
    assert ask_high_watermarks(ENDPOINTS, {}, {}, ENDS) == AnsweredHighWatermarks()


def test_a_stop_ends_the_questions(answers: dict[str, list[Any]]) -> None:
    answers.update({"host-1:9092": [8], "host-2:9092": [8]})
    found = ask_high_watermarks(ENDPOINTS, BROKERS, REPLICAS, ENDS, lambda: True)
    assert found == AnsweredHighWatermarks()


def test_the_replicas_that_are_behind_are_named_up_to_a_limit(answers: dict[str, list[Any]]) -> None:
    answers.update({address: [8] for address in BROKERS.values()})
    many = {**BROKERS, **dict.fromkeys(range(3, 9), "host-1:9092")}
    found = ask_high_watermarks(ENDPOINTS, many, {"t-0": tuple(many)}, ENDS)
    assert (found.why_not_all or "").count("has the HW 8, not 9") == 5
    assert "and 3 more" in (found.why_not_all or "")
