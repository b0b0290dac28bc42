"""The messages on a cluster's control socket.

Each connection carries one request and one reply, each a line of JSON.

A connection to a cluster's daemon, on which every wait has a deadline and every answer a size limit.

A daemon may be stopped, or busy for long, and something else may listen at its socket.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from ebbtide.errors import PARTS, EbbtideError, ExitCode, HarnessError, Problems, UsageError
from ebbtide.privileges import Privileges
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.model import TopicSpec
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.waiting import is_readable


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a cluster: its process, and the newest event of its broker's registration (null for controllers)."""

    id: int
    role: Literal["broker", "controller"]
    state: str
    registration: str | None = None


class FaultInForce(msgspec.Struct, frozen=True, kw_only=True):
    """A lasting fault or an armed rule: the kind of step, what it hits in words, and whether it has proof."""

    step: str
    whom: str
    nodes: tuple[int, ...] = ()
    proven: bool


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a cluster that is up.

    - `record`: the folder of its run.
    - `nodes`: by their names.
    - `partitions`: their newest states in the KRaft log, as in the table `partitions` of a record.
    - `broken`: the lasting faults of connections, volumes and clocks, and the wire rules, each with its nodes.
    - `repairs`: the arguments of `ebbtide cluster fault` that end what is broken, in an order in which all work.
    - `namespace`: the clients' network namespace as the daemon sees it; `powers` are the daemon's privileges.
    - `scenario`: empty for a plain cluster.
    - `kept`: its run is over, and the cluster was left up.
    - `bootstrap`, `controllers`: the addresses of the brokers and of the controllers in the clients' network.
    - `published`: the addresses on the host's loopback that lead to the brokers; `published_ca`: the file with the CA
      that clients trust there, empty without TLS.
    - `clock_base_ns`: what the clock of the run adds to CLOCK_MONOTONIC.
    - `started_by`: the program that started the cluster for itself; empty for a cluster by hand.
    """

    name: str
    run_id: str
    record: str
    scenario: str
    kafka: str
    runtime: str
    power_loss_method: str
    powers: Privileges
    bootstrap: tuple[str, ...]
    namespace: str
    nodes: dict[str, NodeStatus]
    partitions: tuple[PartitionState, ...]
    broken: tuple[FaultInForce, ...] = ()
    repairs: tuple[str, ...] = ()
    steps: int
    kept: bool = False
    published: tuple[str, ...] = ()
    published_ca: str = ""
    controllers: tuple[str, ...] = ()
    clock_base_ns: int = 0
    started_by: str = ""


class AskStatus(msgspec.Struct, frozen=True, kw_only=True, tag="status"):
    """Ask for the cluster's status."""


class Fire(msgspec.Struct, frozen=True, kw_only=True, tag="fire"):
    """Carry out a step; answered once it has been carried out, or has failed."""

    step: StepSpec


class CreateTopic(msgspec.Struct, frozen=True, kw_only=True, tag="create-topic"):
    """Create a topic; answered once every partition has a leader and its whole ISR."""

    topic: str
    spec: TopicSpec


class EndCluster(msgspec.Struct, frozen=True, kw_only=True, tag="down"):
    """End the cluster.

    There is no answer: the connection closes when nothing is left of the cluster.
    """


Request = AskStatus | Fire | CreateTopic | EndCluster


class ImpossibleNow(UsageError):
    """A step that the present state of the cluster makes impossible."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An `EbbtideError` on its way to another process; `by_state`: the present state of the cluster refuses a step."""

    usage: bool
    by_state: bool = False
    what: str
    where: str | None = None
    got: str | None = None
    allowed: str | None = None
    next: str | None = None

    @classmethod
    def of(cls, error: EbbtideError, *, by_state: bool = False) -> Refusal:
        """Return the refusal for `error`; several problems are kept in its first line."""
        parts: dict[str, Any] = {"what": error.render()}
        if not isinstance(error, Problems):
            parts = {part: getattr(error, part) for part in PARTS}
        return cls(usage=error.exit_code is ExitCode.USAGE, by_state=by_state, **parts)

    def error(self) -> EbbtideError:
        """Return the error, to be raised in this process."""
        kind = (ImpossibleNow if self.by_state else UsageError) if self.usage else HarnessError
        return kind(self.what, where=self.where, got=self.got, allowed=self.allowed, next=self.next)


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A `refusal`, or the answer; `status` is set unless the request was refused."""

    status: ClusterStatus | None = None
    step: StepEntry | None = None
    refusal: Refusal | None = None


LINE_BYTES_MAX = 64 << 20
"""More than the status of the largest cluster has."""
_PART_BYTES = 1 << 16
_AT_ONCE_S = 1.0
_PEER = struct.Struct("3i")
_TIMEVAL = struct.Struct("ll")


class DaemonConnection:
    """A connection to the daemon of the cluster `name`; `timeout_s` is how long all its waits may take together.

    `awaited` says in errors what the caller waits for; `log` is the daemon's.
    """

    def __init__(self, caller: socket.socket, name: str, log: Path, *, awaited: str, timeout_s: float) -> None:
        self._socket = caller
        self._name = name
        self._log = log
        self._awaited = awaited
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s

    def connect(self, path: Path) -> None:
        """Connect to a socket. Raises `OSError` if nobody listens, and `HarnessError` after the deadline."""
        self._limit_sending()
        try:
            with short_path(path) as short:
                self._socket.connect(short)
        except BlockingIOError:  # it has not accepted the callers before this one
            raise self._silence() from None

    def send(self, message: bytes) -> None:
        """Send a line. Raises `ConnectionError` if the daemon ended, and `HarnessError` after the deadline."""
        self._limit_sending()
        try:
            self._socket.sendall(message + b"\n")
        except BlockingIOError:
            raise self._silence() from None

    def receive(self) -> bytes:
        """Return the line that the daemon answers, or what it sent of one before it closed the connection.

        Raises `ConnectionError` if the daemon ended, and `HarnessError` after the deadline or for a line without end.
        """
        line = bytearray()
        while not line.endswith(b"\n"):
            if not is_readable(self._socket, max(0.0, self._deadline - time.monotonic())):
                raise self._silence()
            part = self._socket.recv(_PART_BYTES)
            if not part:
                break
            line += part
            if len(line) > LINE_BYTES_MAX:
                raise self.nonsense(f"more than {LINE_BYTES_MAX:,} bytes without a newline")
        return bytes(line)

    def is_busy(self) -> bool:
        """Whether the daemon does not answer at once, because it works for another caller."""
        return not is_readable(self._socket, _AT_ONCE_S)

    def daemon_pid(self) -> int:
        """Return the daemon's pid as this process sees it, in any pid namespace."""
        pid, _, _ = _PEER.unpack(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        return int(pid)

    def nonsense(self, got: str) -> HarnessError:
        """Return the error for an answer that nobody can read."""
        return HarnessError(
            f"the daemon of {self._name} answers with something else than {self._awaited}",
            where=self._where(),
            got=got,
            allowed="one line of JSON, as a daemon of this release of ebbtide sends it",
            next=self._remedy("use the release of ebbtide that started the cluster"),
        )

    def _silence(self) -> HarnessError:
        return HarnessError(
            f"the daemon of {self._name} did not answer: waited {self._timeout_s:g} s for {self._awaited}",
            where=self._where(),
            got="nothing; the daemon is stopped, or busy with another request",
            next=self._remedy("try again later"),
        )

    def _where(self) -> str:
        with contextlib.suppress(OSError):
            if pid := self.daemon_pid():
                return f"process {pid}, whose log is {self._log}"
        return f"a process whose log is {self._log}"

    def _remedy(self, first: str) -> str:
        pid = 0
        with contextlib.suppress(OSError):
            pid = self.daemon_pid()
        return f"{first}, or end it: kill -KILL {pid or 'PID'}; ebbtide clean"

    def _limit_sending(self) -> None:
        """Let the kernel end a wait for a full queue at the deadline."""
        left = max(0.001, self._deadline - time.monotonic())
        limit = _TIMEVAL.pack(int(left), int(left % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yield a short path of the same socket: the kernel allows 107 characters."""
    handle = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{path.name}"
    finally:
        os.close(handle)


StepResult = Literal["took-effect", "armed", "no-proof", "never-fired"]
"""The effect of a step. `armed`: a wire rule that no request has met yet."""


class FaultOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A step by hand: its entry as in steps.jsonl, and what it says about the effect.

    `armed` is a wire rule that no request has met yet.
    """

    result: StepResult
    step: StepEntry


class DownOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that was stopped; `has_run`: `record` has a complete run, which `ebbtide analyze` judges."""

    name: str
    run_id: str
    record: str
    has_run: bool
