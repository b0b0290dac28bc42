"""Each replica of a watch is in raw/, or the record says that it is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import evidence_builders as build
import pytest

from cluster.kafka_api.connection import WireError
from cluster.kafka_api.replica_log import LogPart, ReplicaRefused
from ebbtide.logs.checkpoint_file import HIGH_WATERMARKS, read_checkpoint
from ebbtide.logs.segments import TopicPartition
from harness.watch import replicas
from harness.watch.replicas import read_replicas

T_0 = TopicPartition("t", 0)
NOT_LEADER, UNKNOWN_TOPIC = "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"
BATCH = build.plain_batch(0, b"a")


class _Connection:
    def __init__(self, address: str) -> None:
        self.address = address

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        return None


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What each address answers: bytes of a log, or an error."""
    found: dict[str, object] = {}

    def answer(connection: SimpleNamespace, _: TopicPartition, offset: int) -> LogPart:
        said = found[connection.address]
        if isinstance(said, Exception):
            raise said
        assert isinstance(said, bytes)
        return LogPart(batches=said if offset == 0 else b"", high_watermark=1, log_start=0)

    monkeypatch.setattr(replicas, "read_replica", answer)
    return found


def read(raw: Path, assigned: Sequence[int] | None, brokers: Sequence[int] = (1, 2)) -> dict[str, str]:
    addresses = {broker: f"host-{broker}:9092" for broker in brokers}
    return read_replicas(addresses, {T_0: assigned}, raw, _Connection, limit_bytes=1000, timeout_s=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [NOT_LEADER, UNKNOWN_TOPIC, "NOT_LEADER_FOR_PARTITION"])
def test_an_assigned_replica_that_its_broker_does_not_give_is_missing(
    tmp_path: Path, answers: dict[str, object], error: str
) -> None:
    answers.update({"host-1:9092": BATCH, "host-2:9092": ReplicaRefused(error)})
    assert read(tmp_path, [1, 2]) == {"broker-2/t-0": f"host-2:9092 answers {error}"}
    assert not (tmp_path / "broker-2").exists()
    assert read_checkpoint(tmp_path / "broker-1" / HIGH_WATERMARKS) == {T_0: 1}


def test_a_broker_without_a_replica_is_not_missing(tmp_path: Path, answers: dict[str, object]) -> None:
    answers.update({"host-1:9092": BATCH, "host-2:9092": ReplicaRefused(UNKNOWN_TOPIC)})
    assert read(tmp_path, [1]) == {}
    assert read_checkpoint(tmp_path / "broker-2" / HIGH_WATERMARKS) == {}


def test_where_the_replicas_are_not_known_every_broker_may_have_one(tmp_path: Path, answers: dict[str, object]) -> None:
    answers.update({"host-1:9092": BATCH, "host-2:9092": ReplicaRefused(UNKNOWN_TOPIC)})
    assert list(read(tmp_path, None)) == ["broker-2/t-0"]


def test_a_replica_on_a_broker_that_came_later_is_missing(tmp_path: Path, answers: dict[str, object]) -> None:
    answers.update({"host-1:9092": BATCH})
    assert list(read(tmp_path, [1, 7], brokers=(1,))) == ["broker-7/t-0"]


def test_a_broker_that_does_not_answer_is_missing_assigned_or_not(tmp_path: Path, answers: dict[str, object]) -> None:
    answers.update({"host-1:9092": BATCH, "host-2:9092": WireError("host-2:9092: refused")})
    assert read(tmp_path, [1]) == {"broker-2/t-0": "host-2:9092: refused"}
