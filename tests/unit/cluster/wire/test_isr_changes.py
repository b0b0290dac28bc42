"""What the proxy reads of AlterPartition requests that a rule stopped or copied, and of the answers."""

from __future__ import annotations

import pytest
from isr_frames import TOPIC, answer, request

from cluster.wire.messages import AnsweredIsr, AskedIsr, answered_isrs, asked_isrs


@pytest.mark.parametrize(("version", "client"), [(2, b"1"), (3, b"1"), (3, b""), (3, None)])
def test_a_request_says_on_which_epochs_its_isr_is_based(version: int, client: bytes | None) -> None:
    (asked,) = asked_isrs(version, request(version, client))
    expected = AskedIsr(
        broker=1, broker_epoch=41, topic=TOPIC, partition=7, leader_epoch=3, partition_epoch=11, isr=(1, 2)
    )
    assert asked == expected


@pytest.mark.parametrize("error", [0, 95])
def test_an_answer_says_whether_the_change_was_made(error: int) -> None:
    assert answered_isrs(3, answer(error)) == (AnsweredIsr(topic=TOPIC, partition=7, error=error, partition_epoch=12),)


def test_a_frame_that_is_not_whole_or_of_an_unknown_version_says_nothing() -> None:
    whole, came = request(3), answer(0)
    for size in (*range(len(whole)),):
        assert asked_isrs(3, whole[:size]) == ()
    for size in (*range(len(came)),):
        assert answered_isrs(3, came[:size]) == ()
    assert asked_isrs(9, whole) == answered_isrs(9, came) == ()
