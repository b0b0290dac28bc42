"""Making the topics of a watch: what the ledger keeps, and what it must not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cluster.host.ledger import Ledger
from cluster.kafka_api.connection import BrokerConnection, WireError
from cluster.watched.watch_topic import SettingsRefused, TopicRefused
from ebbtide.errors import ExitCode, HarnessError, UsageError
from ebbtide.scenario.kafka_settings import RefusedByKafka
from ebbtide.scenario.model import TopicSpec
from ebbtide.waiting import WaitExpired
from harness.cli.main import main
from harness.watch import own_topics, watching
from harness.watch.own_topics import OwnTopics
from harness.watch.watching import WatchRequest
from workloads import topics as workload_topics

NAME = "ebbtide-watch-ab12-t"


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> OwnTopics:
    monkeypatch.setattr(BrokerConnection, "api_keys", lambda _self: frozenset())
    return OwnTopics("r", {NAME: TopicSpec()}, ["a:1"], ["a:1"], None)


def refuse(error: Exception) -> object:
    def make(*_: object, **__: object) -> None:
        raise error

    return make


def test_a_topic_that_kafka_refused_is_not_deleted_by_the_ledger(
    topics: OwnTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_topics, "make_topic", refuse(TopicRefused("no")))
    with pytest.raises(TopicRefused), Ledger.open("r", tmp_path, ledgers=tmp_path / "ledger") as ledger:
        topics.make(ledger, NAME)


WORKLOAD = """
[topics.t]
partitions = 1
config = { "retention.ms" = "-1", "remote.log.copy.disable" = "1" }

[[producers]]
id = 1
topic = "t"
rate_per_s = 5
"""


def test_a_setting_that_kafka_refuses_is_named_with_its_line_and_the_topic_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(WORKLOAD)

    def watch(request: WatchRequest, _display: object) -> Path:
        assert request.workload is not None
        specs = {NAME: request.workload.topics["t"]}
        topics = OwnTopics("r", specs, ["a:1"], ["a:1"], None)
        with Ledger.open("r", tmp_path, ledgers=tmp_path / "ledger") as ledger:
            topics.make(ledger, NAME)
        raise AssertionError

    monkeypatch.setattr(BrokerConnection, "api_keys", lambda _self: frozenset())
    refusal = SettingsRefused("no", message="Unknown topic config name: remote.log.copy.disable")
    monkeypatch.setattr(own_topics, "make_topic", refuse(refusal))
    monkeypatch.setattr(
        workload_topics, "known_topic_settings", lambda *_: {"retention.ms", "remote.log.copy.disabled"}
    )
    monkeypatch.setattr(watching, "watch_cluster", watch)
    where = ["--bootstrap", "a:1", "--controllers", "c:1,d:1", "--for", "1s"]
    argv = ["watch", str(file), *where, "--runs", str(tmp_path / "runs")]
    assert main(argv) == ExitCode.USAGE
    assert capsys.readouterr().err.splitlines() == [
        f"error: {file}: 1 problem",
        "  1. Kafka does not know remote.log.copy.disable",
        "     where:   topics.t.config.remote.log.copy.disable (line 4)",
        "     allowed: settings of a topic, in this release (did you mean remote.log.copy.disabled?)",
        f"  next:    ebbtide watch {' '.join(where)} {file}    (once the file is right)",
    ]


def test_a_value_that_kafka_refuses_is_said_in_the_words_of_kafka_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = "Invalid value x for configuration retention.ms"

    class Topic(msgspec.Struct):
        error_code: int = 40
        error_message: str = says

    class Answers(msgspec.Struct):
        topics: tuple[Topic, ...] = (Topic(),)

    monkeypatch.setattr(BrokerConnection, "api_keys", lambda _self: frozenset())
    monkeypatch.setattr(BrokerConnection, "ask", lambda *_: Answers())
    monkeypatch.setattr(workload_topics, "known_topic_settings", lambda *_: {"retention.ms"})
    topics = OwnTopics("r", {NAME: TopicSpec(config={"retention.ms": "x"})}, ["a:1"], ["a:1"], None)
    with pytest.raises(RefusedByKafka) as caught, Ledger.open("r", tmp_path, ledgers=tmp_path / "ledger") as ledger:
        topics.make(ledger, NAME)
    assert caught.value.what == f"Kafka refuses the settings of a topic: {says}"


def test_a_topic_whose_request_was_not_answered_stays_in_the_ledger(
    topics: OwnTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_topics, "make_topic", refuse(WireError("a:1: timed out")))
    monkeypatch.setattr("cluster.watched.watch_topic.WatchTopic.undo", lambda _self: True)
    with Ledger.open("r", tmp_path, ledgers=tmp_path / "ledger") as ledger:
        with pytest.raises(HarnessError, match="did not answer"):
            topics.make(ledger, NAME)
        assert [entry.describe() for entry in ledger.entries()] == [f"topic {NAME} on the cluster at a:1"]


def test_a_user_without_a_right_is_told_which(topics: OwnTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_topics, "missing_rights", lambda *_: ["Write"])
    with pytest.raises(UsageError, match="no Write"):
        topics.check_rights(1.0)


def test_a_broker_that_does_not_know_the_topic_yet_is_asked_again(
    topics: OwnTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None, None, ["Read"]])
    monkeypatch.setattr(own_topics, "missing_rights", lambda *_: next(answers))
    with pytest.raises(UsageError, match="no Read"):
        topics.check_rights(10.0)


def test_brokers_that_never_answer_about_rights_are_named_with_their_error(
    topics: OwnTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_topics, "missing_rights", refuse(WireError("gone")))
    with pytest.raises(WaitExpired, match="last seen: gone"):
        topics.check_rights(0.1)
