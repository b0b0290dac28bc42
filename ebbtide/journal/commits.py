"""The journal of a group's commits, and of the offsets that its coordinator serves.

A few rows a second are written, so that the format is readable rather than dense. A commit is journalled before it is
sent, and its answer when it comes: a commit without an answer is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ebbtide.journal.file import frame
from ebbtide.journal.outcomes import Outcome

COMMITS = 9
"""The kind number of these frames."""


class Commit(msgspec.Struct, frozen=True, kw_only=True, tag="commit"):
    """One partition of a commit that is about to be sent.

    `topic` is an index into the journal's topics. `commit` is the number that the commit carries as its metadata.
    """

    group: str
    topic: int
    partition: int
    commit: int
    offset: int
    consumer: int
    offsets_partition: int
    asked_ns: int


class CommitAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    """How a commit ended, for all its partitions."""

    commit: int
    status: Outcome
    error: str | None = None
    done_ns: int | None = None


class ServedOffset(msgspec.Struct, frozen=True, kw_only=True, tag="served"):
    """What a coordinator says that a group has committed for a partition.

    `offset` None: nothing. `commit` None: nothing, or a commit that is not of this run's clients.
    """

    group: str
    topic: int
    partition: int
    commit: int | None
    offset: int | None
    broker: int
    offsets_partition: int
    asked_ns: int
    done_ns: int
    status: Literal["served"] = "served"


Entry = Commit | CommitAnswer | ServedOffset


def pack_commits(entries: Sequence[Entry]) -> bytes:
    """Return the frame of several entries."""
    return frame(COMMITS, msgspec.msgpack.encode(entries))


def unpack_commits(kind: int, payload: bytes) -> list[Entry]:
    """Return the entries in a frame; empty for a frame of another kind."""
    return msgspec.msgpack.decode(payload, type=list[Entry]) if kind == COMMITS else []
