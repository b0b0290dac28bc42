"""What the proxy reads in a held Fetch answer, encoded by kafka-python's own classes."""

from __future__ import annotations

import pytest
from fetch_frames import TOPIC, answer, request

from cluster.wire.frames import diverging_epochs, fetch_positions
from cluster.wire.messages import DivergingEpoch


@pytest.mark.parametrize(("version", "topic"), [(12, "t"), (13, str(TOPIC)), (15, str(TOPIC)), (17, str(TOPIC))])
def test_a_diverging_epoch_is_read_with_the_position_that_the_follower_had_asked_from(version: int, topic: str) -> None:
    asked = fetch_positions(version, request(version))
    assert asked == {(topic, 1): 70}
    told = DivergingEpoch(topic=topic, partition=1, epoch=4, end_offset=50, fetch_offset=70)
    assert diverging_epochs(version, answer(version, end_offset=50), asked) == (told,)


def test_a_position_that_an_earlier_request_of_the_session_named_is_not_known() -> None:
    (told,) = diverging_epochs(17, answer(17, end_offset=50), {})
    assert told.fetch_offset is None


@pytest.mark.parametrize("version", [11, 12, 17])
def test_an_ordinary_answer_tells_nobody_to_truncate(version: int) -> None:
    assert diverging_epochs(version, answer(version, end_offset=None), {}) == ()


def test_a_frame_that_is_not_whole_or_of_an_unknown_version_says_nothing() -> None:
    whole = answer(17, end_offset=50)
    for frame in (whole[:-30], whole[:9]):
        assert diverging_epochs(17, frame, {}) == ()
    assert diverging_epochs(99, whole, {}) == ()
    assert fetch_positions(17, request(17)[:30]) == {}
    assert fetch_positions(99, request(17)) == {}
