"""Frames of a follower's Fetch and its answer, encoded by kafka-python's own classes."""

from __future__ import annotations

import struct
from uuid import UUID

from kafka.protocol.consumer import FetchRequest, FetchResponse

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
