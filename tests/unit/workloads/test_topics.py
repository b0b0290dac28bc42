"""Topics that Kafka refuses for their settings: each setting is named with its place and the one that was meant."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from cluster.kafka_api.connection import INVALID_CONFIG
from ebbtide.errors import ExitCode, UsageError
from workloads import topics
from workloads.config import Endpoints, NewTopic, TopicsConfig, read_topics_result

KNOWN = ("flush.messages", "min.insync.replicas", "retention.ms")


def broker_that_refuses(message: str) -> Any:
    settings = SimpleNamespace(configs=[SimpleNamespace(name=name) for name in KNOWN])
    answer = SimpleNamespace(error_code=INVALID_CONFIG, error_message=message)
    return Mock(create_topic=lambda *_, **counts: settings if counts else answer)


def read_after(broker: Any, configs: dict[str, dict[str, str]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the topics' own process ask this broker, and read its result as a run does."""
    wanted = {name: NewTopic(assignment=((1,),), config=config) for name, config in configs.items()}
    config = TopicsConfig(
        endpoints=Endpoints(status=str(folder / "status"), stop=str(folder / "stop")),
        bootstrap=("x:1",),
        topics=wanted,
        result=str(folder / "result.json"),
        timeout_s=1,
    )
    (folder / "config.json").write_bytes(msgspec.json.encode(config))
    monkeypatch.setattr(topics, "create_topics", lambda *_: topics._create(broker, wanted))
    assert topics.main([str(folder / "config.json")]) == 0
    read_topics_result(folder / "result.json")


def test_all_settings_that_kafka_does_not_know_are_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = {"t": {"flush.message": "1", "retention.ms": "1"}, "u": {"no-such": "1", "min.insync.replica": "1"}}
    with pytest.raises(UsageError) as caught:
        read_after(broker_that_refuses("Unknown topic config name"), configs, tmp_path, monkeypatch)
    error = caught.value
    assert error.what == (
        "Kafka does not know flush.message; Kafka does not know no-such; Kafka does not know min.insync.replica"
    )
    assert error.where == "topics.t.config.flush.message, topics.u.config.no-such, topics.u.config.min.insync.replica"
    assert "(did you mean flush.messages, min.insync.replicas?)" in str(error.allowed)
    assert error.exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("message", "where"),
    [
        ("Invalid value x for configuration flush.messages: Not a number", "topics.t.config.flush.messages"),
        ("Invalid value x", "topics.t.config"),
        ("flush.messages and retention.ms do not fit together", "topics.t.config"),
    ],
)
def test_a_value_that_kafka_refuses_has_kafkas_words_and_the_key_that_they_name(
    message: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = {"t": {"flush.messages": "x", "retention.ms": "1"}}
    with pytest.raises(UsageError, match=f"Kafka refuses the settings of a topic: {message}") as caught:
        read_after(broker_that_refuses(message), configs, tmp_path, monkeypatch)
    assert caught.value.where == where
    assert "did you mean" not in str(caught.value)
