"""Making the topics of a watch: what the ledger keeps, and what it must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.host.ledger import Ledger
from cluster.kafka_api.connection import BrokerConnection, WireError
from cluster.watched.watch_topic import TopicRefused
from ebbtide.errors import HarnessError, UsageError
from ebbtide.scenario.model import TopicSpec
from ebbtide.waiting import WaitExpired
from harness.watch import own_topics
from harness.watch.own_topics import OwnTopics

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
