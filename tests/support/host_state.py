"""Records what exists on this host, to compare before and after a run.

A run must leave nothing behind. before = HostState.now() ... assert
HostState.now().left_since(before, run_id, str(tmp_path)) == []
"""

from __future__ import annotations

import contextlib
import json
import socket
from dataclasses import dataclass
from pathlib import Path

from host_turn import HOST

from cluster.host.containers import DockerError, connect
from cluster.host.ledger import ledgers_dir, shared_dir
from cluster.host.processes import ProcessId, boot_id, is_alive
from ebbtide.waiting import WaitExpired, wait_until

_SYSCTLS = ("vm.dirty_writeback_centisecs", "vm.dirty_expire_centisecs", "net.ipv4.ip_forward")


@dataclass(frozen=True, kw_only=True)
class _Held:
    """The runs that hold write-back, and the values that the last of them puts back."""

    runs: tuple[str, ...] = ()
    original: tuple[tuple[str, str], ...] = ()

    @classmethod
    def now(cls) -> _Held:
        """Runs of other checkouts are among them: a host has one hold."""
        try:
            state = json.loads((shared_dir(ledgers_dir()) / "held.json").read_text())
        except FileNotFoundError:
            return cls()
        runs = [run for run, process in state["holders"].items() if is_alive(ProcessId(**process))]
        if state["boot_id"] != boot_id() or not runs:
            return cls()
        return cls(runs=tuple(runs), original=tuple((f"vm.{name}", was) for name, was in state["original"].items()))


@dataclass(frozen=True, kw_only=True)
class HostState:
    """What exists on the host, each as a line of text.

    It has namespaces, mounts, loop devices, processes, interfaces, containers, and sysctls. Settings that a run holds
    have the values that it puts back.
    """

    things: frozenset[str]
    sysctls: tuple[tuple[str, str], ...]

    @classmethod
    def now(cls) -> HostState:
        """The state of the host at this moment, when no other test changes it."""
        HOST.take_back()
        things = [*_namespaces(), *_mounts(), *_loop_devices(), *_processes(), *_interfaces(), *_containers()]
        held = _Held.now()
        things += [f"write-back hold of {run}" for run in held.runs]
        sysctls = {name: _sysctl(name) for name in _SYSCTLS} | dict(held.original)
        return cls(things=frozenset(things), sysctls=tuple(sysctls.items()))

    def left_since(self, before: HostState, *marks: str) -> list[str]:
        """Return what exists now and did not before, and names one of `marks`.

        Changed sysctls are always part of it. Marks keep apart what others do on the host at the same
        time: give the run id and the run's folder.
        """
        new = sorted(thing for thing in self.things - before.things if any(mark in thing for mark in marks))
        was = dict(before.sysctls)
        return new + [f"sysctl {name} is {now}, was {was[name]}" for name, now in self.sysctls if was[name] != now]


def left_after(before: HostState, *marks: str, timeout_s: float = 30.0) -> list[str]:
    """`left_since`, once nothing is or time is up.

    The kernel frees the mounts of a container that ended, and the loop devices below them, a moment later.
    """

    def leftovers() -> list[str]:
        return HostState.now().left_since(before, *marks)

    with contextlib.suppress(WaitExpired):
        wait_until(lambda: not leftovers(), awaited="nothing to be left", timeout_s=timeout_s, poll_s=0.2)
    return leftovers()


def _namespaces() -> list[str]:
    folder = Path("/run/netns")
    return [f"namespace {path.name}" for path in folder.iterdir()] if folder.is_dir() else []


def _mounts() -> list[str]:
    return [f"mount {line.split()[4]}" for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def _loop_devices() -> list[str]:
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            found.append(f"loop device {backing.parts[3]} of {backing.read_text().strip()}")
        except OSError:  # freed meanwhile
            continue
    return found


def _processes() -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        found.append(f"process {process.name} {command}")
    return found


def _interfaces() -> list[str]:
    return [f"interface {name}" for _, name in socket.if_nameindex()]


def _containers() -> list[str]:
    try:
        client = connect()
    except DockerError:
        return []
    with contextlib.closing(client):
        return [f"container {one['Names'][0].lstrip('/')}" for one in client.api.containers(all=True)]


def _sysctl(name: str) -> str:
    try:
        return Path("/proc/sys", *name.split(".")).read_text().strip()
    except OSError:
        return "(none)"
