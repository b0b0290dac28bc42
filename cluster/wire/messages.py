"""Messages between the harness and a wire proxy: JSON lines over a Unix socket.

Peers are IPv4 addresses, as the proxy sees them; only the harness knows which node has which address.

The proxy also says what an AlterPartition request asks for, and what the controller answered.

The definitions are Kafka's own, in schemas/, and cover the versions that Kafka has sent since 3.3.
"""

from __future__ import annotations

import struct
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from ebbtide.kraft.schema import Message

Action = Literal["hold", "delay", "drop", "duplicate"]
Direction = Literal["request", "response"]
What = Literal[
    "armed", "held", "outlived", "forwarded", "answered", "dropped", "duplicated", "discarded", "abandoned", "released"
]

CONTROL = "\0ebbtide-wire"
"""The proxy's control socket: an abstract address, private to its network namespace, which leaves no file."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a proxy does with requests of one API key, or with the answers to them.

    `peers`: the rule applies to requests to these addresses (empty: to any). `times`: it applies to the first `times`
    matching frames (None: to all). Only frames that come after the rule was armed count. `late`: a held request is kept
    when its sender closes the connection.
    """

    number: int
    action: Action
    api: int
    direction: Direction = "request"
    peers: tuple[str, ...] = ()
    delay_s: float = 0.0
    times: int | None = None
    late: bool = False


class Arm(msgspec.Struct, frozen=True, tag_field="do", tag="arm"):
    """Put a rule in force. The proxy answers with `armed`."""

    rule: Rule


class Release(msgspec.Struct, frozen=True, tag_field="do", tag="release"):
    """End a rule and pass on what it holds, in order. The proxy answers `released`."""

    number: int


Command = Arm | Release


class DivergingEpoch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a Fetch answer says about a partition: the follower's log differs from the end of `epoch` on.

    `topic` is the topic's id (its name before Fetch version 13). `fetch_offset`: where the follower had asked from.
    """

    topic: str
    partition: int
    epoch: int
    end_offset: int
    fetch_offset: int | None = None


class AskedIsr(msgspec.Struct, frozen=True, kw_only=True):
    """What an AlterPartition asks for a partition: a new ISR, based on these epochs. `topic` is the topic's id."""

    broker: int
    broker_epoch: int
    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


class AnsweredIsr(msgspec.Struct, frozen=True, kw_only=True):
    """What the controller answered for a partition: Kafka's error code (0: none), and the partition epoch since."""

    topic: str
    partition: int
    error: int
    partition_epoch: int


class WireEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event at a proxy, with the number of its rule.

    - armed, released: the answers to the commands; `passed` counts the requests that went on to a peer so far, by API
      key.
    - held: a hold or a delay stopped a request or an answer of `size_bytes`.
    - outlived: its sender closed the connection, and it is held all the same.
    - forwarded: it went on, after `waited_s`.
    - answered: the answer to a request that had been stopped passed back.
    - dropped: its connection was closed instead.
    - duplicated: it was sent a second time right after the first.
    - discarded: the peer also answered the second one, and that answer was thrown away.
    - abandoned: one end closed the connection while the frame was held.

    `seen` counts the requests of this connection by API key, including this one: it shows what waits behind it.
    `diverging`: what a held Fetch answer makes a follower truncate. `asked_isrs`: what an AlterPartition asks for that
    a rule stopped or copied; `answered_isrs`: what its answer says.
    """

    event: What
    at_ns: int
    rule: int
    peer: str | None = None
    api: int | None = None
    version: int | None = None
    direction: Direction | None = None
    connection: int | None = None
    correlation: int | None = None
    size_bytes: int | None = None
    waited_s: float | None = None
    seen: dict[int, int] | None = None
    passed: dict[int, int] | None = None
    diverging: tuple[DivergingEpoch, ...] = ()
    asked_isrs: tuple[AskedIsr, ...] = ()
    answered_isrs: tuple[AnsweredIsr, ...] = ()


class ArmedRules:
    """The rules in the order in which they were armed; the first that matches applies."""

    def __init__(self) -> None:
        self._rules: dict[int, Rule] = {}
        self._left: dict[int, int] = {}

    def arm(self, rule: Rule) -> None:
        """Put a rule in force."""
        self._rules[rule.number] = rule
        if rule.times is not None:
            self._left[rule.number] = rule.times

    def end(self, number: int) -> None:
        """End a rule; does nothing when no rule has this number."""
        self._rules.pop(number, None)
        self._left.pop(number, None)

    def match(self, api: int, direction: Direction, peer: str) -> Rule | None:
        """Return the rule for a frame and count it against `times`; None lets it pass."""
        for rule in self._rules.values():
            if rule.api != api or rule.direction != direction or (rule.peers and peer not in rule.peers):
                continue
            left = self._left.get(rule.number)
            if left is None:
                return rule
            if left > 0:
                self._left[rule.number] = left - 1
                return rule
        return None

    def concerns_answers(self, api: int) -> bool:
        """Whether a rule for the answers to requests of `api` is in force."""
        return any(rule.api == api and rule.direction == "response" for rule in self._rules.values())


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
