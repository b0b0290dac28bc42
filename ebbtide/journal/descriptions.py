"""The journal of the brokers' answers to DescribeTopicPartitions.

A few rows a second are written, so that the format is readable rather than dense.
"""

from __future__ import annotations

import msgspec

from ebbtide.journal.file import frame

DESCRIBED = 8
"""The kind number of these frames."""


class PartitionAnswer(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One broker's answer on one partition; an ELR of None means that it did not say.

    `topic` is an index into the journal's topics.
    """

    topic: int
    partition: int
    broker: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None
    asked_ns: int
    at_ns: int


def pack_described(rows: list[PartitionAnswer]) -> bytes:
    """Return the frame of several answers."""
    return frame(DESCRIBED, msgspec.msgpack.encode(rows))


def unpack_described(kind: int, payload: bytes) -> list[PartitionAnswer]:
    """Return the answers in a frame; empty for a frame of another kind."""
    return msgspec.msgpack.decode(payload, type=list[PartitionAnswer]) if kind == DESCRIBED else []
