"""Reads what an AlterPartition request asks for, and what the controller answered.

The definitions are Kafka's own, in schemas/, and cover the versions that Kafka has sent since 3.3.
"""

from __future__ import annotations

import struct
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from cluster.wire.messages import AnsweredIsr, AskedIsr

if TYPE_CHECKING:
    from ebbtide.kraft.schema import Message

ALTER_PARTITION = 56
"""The API key."""

_REQUEST_HEAD = struct.Struct(">ihhih")
"""Length, API key, version, correlation id, and the length of the client id."""
_RESPONSE_HEAD = struct.Struct(">ii")


def asked_isrs(version: int, frame: bytes) -> tuple[AskedIsr, ...]:
    """Return what a request asks for; empty if its frame is not whole or cannot be read."""
    head = _REQUEST_HEAD
    if len(frame) < head.size:
        return ()
    client_id_bytes = max(0, head.unpack_from(frame)[-1])
    fields = _decoded("AlterPartitionRequest", version, frame[head.size + client_id_bytes :])
    return tuple(
        AskedIsr(
            broker=fields["brokerId"],
            broker_epoch=fields["brokerEpoch"],
            topic=topic["topicId"],
            partition=one["partitionIndex"],
            leader_epoch=one["leaderEpoch"],
            partition_epoch=one["partitionEpoch"],
            isr=tuple(one["newIsr"] or (member["brokerId"] for member in one["newIsrWithEpochs"])),
        )
        for topic in fields.get("topics", ())
        for one in topic["partitions"]
    )


def answered_isrs(version: int, frame: bytes) -> tuple[AnsweredIsr, ...]:
    """Return what an answer says; empty if its frame is not whole or cannot be read, or it refuses the request."""
    fields = _decoded("AlterPartitionResponse", version, frame[_RESPONSE_HEAD.size :])
    return tuple(
        AnsweredIsr(
            topic=topic["topicId"],
            partition=one["partitionIndex"],
            error=one["errorCode"],
            partition_epoch=one["partitionEpoch"],
        )
        for topic in fields.get("topics", ())
        for one in topic["partitions"]
    )


def _decoded(name: str, version: int, data: bytes) -> dict[str, Any]:
    """Return the fields of a message behind the tagged fields of its header."""
    # Most proxies never need these imports.
    from ebbtide.kraft.schema import Cursor
    from ebbtide.logs.codecs import UndecodableError

    cursor = Cursor(data)
    try:
        for _ in range(cursor.read_uvarint()):
            cursor.read_uvarint()
            cursor.read_bytes(cursor.read_uvarint())
        return _message(name).decode(Cursor(data[cursor.position :]), version)
    except UndecodableError:
        return {}


@cache
def _message(name: str) -> Message:
    from ebbtide.kraft.schema import load

    return load((resources.files("cluster.wire") / "schemas" / f"{name}.json").read_text("utf-8"))
