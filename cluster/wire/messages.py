"""What the harness and a wire proxy say to each other: one JSON object a line, over a Unix socket.

Peers are IPv4 addresses, as the proxy sees them; who has which is the harness's to know.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Action = Literal["hold", "delay", "drop", "duplicate"]
Direction = Literal["request", "response"]
What = Literal["armed", "held", "forwarded", "answered", "dropped", "duplicated", "discarded", "abandoned", "released"]

CONTROL = "\0ebbtide-wire"
"""The proxy's control socket: an abstract address, which is its network namespace's own and leaves no file."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to do with requests of one API key, or with the answers to them.

    `peers` are the addresses asked (none: any); the first `times` that come by are meant (None: all). A rule
    counts from when it was armed: what passed before is gone.
    """

    number: int
    action: Action
    api: int
    direction: Direction = "request"
    peers: tuple[str, ...] = ()
    delay_s: float = 0.0
    times: int | None = None


class Arm(msgspec.Struct, frozen=True, tag_field="do", tag="arm"):
    """Put a rule in force. Answered by `armed`."""

    rule: Rule


class Release(msgspec.Struct, frozen=True, tag_field="do", tag="release"):
    """End a rule and let what it holds go, in the order in which it came. Answered by `released`."""

    number: int


Command = Arm | Release


class WireEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened at a proxy, by rule.

    armed, released: the answers to the commands; `passed` counts the requests that went on to a peer so far, by
    API key. held: a hold or a delay stopped a request or an answer of `size_bytes`. forwarded: it went on, after
    `waited_s`. answered: the answer to a request that had been stopped passed back. dropped: its connection was
    closed instead. duplicated: it was sent a second time right after the first; discarded: the peer answered that one
    too, and its answer went nowhere. abandoned: one of its ends closed the connection while it was held.

    `seen` counts the requests of this connection by API key, this one included: what else waits behind it.
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
