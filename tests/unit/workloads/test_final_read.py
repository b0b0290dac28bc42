"""The final read: what it does when Kafka refuses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from kafka.errors import KafkaError, NotLeaderForPartitionError, TopicAuthorizationFailedError

from cluster.kafka_api.connection import NONE, UNKNOWN_TOPIC
from ebbtide.errors import UsageError
from ebbtide.waiting import WaitExpired
from workloads import final_read
from workloads.config import Endpoints, FinalReadConfig
from workloads.process import Stop
from workloads.status import ClientState, StatusFile


def read_that_meets(error: Exception, folder: Path, monkeypatch: pytest.MonkeyPatch, timeout_s: float) -> ClientState:
    def refuse(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(final_read, "read_once", refuse)
    endpoints = Endpoints(status=str(folder / "s"), stop=str(folder / "stop"))
    config = FinalReadConfig(
        endpoints=endpoints, journal="", run_id="r", bootstrap=("a:1",), topics={"t": 1}, result="", timeout_s=timeout_s
    )
    status = StatusFile.create(folder / "s", 0)
    return final_read.run(config, status, Stop(endpoints.stop))


def test_a_right_that_is_missing_ends_the_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = TopicAuthorizationFailedError({"t"})
    with pytest.raises(UsageError, match="may not read") as caught:
        read_that_meets(denied, tmp_path, monkeypatch, timeout_s=600)
    assert caught.value.where == "t"


def test_a_read_that_is_stopped_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stop").touch()
    assert read_that_meets(KafkaError("never"), tmp_path, monkeypatch, timeout_s=600) == ClientState.STOPPED


def test_what_may_pass_is_tried_again_until_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WaitExpired, match="NotLeader"):
        read_that_meets(NotLeaderForPartitionError(), tmp_path, monkeypatch, timeout_s=0.5)


T, U = ("t", 0), ("u", 0)


def ends(
    answers: Mapping[str, int], monkeypatch: pytest.MonkeyPatch, gone: tuple[str, ...] = ("t",)
) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the ends of t-0 and u-0, where each broker answers for t-0 with an error; broker a leads u-0."""

    @contextmanager
    def connection(_: object, address: str) -> Iterator[Any]:
        def list_offsets(partitions: list[tuple[str, int]], _: int) -> list[Any]:
            errors = {T: answers[address], U: NONE if address == "a" else 6}
            return [
                SimpleNamespace(topic=topic, partition=number, error=errors[topic, number], offset=7, leader_epoch=1)
                for topic, number in partitions
            ]

        yield SimpleNamespace(list_offsets=list_offsets)

    monkeypatch.setattr(final_read, "connection_to", connection)
    config = FinalReadConfig(
        endpoints=Endpoints(status="s", stop="stop"),
        journal="",
        run_id="r",
        bootstrap=tuple(answers),
        topics={"t": 1, "u": 1},
        gone=gone,
        result="",
    )
    return {key: (end.log_start, end.high_watermark) for key, end in final_read.ask_ends(config, [T, U]).items()}


def test_a_topic_that_is_gone_and_that_no_broker_knows_has_no_records(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ends({"a": UNKNOWN_TOPIC, "b": UNKNOWN_TOPIC}, monkeypatch) == {T: (0, 0), U: (7, 7)}


@pytest.mark.parametrize(
    ("answers", "gone"),
    [({"a": UNKNOWN_TOPIC, "b": 6}, ("t",)), ({"a": UNKNOWN_TOPIC, "b": UNKNOWN_TOPIC}, ())],
    ids=["a-broker-knows-it", "the-metadata-log-has-it"],
)
def test_a_topic_that_somebody_knows_is_awaited(
    monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, int], gone: tuple[str, ...]
) -> None:
    with pytest.raises(final_read._UnsettledRead, match="no leader answers for t-0"):
        ends(answers, monkeypatch, gone)
