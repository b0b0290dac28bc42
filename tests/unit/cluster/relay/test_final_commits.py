"""What groups have committed at the end is asked of whoever coordinates them."""

from __future__ import annotations

import contextlib

import pytest

from cluster.kafka_api.group_offsets import CommittedOffset
from cluster.relay import decode
from cluster.relay.decode import FinalLogs
from ebbtide.logs.segments import TopicPartition


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[TopicPartition, CommittedOffset] | None]:
    """What each broker answers; None: it does not coordinate the group."""
    found: dict[str, dict[TopicPartition, CommittedOffset] | None] = {}
    monkeypatch.setattr(decode, "_connection", lambda address: contextlib.nullcontext(address))
    monkeypatch.setattr(decode, "committed_offsets", lambda address, group: found[address])
    return found


def test_the_offsets_of_a_group_come_before_the_row_that_says_that_these_are_all(
    answers: dict[str, dict[TopicPartition, CommittedOffset] | None],
) -> None:
    committed = {TopicPartition("orders", 1): CommittedOffset(offset=9, metadata="")}
    answers |= {"one": None, "two": committed}
    assert list(FinalLogs(["one", "two"], b"").read_commits({"g"})) == [
        {"kind": "final-commit", "group": "g", "topic": "orders", "partition": 1, "offset": 9},
        {"kind": "final-group", "group": "g"},
    ]


def test_a_group_that_has_nothing_left_is_known_to_have_nothing(
    answers: dict[str, dict[TopicPartition, CommittedOffset] | None],
) -> None:
    answers["one"] = {}
    final = FinalLogs(["one"], b"", timeout_s=5)
    assert list(final.read_commits({"g"})) == [{"kind": "final-group", "group": "g"}]
    assert final.unread == {}


def test_a_group_that_nobody_coordinates_is_unread_with_the_reason(
    answers: dict[str, dict[TopicPartition, CommittedOffset] | None],
) -> None:
    answers["one"] = None
    final = FinalLogs(["one"], b"", timeout_s=0.2)
    assert list(final.read_commits({"g"})) == []
    assert "the coordinator of the group g" in final.unread["group g"]
