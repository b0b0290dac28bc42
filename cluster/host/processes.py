"""Identifies processes beyond doubt: by pid, start time and boot.

A pid alone may be reused.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ebbtide.errors import HarnessError
from ebbtide.waiting import WaitExpired, wait_until

KILL_TIMEOUT_S = 10.0
_EXEC_S = 0.5
"""A process that becomes another program (execve) has no environment for less than that."""

RUN_VARIABLE = "EBBTIDE_RUN"
"""The environment variable of a run's processes; its value is the run's id."""


class ProcessId(msgspec.Struct, frozen=True, kw_only=True):
    """One process of one boot.

    `start_ticks` is field 22 of /proc/PID/stat (clock ticks since boot), as a process outside of every time namespace
    reads it.
    """

    pid: int
    start_ticks: int
    boot_id: str


def boot_id() -> str:
    """Return the id of this boot of the kernel."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _stat_fields(pid: int) -> list[str] | None:
    """Return /proc/PID/stat from its third field, the state, on; None if none exists."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command in parentheses, which may itself hold spaces and parentheses.
    return text.rpartition(")")[2].split()


def state_of(pid: int) -> str | None:
    """Return the one-letter state (`R`, `S`, `D`, `T`, `Z`); None without a process."""
    fields = _stat_fields(pid)
    return fields[0] if fields else None


def thread_cpu_ns(pid: int) -> dict[str, int]:
    """Return the CPU time of each living thread of `pid`, in ns, by thread id.

    Empty when there is no such process.
    """
    times = {}
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            times[task.parent.name] = int(task.read_text().split()[0])
        except (OSError, IndexError, ValueError):
            continue
    return times


def cpu_ns_since(pid: int, before: Mapping[str, int]) -> int:
    """Return the CPU time (ns) that the threads of `pid` have had since `before`.

    `before` is an earlier `thread_cpu_ns`. A thread that ended meanwhile counts as 0.
    """
    return sum(max(0, ns - before.get(thread, 0)) for thread, ns in thread_cpu_ns(pid).items())


@functools.cache
def _time_offset_ticks() -> int:
    """Return by how much this process's time namespace shifts the time since boot, and so the start of processes."""
    try:
        lines = Path("/proc/self/timens_offsets").read_text().splitlines()
    except OSError:  # a kernel without time namespaces
        return 0
    shifts = {words[0]: (int(words[1]), int(words[2])) for words in map(str.split, lines) if len(words) == 3}
    seconds, ns = shifts.get("boottime", (0, 0))
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    return seconds * ticks_per_s + ns * ticks_per_s // 1_000_000_000


def _start_ticks(fields: list[str]) -> int:
    return int(fields[19]) - _time_offset_ticks()


def identify(pid: int) -> ProcessId:
    """Return the identity of a running process. Raises `ProcessLookupError`."""
    fields = _stat_fields(pid)
    if fields is None:
        raise ProcessLookupError(pid)
    return ProcessId(pid=pid, start_ticks=_start_ticks(fields), boot_id=boot_id())


def is_alive(process: ProcessId) -> bool:
    """Whether exactly this process still runs; a zombie does not."""
    fields = _stat_fields(process.pid)
    return (
        fields is not None
        and fields[0] not in ("Z", "X")
        and _start_ticks(fields) == process.start_ticks
        and process.boot_id == boot_id()
    )


def mark_of(run_id: str) -> dict[str, str]:
    """Return the environment variable that each process of a run has: nothing else is ever killed."""
    return {RUN_VARIABLE: run_id}


def _has_mark(pid: int, run_id: str) -> bool:
    with contextlib.suppress(WaitExpired):
        wait_until(lambda: _words_of(pid, "environ") != [b""], awaited="an environment", timeout_s=_EXEC_S)
    return f"{RUN_VARIABLE}={run_id}".encode() in _words_of(pid, "environ")


def _words_of(pid: int, file: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes().split(b"\0")
    except OSError:
        return []


class OwnedProcess(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="process"):
    """Ledger entry: a process that a run started, with `mark_of(run_id)` in its environment."""

    name: str
    process: ProcessId
    run_id: str

    def undo(self) -> bool:
        """SIGKILL the process if it is still the same; returns True when that was needed.

        Raises `HarnessError` for a process without the mark of this run, and `WaitExpired` when it outlives the
        signal (uninterruptible sleep).
        """
        try:
            pidfd = os.pidfd_open(self.process.pid)
        except ProcessLookupError:
            return False
        try:
            # The pidfd pins the process: between this check and the signal the pid cannot be reused.
            if not is_alive(self.process):
                return False
            if not _has_mark(self.process.pid, self.run_id) and is_alive(self.process):
                raise HarnessError(
                    "a process in the ledger was not started by its run",
                    got=f"no {RUN_VARIABLE}={self.run_id} in it",
                    next=f"ps {self.process.pid}; if it is Kafka or a client of Ebbtide: kill {self.process.pid}",
                )
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        except ProcessLookupError:
            return False
        finally:
            os.close(pidfd)
        wait_until(
            lambda: not is_alive(self.process),
            awaited=f"{self.describe()} to be gone after SIGKILL",
            timeout_s=KILL_TIMEOUT_S,
            last_seen=lambda: f"state {state_of(self.process.pid)}",
        )
        return True

    def describe(self) -> str:
        """Return how messages name the process."""
        return f"process {self.process.pid} ({self.name})"
