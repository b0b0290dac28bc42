"""A proxied connection: two pipes between a node and a peer."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import Counter

import msgspec

from cluster.wire.frames import Head, Requests, Responses
from cluster.wire.messages import Direction, Rule

CONNECT_TIMEOUT_S = 1.0
"""How long a peer may take to accept: the nodes' `socket.connection.setup.timeout.ms`, since they connect."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class StoppedFrame(msgspec.Struct, frozen=True):
    """A frame that `rule` stopped at `since` (monotonic seconds)."""

    rule: Rule
    head: Head
    since: float


class Pipe:
    """One direction of a connection.

    - `rest` was read and not passed on; `out` was passed on and not yet sent.
    - `body_left` bytes of the last frame that was passed on are still to come; `discard_left` bytes of a frame that
      is discarded.
    - `copying`: the first frame is sent twice, once all of it is there.
    - `opaque`: the stream is not Kafka's protocol.
    """

    def __init__(
        self, direction: Direction, source: socket.socket, sink: socket.socket, frames: Requests | Responses
    ) -> None:
        self.direction: Direction = direction
        self.source = source
        self.sink = sink
        self.frames = frames
        self.rest = b""
        self.body_left = 0
        self.discard_left = 0
        self.copying: Head | None = None
        self.out = memoryview(b"")
        self.stop: StoppedFrame | None = None
        self.ended = False
        self.opaque = False

    def send(self) -> None:
        """Send as much as the sink accepts. Raises `OSError` when the sink is closed."""
        if self.out:
            try:
                self.out = self.out[self.sink.send(self.out) :]
            except BlockingIOError:
                return


class Connection:
    """A connection of the node to the address `peer`.

    `near` is the node's end, `far` the peer's. `seen` counts its requests by API key. `dial_until` (monotonic
    seconds): the deadline while the peer has not accepted yet. `orphaned`: the node has closed its end, and what it
    sent is kept for the peer.
    """

    def __init__(self, number: int, near: socket.socket, far: socket.socket, peer: str) -> None:
        self.number = number
        self.near = near
        self.far = far
        self.peer = peer
        self.asked = Requests()
        self.requests = Pipe("request", near, far, self.asked)
        self.responses = Pipe("response", far, near, Responses(self.asked))
        self.seen: Counter[int] = Counter()
        self.dial_until: float | None = time.monotonic() + CONNECT_TIMEOUT_S
        self.masks = {near.fileno(): 0, far.fileno(): 0}
        self.closed = False
        self.orphaned = False

    @property
    def watched_ends(self) -> tuple[socket.socket, ...]:
        """The ends whose events matter."""
        return (self.far,) if self.orphaned else (self.near, self.far)

    def pipes(self, end: int) -> tuple[Pipe, Pipe]:
        """Return the pipe that reads from descriptor `end`, and the one that writes to it."""
        if end == self.near.fileno():
            return self.requests, self.responses
        return self.responses, self.requests

    def wanted_events(self, end: socket.socket) -> int:
        """Return the epoll events of one end that can be handled now, and no others.

        A level-triggered event that is not handled would spin.
        """
        if self.dial_until is not None:
            return select.EPOLLOUT if end is self.far else select.EPOLLRDHUP
        reading, writing = self.pipes(end.fileno())
        mask = select.EPOLLOUT if writing.out else 0
        if reading.stop is not None:
            mask |= select.EPOLLRDHUP
        elif not reading.out and not reading.ended:
            mask |= select.EPOLLIN
        return mask

    def close(self, *, reset: bool) -> None:
        """Close both ends; `reset` shows both that the stream was cut off."""
        self.closed = True
        for end in (self.near, self.far):
            close(end, reset=reset)


def close(end: socket.socket, *, reset: bool) -> None:
    """Close a socket, in the ordinary way or by a reset."""
    if reset:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    end.close()
