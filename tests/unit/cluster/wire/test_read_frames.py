"""What the proxy reads in frames that a rule stopped or copied: Fetch answers, and changes of an ISR."""

from __future__ import annotations

import fetch_frames
import isr_frames
import pytest

from cluster.wire.frames import diverging_epochs, fetch_positions
from cluster.wire.messages import AnsweredIsr, AskedIsr, DivergingEpoch, answered_isrs, asked_isrs


@pytest.mark.parametrize(
    ("version", "topic"),
    [(12, "t"), (13, str(fetch_frames.TOPIC)), (15, str(fetch_frames.TOPIC)), (17, str(fetch_frames.TOPIC))],
)
def test_a_diverging_epoch_is_read_with_the_position_that_the_follower_had_asked_from(version: int, topic: str) -> None:
    asked = fetch_positions(version, fetch_frames.request(version))
    assert asked == {(topic, 1): 70}
    told = DivergingEpoch(topic=topic, partition=1, epoch=4, end_offset=50, fetch_offset=70)
    assert diverging_epochs(version, fetch_frames.answer(version, end_offset=50), asked) == (told,)


def test_a_position_that_an_earlier_request_of_the_session_named_is_not_known() -> None:
    (told,) = diverging_epochs(17, fetch_frames.answer(17, end_offset=50), {})
    assert told.fetch_offset is None


@pytest.mark.parametrize("version", [11, 12, 17])
def test_an_ordinary_answer_tells_nobody_to_truncate(version: int) -> None:
    assert diverging_epochs(version, fetch_frames.answer(version, end_offset=None), {}) == ()


def test_a_fetch_that_is_not_whole_or_of_an_unknown_version_says_nothing() -> None:
    whole = fetch_frames.answer(17, end_offset=50)
    for frame in (whole[:-30], whole[:9]):
        assert diverging_epochs(17, frame, {}) == ()
    assert diverging_epochs(99, whole, {}) == ()
    assert fetch_positions(17, fetch_frames.request(17)[:30]) == {}
    assert fetch_positions(99, fetch_frames.request(17)) == {}


@pytest.mark.parametrize(("version", "client"), [(2, b"1"), (3, b"1"), (3, b""), (3, None)])
def test_a_request_says_on_which_epochs_its_isr_is_based(version: int, client: bytes | None) -> None:
    (asked,) = asked_isrs(version, isr_frames.request(version, client))
    expected = AskedIsr(
        broker=1, broker_epoch=41, topic=isr_frames.TOPIC, partition=7, leader_epoch=3, partition_epoch=11, isr=(1, 2)
    )
    assert asked == expected


@pytest.mark.parametrize("error", [0, 95])
def test_an_answer_says_whether_the_change_was_made(error: int) -> None:
    assert answered_isrs(3, isr_frames.answer(error)) == (
        AnsweredIsr(topic=isr_frames.TOPIC, partition=7, error=error, partition_epoch=12),
    )


def test_a_change_of_an_isr_that_is_not_whole_or_of_an_unknown_version_says_nothing() -> None:
    whole, came = isr_frames.request(3), isr_frames.answer(0)
    for size in (*range(len(whole)),):
        assert asked_isrs(3, whole[:size]) == ()
    for size in (*range(len(came)),):
        assert answered_isrs(3, came[:size]) == ()
    assert asked_isrs(9, whole) == answered_isrs(9, came) == ()
