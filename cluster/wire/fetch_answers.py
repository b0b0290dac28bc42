"""Which Fetch answers make a follower truncate its log, and the position that it had asked from.

A leader that sees from a follower's fetch offset and last fetched epoch that the two logs differ answers with a
*diverging epoch*: the epoch up to which they agree, and where it ends (KIP-595, Fetch from version 12 on). The proxy
reads that from the answers that a rule stops, and from no others.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from cluster.wire.frames import LENGTH_BYTES
from cluster.wire.messages import DivergingEpoch

FETCH = 1
"""The API key."""

_TOPIC_IDS_VERSION = 13


def fetch_positions(version: int, frame: bytes) -> dict[tuple[str, int], int]:
    """Return the offset from which a Fetch request asks, for each topic and partition that it names.

    Empty if the request cannot be read. A request within a fetch session names only the partitions that changed.
    """
    # Most proxies never need this import, which takes longer than all others of a proxy.
    from kafka.protocol.consumer import FetchRequest

    request = _decoded(FetchRequest, version, frame)
    return {
        (_topic_of(topic, version), one.partition): one.fetch_offset
        for topic in (request.topics if request is not None else ())
        for one in topic.partitions
    }


def diverging_epochs(version: int, frame: bytes, asked: Mapping[tuple[str, int], int]) -> tuple[DivergingEpoch, ...]:
    """Return where a Fetch answer says that the follower's log diverges.

    Empty if it does not say so, or cannot be read. `asked`: the positions of its request.
    """
    from kafka.protocol.consumer import FetchResponse

    answer = _decoded(FetchResponse, version, frame)
    return tuple(
        DivergingEpoch(
            topic=name,
            partition=one.partition_index,
            epoch=one.diverging_epoch.epoch,
            end_offset=one.diverging_epoch.end_offset,
            fetch_offset=asked.get((name, one.partition_index)),
        )
        for topic in (answer.responses if answer is not None else ())
        for name in (_topic_of(topic, version),)
        for one in topic.partitions
        if one.diverging_epoch is not None
    )


def _decoded(message: Any, version: int, frame: bytes) -> Any:
    """Return the message in a frame; None if it is not whole, or of a version that kafka-python does not know."""
    if not message.min_version <= version <= message.max_version:
        return None
    try:
        return message.decode(frame[LENGTH_BYTES:], version=version, header=True)
    except (struct.error, ValueError, IndexError):
        return None


def _topic_of(item: Any, version: int) -> str:
    return str(item.topic_id if version >= _TOPIC_IDS_VERSION else item.topic)
