"""A Kafka-aware TCP proxy: it reads the head of each frame, and rules stop frames.

A stopped frame stops everything behind it in its direction of its connection, as a server that answers in order
would; everything else goes on. A frame is never changed, and no frame overtakes another. A duplicated request is sent
twice in a row, and the answer to the second one ends here.
"""

from __future__ import annotations

import heapq
import select
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from itertools import count

from cluster.wire.connection import CONNECT_TIMEOUT_S, Connection, Pipe, StoppedFrame, close
from cluster.wire.frames import FETCH, Head, NotKafka, diverging_epochs, fetch_positions
from cluster.wire.messages import (
    ALTER_PARTITION,
    Arm,
    ArmedRules,
    Command,
    DivergingEpoch,
    Rule,
    What,
    WireEvent,
    answered_isrs,
    asked_isrs,
)
from ebbtide import run_clock

_CHUNK_BYTES = 256 << 10

Dial = Callable[[socket.socket], tuple[socket.socket, str]]
"""Dials the original destination of an accepted connection; returns its address too. Raises `OSError`."""


class Proxy:
    """The connections of one namespace, in one thread.

    `send` is called with each event for the harness.
    """

    def __init__(self, dial: Dial, send: Callable[[WireEvent], None]) -> None:
        self.epoll = select.epoll()
        self._dial = dial
        self._send = send
        self._rules = ArmedRules()
        self._connections: dict[int, Connection] = {}
        self._made = 0
        self._passed: Counter[int] = Counter()
        self._stopped: defaultdict[int, dict[Pipe, Connection]] = defaultdict(dict)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._ticket = count()

    def command(self, command: Command) -> None:
        """Carry out a command of the harness."""
        if isinstance(command, Arm):
            self._rules.arm(command.rule)
            self._send(self._command_event("armed", command.rule.number))
            return
        self._rules.end(command.number)
        for pipe, connection in self._stopped.pop(command.number, {}).items():
            if pipe.stop is not None:
                self._resume(connection, pipe, pipe.stop)
        self._send(self._command_event("released", command.number))

    def accept(self, listener: socket.socket) -> None:
        """Accept a redirected connection and dial its peer."""
        try:
            near, _ = listener.accept()
        except OSError:
            return
        near.setblocking(False)
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            far, peer = self._dial(near)
        except OSError:
            close(near, reset=True)
            return
        self._made += 1
        connection = Connection(self._made, near, far, peer)
        for end in (near, far):
            self._connections[end.fileno()] = connection
            self.epoll.register(end, 0)
        self._watch(connection)
        self._schedule(CONNECT_TIMEOUT_S, partial(self._close_if_dialling, connection))

    def step(self, handle: int, events: int) -> None:
        """Do what the kernel says is possible at one end of a connection."""
        connection = self._connections.get(handle)
        if connection is None:
            return
        try:
            if connection.dial_until is not None:
                self._end_dial(connection, handle, events)
            else:
                self._transfer(connection, handle, events)
        except OSError:
            self._close(connection, reset=True)
        self._watch(connection)

    def wait_s(self) -> float:
        """Return how long (s) until something is due; -1 if nothing is scheduled."""
        return max(0.0, self._due[0][0] - time.monotonic()) if self._due else -1

    def run_due(self) -> None:
        """Do what is due: pass delayed frames on, give up peers that do not accept."""
        while self._due and self._due[0][0] <= time.monotonic():
            heapq.heappop(self._due)[2]()

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._connections.values()):
            self._close(connection, reset=True)
        self.epoll.close()

    def _schedule(self, delay_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time.monotonic() + delay_s, next(self._ticket), act))

    def _close_if_dialling(self, connection: Connection) -> None:
        if connection.dial_until is not None:
            self._close(connection, reset=True)

    def _end_dial(self, connection: Connection, handle: int, events: int) -> None:
        if handle == connection.near.fileno() or events & (select.EPOLLERR | select.EPOLLHUP):
            self._close(connection, reset=True)
        else:
            connection.dial_until = None

    def _transfer(self, connection: Connection, handle: int, events: int) -> None:
        reading, writing = connection.pipes(handle)
        if events & (select.EPOLLERR | select.EPOLLHUP) and not events & select.EPOLLIN:
            self._close(connection, reset=True)
            return
        if events & select.EPOLLOUT:
            writing.send()
            if writing.ended and not writing.out:
                self._close(connection)
                return
        if reading.stop is not None:
            if events & select.EPOLLRDHUP:
                if reading.stop.rule.late and reading is connection.requests:
                    self._orphan(connection, reading, reading.stop)
                else:
                    self._close(connection)
        elif events & select.EPOLLIN and not reading.out:
            self._read(connection, reading)

    def _orphan(self, connection: Connection, pipe: Pipe, stop: StoppedFrame) -> None:
        """Keep a held request, and all that its sender sent before it closed its end."""
        while chunk := pipe.source.recv(_CHUNK_BYTES):
            pipe.rest += chunk
        self.epoll.unregister(connection.near)
        del self._connections[connection.near.fileno()]
        connection.orphaned = True
        self._report("outlived", connection, pipe, stop.head, stop.rule.number, stop.since)

    def _read(self, connection: Connection, pipe: Pipe) -> None:
        chunk = pipe.source.recv(_CHUNK_BYTES)
        if chunk:
            pipe.rest = pipe.rest + chunk if pipe.rest else chunk
            self._advance(connection, pipe)
            return
        pipe.ended = True
        pipe.out, pipe.rest = memoryview(pipe.rest), b""
        pipe.send()
        if not pipe.out:
            self._close(connection)

    def _advance(self, connection: Connection, pipe: Pipe, *, released: Head | None = None) -> None:
        """Pass on what was read until a rule stops a frame.

        `released`: the first frame, which may pass now.
        """
        data, head, dropped = pipe.rest[pipe.discard_left :], released or pipe.copying, False
        pipe.discard_left -= len(pipe.rest) - len(data)
        at = min(pipe.body_left, len(data))
        pipe.body_left -= at
        while not pipe.opaque and len(data) - at >= pipe.frames.head_bytes:
            if head is None:
                try:
                    head = pipe.frames.read(data, at)
                except NotKafka:
                    pipe.opaque = True
                    break
                rule = self._rule_for(connection, pipe, head)
                if rule is not None and rule.action == "duplicate":
                    pipe.copying = head = head._replace(rule=rule.number)
                elif rule is not None:
                    dropped = rule.action == "drop"
                    self._stop(connection, pipe, head, rule, data[at : at + head.size_bytes])
                    break
            ends = at + head.size_bytes
            if pipe.copying is not None and head.rule is not None:
                if len(data) < ends:
                    break
                data = data[:ends] + data[at:]
                self._note_passed(connection, pipe, head)
                self._report("duplicated", connection, pipe, head, head.rule, frame=data[at:ends])
                at, ends = ends, ends + head.size_bytes
                head, pipe.copying = head._replace(copy=True), None
            if head.api == FETCH and pipe is connection.requests and self._rules.concerns_answers(FETCH):
                head = head._replace(asked=fetch_positions(head.version, data[at:ends]))
            self._note_passed(connection, pipe, head, data[at:ends] if head.rule is not None else b"")
            there = min(ends, len(data))
            if head.copy and pipe is connection.responses:
                data = data[:at] + data[there:]
                pipe.discard_left = ends - there
            else:
                at = there
                pipe.body_left = ends - there
            head = None
        if pipe.opaque:
            at = len(data)
        pipe.out, pipe.rest = memoryview(data)[:at], data[at:]
        pipe.send()
        if dropped:
            self._close(connection)

    def _rule_for(self, connection: Connection, pipe: Pipe, head: Head) -> Rule | None:
        if pipe is connection.requests:
            connection.seen[head.api] += 1
        elif head.copy:
            return None
        return self._rules.match(head.api, pipe.direction, connection.peer)

    def _note_passed(self, connection: Connection, pipe: Pipe, head: Head, frame: bytes = b"") -> None:
        if pipe is connection.requests:
            self._passed[head.api] += 1
            connection.asked.waiting.append(head)
        elif head.rule is not None:
            self._report("discarded" if head.copy else "answered", connection, pipe, head, head.rule, frame=frame)

    def _stop(self, connection: Connection, pipe: Pipe, head: Head, rule: Rule, frame: bytes) -> None:
        """Stop a frame, of which `frame` is there: all of an answer without records, as those that truncate are."""
        if rule.action == "drop":
            self._report("dropped", connection, pipe, head, rule.number, frame=frame)
            return
        if pipe is connection.requests:
            head = head._replace(rule=rule.number)
        pipe.stop = stop = StoppedFrame(rule=rule, head=head, since=time.monotonic())
        self._stopped[rule.number][pipe] = connection
        if rule.action == "delay":
            self._schedule(rule.delay_s, lambda: self._resume(connection, pipe, stop))
        is_fetch_answer = head.api == FETCH and pipe is connection.responses
        diverging = diverging_epochs(head.version, frame, head.asked) if is_fetch_answer else ()
        self._report("held", connection, pipe, head, rule.number, diverging=diverging, frame=frame)

    def _resume(self, connection: Connection, pipe: Pipe, stop: StoppedFrame) -> None:
        if pipe.stop is not stop:
            return
        self._forget(pipe, stop)
        try:
            self._advance(connection, pipe, released=stop.head)
        except OSError:
            pipe.stop = stop
            self._close(connection, reset=True)
            return
        self._report("forwarded", connection, pipe, stop.head, stop.rule.number, stop.since)
        self._watch(connection)

    def _forget(self, pipe: Pipe, stop: StoppedFrame) -> None:
        pipe.stop = None
        self._stopped.get(stop.rule.number, {}).pop(pipe, None)

    def _command_event(self, what: What, rule: int) -> WireEvent:
        return WireEvent(event=what, at_ns=run_clock.now_ns(), rule=rule, passed=dict(self._passed))

    def _report(
        self,
        what: What,
        connection: Connection,
        pipe: Pipe,
        head: Head,
        rule: int,
        since: float | None = None,
        *,
        diverging: tuple[DivergingEpoch, ...] = (),
        frame: bytes = b"",
    ) -> None:
        is_isr_change, is_request = head.api == ALTER_PARTITION, pipe is connection.requests
        self._send(
            WireEvent(
                event=what,
                at_ns=run_clock.now_ns(),
                rule=rule,
                peer=connection.peer,
                api=head.api,
                version=head.version,
                direction=pipe.direction,
                connection=connection.number,
                correlation=head.correlation,
                size_bytes=head.size_bytes,
                waited_s=None if since is None else round(time.monotonic() - since, 6),
                seen=dict(connection.seen) if what in ("held", "dropped") else None,
                diverging=diverging,
                asked_isrs=asked_isrs(head.version, frame) if is_isr_change and is_request else (),
                answered_isrs=answered_isrs(head.version, frame) if is_isr_change and not is_request else (),
            )
        )

    def _watch(self, connection: Connection) -> None:
        if connection.closed:
            return
        for end in connection.watched_ends:
            mask = connection.wanted_events(end)
            if connection.masks[end.fileno()] != mask:
                connection.masks[end.fileno()] = mask
                self.epoll.modify(end, mask)

    def _close(self, connection: Connection, *, reset: bool = False) -> None:
        if connection.closed:
            return
        for end in connection.watched_ends:
            del self._connections[end.fileno()]
        for pipe in (connection.requests, connection.responses):
            if pipe.stop is not None:
                stop = pipe.stop
                self._forget(pipe, stop)
                self._report("abandoned", connection, pipe, stop.head, stop.rule.number, stop.since)
        connection.dial_until = None
        connection.close(reset=reset)
