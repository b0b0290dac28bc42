"""One proxied connection: two pipes between the node's socket and the peer's, and what waits in them."""

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
"""How long a peer may take to accept: `socket.connection.setup.timeout.ms` of the nodes, whose connect this is."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class StoppedFrame(msgspec.Struct, frozen=True):
    """A frame that `rule` stopped at `since` (monotonic)."""

    rule: Rule
    head: Head
    since: float


class Pipe:
    """One direction. `rest` is read and not passed on, `out` is passed on and not yet sent.

    `body_left` bytes of the last frame that was passed on are still to come, `discard_left` of one that is not.
    `copying`: the frame that stands first goes on twice, once all of it is there. `opaque`: not Kafka's protocol.
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
        """Send what the sink takes. Raises `OSError` when it is closed."""
        if self.out:
            try:
                self.out = self.out[self.sink.send(self.out) :]
            except BlockingIOError:
                return


class Connection:
    """A connection of the node to the address `peer`: `near` is the node's end, `far` the peer's.

    `seen` counts its requests by API key. `dial_until` (monotonic): the peer has not accepted yet.
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

    def pipes(self, end: int) -> tuple[Pipe, Pipe]:
        """The pipe that reads from the end with this file descriptor, and the one that writes to it."""
        if end == self.near.fileno():
            return self.requests, self.responses
        return self.responses, self.requests

    def wanted(self, end: socket.socket) -> int:
        """The epoll events of one end that can be used now, and no more: a level that nobody takes would spin."""
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
        """Close both ends; `reset` lets neither think that the other had said all."""
        self.closed = True
        for end in (self.near, self.far):
            close(end, reset=reset)


def close(end: socket.socket, *, reset: bool) -> None:
    """Close a socket in the ordinary way, or by a reset."""
    if reset:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    end.close()
