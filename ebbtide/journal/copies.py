"""The frames of copiers' journals, and of the brokers' descriptions.

The journal of a copier: which record of the topic that it reads became which record that it sent.

A copy is journalled before its send is, so every send in the record has its copy. The outcome of the send, and that of
its transaction, are in `sends/`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ebbtide.journal.file import frame

COPIES = 10
"""The kind number of these frames."""


class Copy(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One record that a copier is about to send: its `value`, and the place of the record that it read."""

    partition: int
    offset: int
    value: int
    at_ns: int


def pack_copies(copies: Sequence[Copy]) -> bytes:
    """Return the frame of several copies."""
    return frame(COPIES, msgspec.msgpack.encode(copies))


def unpack_copies(kind: int, payload: bytes) -> list[Copy]:
    """Return the copies in a frame; empty for a frame of another kind."""
    return msgspec.msgpack.decode(payload, type=list[Copy]) if kind == COPIES else []


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
