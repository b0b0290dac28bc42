"""The journal of a group's commits, and of the offsets that its coordinator serves.

A few rows a second are written, so that the format is readable rather than dense. A commit is journalled before it is
sent, and its answer when it comes: a commit without an answer is unknown.

The table that maps Kafka's answers to a commit to acked, failed or unknown.

The words are as strict as for sends (`ebbtide.journal.outcomes`), and a commit of kafka-python is one attempt
(`LastCommitAnswer` is for librdkafka). The coordinator checks the group's member first, then appends the commit to
`__consumer_offsets` and waits for the ISR. It renames the errors of that append: NOT_ENOUGH_REPLICAS_AFTER_APPEND
becomes COORDINATOR_NOT_AVAILABLE, and NOT_LEADER_OR_FOLLOWER becomes NOT_COORDINATOR. Those two are therefore unknown,
although they also refuse a commit before the append.

The frames of copiers' journals, and of the brokers' descriptions.

The journal of a copier: which record of the topic that it reads became which record that it sent.

A copy is journalled before its send is, so every send in the record has its copy. The outcome of the send, and that of
its transaction, are in `sends/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ebbtide.journal.file import frame
from ebbtide.journal.outcomes import Outcome, Row, outcome_table, row_finder

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


COMMIT_TABLE = outcome_table("""
NONE | 0 | acked | The commit is in the log of every in-sync replica of the group's partition of __consumer_offsets.
ILLEGAL_GENERATION | 22 | failed | The member's generation is checked before the append.
UNKNOWN_MEMBER_ID | 25 | failed | The member is checked before the append.
REBALANCE_IN_PROGRESS | 27 | failed | The state of the group is checked before the append.
FENCED_INSTANCE_ID | 82 | failed | The member is checked before the append.
INVALID_GROUP_ID | 24 | failed | The request is refused before the group is looked up.
GROUP_AUTHORIZATION_FAILED | 30 | failed | Authorisation comes before the append.
COORDINATOR_LOAD_IN_PROGRESS | 14 | failed | A coordinator that still loads the group appends nothing.
CommitFailedError | - | failed | The client is no member of the group, or the coordinator refused its member.
COORDINATOR_NOT_AVAILABLE | 15 | unknown | No coordinator is known, or it appended and the ISR did not confirm it.
NOT_COORDINATOR | 16 | unknown | Refused before the append, or appended and then deposed during the wait.
REQUEST_TIMED_OUT | 7 | unknown | It was appended and the ISR did not confirm it in time.
INVALID_COMMIT_OFFSET_SIZE | 28 | unknown | One partition was refused; nothing is said of the others.
OFFSET_METADATA_TOO_LARGE | 12 | unknown | One partition was refused; nothing is said of the others.
TOPIC_AUTHORIZATION_FAILED | 29 | unknown | One topic was refused; nothing is said of the others.
UNKNOWN_TOPIC_OR_PARTITION | 3 | unknown | One topic was refused; nothing is said of the others.
NETWORK_EXCEPTION | 13 | unknown | The connection broke before the answer came.
UNKNOWN_SERVER_ERROR | -1 | unknown | The broker failed at a place that it does not name.
KafkaTimeoutError | - | unknown | The client stopped waiting; the coordinator may still append.
KafkaConnectionError | - | unknown | The connection broke before the answer came.
NodeNotReadyError | - | failed | The client had no usable connection and gave the request back unwritten.
Cancelled | - | unknown | The client closed the connection before the answer came.
UNRESOLVED | - | unknown | The consumer stopped, or was killed, before an answer came.
""")
"""Every answer with a known meaning, in the order of the documentation."""


class LastCommitAnswer(Exception):
    """The error that ended a commit of a client that may have sent it several times: librdkafka.

    An earlier answer is not known, so the commit's outcome is not either.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


_row_of = row_finder(COMMIT_TABLE)


def outcome_of_commit(error: BaseException | None) -> Row:
    """Return the row of a commit's answer; None is success."""
    if isinstance(error, LastCommitAnswer):
        return Row(name=error.name, code=None, outcome="unknown", why="An earlier attempt may have been appended.")
    return _row_of(error)


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
