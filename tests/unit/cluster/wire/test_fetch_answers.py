"""What the proxy reads in a held Fetch answer, encoded by kafka-python's own classes."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse

from cluster.wire.fetch_answers import diverging_epochs, fetch_positions
from cluster.wire.messages import DivergingEpoch

TOPIC = UUID(int=7)
Answers = FetchResponse.FetchableTopicResponse
Answer = Answers.PartitionData


def answer(version: int, *, end_offset: int | None) -> bytes:
    """A Fetch answer with records for partition 0, and for partition 1 perhaps a diverging epoch 4."""
    diverging = None if end_offset is None else Answer.EpochEndOffset(epoch=4, end_offset=end_offset)
    usual = {"error_code": 0, "high_watermark": 9}
    body = FetchResponse(
        throttle_time_ms=0,
        error_code=0,
        session_id=5,
        responses=[
            Answers(
                topic="t",
                topic_id=TOPIC,
                partitions=[
                    Answer(partition_index=0, records=b"records", **usual),
                    Answer(partition_index=1, diverging_epoch=diverging, **usual),
                ],
            )
        ],
    ).encode(version=version)
    header = struct.pack(">i", 1) + (b"\0" if version >= 12 else b"")
    return struct.pack(">i", len(header) + len(body)) + header + bytes(body)


def request(version: int) -> bytes:
    """A follower's Fetch of partition 1 from offset 70 on."""
    topic = FetchRequest.FetchTopic
    one = topic.FetchPartition(
        partition=1, current_leader_epoch=6, fetch_offset=70, last_fetched_epoch=5, partition_max_bytes=1
    )
    message = FetchRequest(
        replica_id=1,
        max_wait_ms=1,
        min_bytes=1,
        max_bytes=1,
        topics=[topic(topic="t", topic_id=TOPIC, partitions=[one])],
        forgotten_topics_data=[],
    )
    message.with_header(correlation_id=1, client_id="broker-1-fetcher-0")
    return bytes(message.encode(version=version, header=True, framed=True))


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
