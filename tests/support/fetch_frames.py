"""Frames of a follower's Fetch and its answer, encoded by kafka-python's own classes."""

from __future__ import annotations

from uuid import UUID

from client_frames import frame
from kafka.protocol.consumer import FetchRequest, FetchResponse

TOPIC = UUID(int=7)
Answers = FetchResponse.FetchableTopicResponse
Answer = Answers.PartitionData


def answer(version: int, *, end_offset: int | None) -> bytes:
    """A Fetch answer with records for partition 0, and for partition 1 perhaps a diverging epoch 4."""
    diverging = None if end_offset is None else Answer.EpochEndOffset(epoch=4, end_offset=end_offset)
    partitions = [
        Answer(partition_index=0, records=b"records", high_watermark=9),
        Answer(partition_index=1, diverging_epoch=diverging, high_watermark=9),
    ]
    topic = Answers(topic="t", topic_id=TOPIC, partitions=partitions)
    return frame(FetchResponse(session_id=5, responses=[topic]), version, 1)


def request(version: int) -> bytes:
    """A follower's Fetch of partition 1 from offset 70 on."""
    topic = FetchRequest.FetchTopic
    one = topic.FetchPartition(
        partition=1, current_leader_epoch=6, fetch_offset=70, last_fetched_epoch=5, partition_max_bytes=1
    )
    topics = [topic(topic="t", topic_id=TOPIC, partitions=[one])]
    message = FetchRequest(replica_id=1, max_wait_ms=1, min_bytes=1, max_bytes=1, topics=topics)
    return frame(message, version, 1, "broker-1-fetcher-0")
