"""Kafka's framing, as far as a proxy needs it: where a frame begins, and its API.

A request is a length (4 bytes), then API key (2), version (2) and correlation id (4). An answer is a length and the
correlation id of its request (Kafka protocol guide, request and response headers). The headers of every version begin
like this. The rest passes unread.

Which Fetch answers make a follower truncate its log, and the position that it had asked from.

A leader that sees from a follower's fetch offset and last fetched epoch that the two logs differ answers with a
*diverging epoch*: the epoch up to which they agree, and where it ends (KIP-595, Fetch from version 12 on). The proxy
reads that from the answers that a rule stops, and from no others.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from cluster.wire.messages import DivergingEpoch

REQUEST_HEAD = struct.Struct(">ihhi")
RESPONSE_HEAD = struct.Struct(">ii")
LENGTH_BYTES = 4
LENGTH_MAX = 1 << 30


class Head(NamedTuple):
    """The beginning of a frame of `size_bytes`, which includes its length field.

    An answer has the API of its request. `rule`: the number of the rule that stopped or copied the request. `copy`:
    the frame is the second of two. `asked`: the offsets that a Fetch asks from, by topic and partition; read only
    while a rule for Fetch answers is in force.
    """

    api: int
    version: int
    correlation: int
    size_bytes: int
    rule: int | None = None
    copy: bool = False
    asked: Mapping[tuple[str, int], int] = MappingProxyType({})


class NotKafka(Exception):
    """The bytes are not a Kafka frame: the rest of the stream cannot be read either."""


class Requests:
    """Reads the requests of one connection; `waiting` are those without an answer."""

    head_bytes = REQUEST_HEAD.size

    def __init__(self) -> None:
        self.waiting: deque[Head] = deque()

    def read(self, data: bytes | memoryview, at: int) -> Head:
        """Return the head of the frame at `at`. Raises `NotKafka`.

        At least `head_bytes` of the frame must be in `data`.
        """
        length, api, version, correlation = REQUEST_HEAD.unpack_from(data, at)
        if not self.head_bytes - LENGTH_BYTES <= length <= LENGTH_MAX:
            raise NotKafka
        return Head(api, version, correlation, length + LENGTH_BYTES)


class Responses:
    """Reads the answers of one connection; Kafka answers requests in their order."""

    head_bytes = RESPONSE_HEAD.size

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def read(self, data: bytes | memoryview, at: int) -> Head:
        """Return the head of the frame at `at`. Raises `NotKafka`.

        At least `head_bytes` of the frame must be in `data`.
        """
        length, correlation = RESPONSE_HEAD.unpack_from(data, at)
        if not self.head_bytes - LENGTH_BYTES <= length <= LENGTH_MAX:
            raise NotKafka
        waiting = self._requests.waiting
        while waiting:
            # A produce request with acks=0 is never answered, so that it is skipped here.
            request = waiting.popleft()
            if request.correlation == correlation:
                return Head(request.api, request.version, correlation, length + LENGTH_BYTES, *request[4:])
        raise NotKafka


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
