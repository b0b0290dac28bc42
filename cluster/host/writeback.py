"""Stops the kernel's write-back of dirty pages, so that a power loss loses them.

Linux writes dirty pages back after about 30 s. Kafka's fsync of its checkpoints then commits them, and nothing
"unsynced" is left to lose (docs/decisions/write-back-hold.md). The setting is the host's, so that several harnesses
share one hold: the first saves the original values, the last one alive restores them. A run that needs the kernel's own
settings waits until nobody holds write-back, and nobody takes a new hold until it has ended.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from cluster.host.processes import ProcessId, boot_id, identify, is_alive
from ebbtide.errors import HarnessError
from ebbtide.locks import await_lock
from ebbtide.ownership import FILE_MODE, make_private_folder, read_private
from ebbtide.record.files import write_atomically
from ebbtide.waiting import wait_until

HELD_SETTINGS: dict[str, str] = {
    "dirty_writeback_centisecs": "0",
    # A day, longer than any run. Pages younger than this are not written back because of their age.
    "dirty_expire_centisecs": "8640000",
}


_LOCK_S = 30.0
"""A process holds the lock for less than a second."""
TURN_TIMEOUT_S = 600.0
"""How long a run waits for runs under the other settings of write-back."""


class _SharedState(msgspec.Struct, frozen=True, kw_only=True):
    """The state that harnesses share: the values to restore, and processes by run id.

    `holders` hold write-back. `free` need the kernel's own settings, and run or wait. Where the original value is the
    held one, somebody unknown here held write-back before: a harness in another container, or a killed one.
    """

    boot_id: str
    original: dict[str, str]
    holders: dict[str, ProcessId]
    free: dict[str, ProcessId] = {}


class _Share(msgspec.Struct, frozen=True, kw_only=True):
    """One run's share in the settings of write-back, which are the host's.

    `shared` is the host-wide folder of the shared state.
    """

    run_id: str
    shared: str
    settings: str = "/proc/sys/vm"

    def undo(self) -> bool:
        """Leave the shared state; the last holder alive restores the original values.

        Returns True when this run was a part of it.
        """
        if not self._state_file.exists():
            return False
        with self._lock_shared():
            state = self._live_state()
            if state is None:
                self._state_file.unlink(missing_ok=True)
                return False
            was_part = self.run_id in {*state.holders, *state.free}
            holders, free = self._others(state.holders), self._others(state.free)
            if not holders:
                # A value that someone else has set meanwhile stays.
                now = self._read()
                self._set({name: value for name, value in state.original.items() if now[name] == HELD_SETTINGS[name]})
            if holders or free:
                self._write_state(msgspec.structs.replace(state, holders=holders, free=free))
            else:
                self._state_file.unlink(missing_ok=True)
            return was_part

    def _others(self, runs: dict[str, ProcessId]) -> dict[str, ProcessId]:
        return {run: who for run, who in runs.items() if run != self.run_id and is_alive(who)}

    @property
    def _state_file(self) -> Path:
        return Path(self.shared) / "held.json"

    @contextlib.contextmanager
    def _lock_shared(self) -> Iterator[None]:
        make_private_folder(Path(self.shared))
        with await_lock(Path(self.shared) / "lock", purpose="the state of the write-back hold", timeout_s=_LOCK_S):
            yield

    def _live_state(self) -> _SharedState | None:
        """Return the state of this boot; a reboot has restored the settings already."""
        try:
            state = msgspec.json.decode(read_private(self._state_file), type=_SharedState)
        except FileNotFoundError:
            return None
        return state if state.boot_id == boot_id() else None

    def _state_or_new(self) -> _SharedState:
        return self._live_state() or _SharedState(boot_id=boot_id(), original=self._read(), holders={})

    def _write_state(self, state: _SharedState) -> None:
        write_atomically(self._state_file, msgspec.json.encode(state))
        self._state_file.chmod(FILE_MODE)  # whatever the umask: nobody else can enter the folder meanwhile

    def _read(self) -> dict[str, str]:
        return {name: (Path(self.settings) / name).read_text().strip() for name in HELD_SETTINGS}

    def _set(self, values: dict[str, str]) -> None:
        for name, value in values.items():
            try:
                (Path(self.settings) / name).write_text(value)
            except OSError as error:
                raise HarnessError(
                    "cannot stop the kernel's write-back",
                    where=f"{self.settings}/{name}",
                    got=error.strerror,
                    next="run as root on a host whose /proc/sys is writable",
                ) from None


class WriteBackHold(_Share, frozen=True, kw_only=True, tag_field="kind", tag="write-back-hold"):
    """Ledger entry: one run's share in the hold."""

    def await_turn(self, timeout_s: float = TURN_TIMEOUT_S) -> None:
        """Wait until no run needs the kernel's own settings. Raises `WaitExpired`."""
        _await_no_others(self._free_runs, "the runs under the kernel's own write-back to end", timeout_s)

    def acquire(self) -> None:
        """Stop write-back, or join the hold.

        Raises `HarnessError` without permission, and where another run needs the kernel's own settings.
        """
        with self._lock_shared():
            state = self._state_or_new()
            if others := self._others(state.free):
                raise HarnessError(
                    "another run on this host needs the kernel's own write-back",
                    got=", ".join(others),
                    next="wait until it has ended",
                )
            holders = {**state.holders, self.run_id: identify(os.getpid())}
            # An unknown holder has restored what this one found held.
            original = {
                name: now if state.original[name] == HELD_SETTINGS[name] else state.original[name]
                for name, now in self._read().items()
            }
            # Saved before the change: after a kill in between, the original values can still be found.
            self._write_state(msgspec.structs.replace(state, holders=holders, original=original))
            self._set(HELD_SETTINGS)

    def describe_unknown_holder(self) -> str | None:
        """Return a warning if somebody unknown here held write-back before this run; else None."""
        with self._lock_shared():
            state = self._live_state()
        if state is None or state.original != HELD_SETTINGS:
            return None
        return (
            "the kernel's write-back was held before this run, by no run that is known here. Another Ebbtide holds it, "
            "in a container with a /run of its own, or one was killed there. If it ends before a power loss of this "
            "run, that power loss has no proof, and the run is inconclusive. If no other Ebbtide runs: "
            "sysctl vm.dirty_writeback_centisecs=500 vm.dirty_expire_centisecs=3000 (the kernel's defaults)"
        )

    def describe(self) -> str:
        """Return how messages name the hold."""
        return f"write-back hold ({', '.join('vm.' + name for name in HELD_SETTINGS)})"

    def _free_runs(self) -> list[str]:
        with self._lock_shared():
            state = self._live_state()
            return sorted(self._others(state.free)) if state is not None else []


class KernelWriteBack(_Share, frozen=True, kw_only=True, tag_field="kind", tag="kernel-write-back"):
    """Ledger entry: one run that needs the kernel's own settings. No run takes a new hold meanwhile."""

    def register(self) -> None:
        """Keep other runs from taking a new hold."""
        with self._lock_shared():
            state = self._state_or_new()
            self._write_state(msgspec.structs.replace(state, free={**state.free, self.run_id: identify(os.getpid())}))

    def await_turn(self, timeout_s: float = TURN_TIMEOUT_S) -> None:
        """Wait until the settings are the kernel's own.

        Raises `WaitExpired`, and `HarnessError` if something else than a run of Ebbtide stopped write-back.
        """
        _await_no_others(self._holders, "the runs that hold write-back to end", timeout_s)
        found = write_back_settings(Path(self.settings))
        if found["vm.dirty_writeback_centisecs"] == HELD_SETTINGS["dirty_writeback_centisecs"]:
            raise HarnessError(
                "the kernel's write-back is stopped, but no run of Ebbtide holds it",
                where=self.settings,
                got=", ".join(f"{name} = {value}" for name, value in found.items()),
                next="sysctl vm.dirty_writeback_centisecs=500 vm.dirty_expire_centisecs=3000 (the kernel's defaults)",
            )

    def describe(self) -> str:
        """Return how messages name it."""
        return "run under the kernel's own write-back"

    def _holders(self) -> list[str]:
        with self._lock_shared():
            state = self._live_state()
            if state is None:
                return []
            holders = self._others(state.holders)
            if len(holders) < len(state.holders) and not holders:
                # A killed holder has left its values.
                self._write_state(msgspec.structs.replace(state, holders={}))
                self._set(state.original)
            return sorted(holders)


def write_back_settings(settings: Path = Path("/proc/sys/vm")) -> dict[str, str]:
    """Return the kernel's settings in force, by their names."""
    return {f"vm.{name}": (settings / name).read_text().strip() for name in HELD_SETTINGS}


def _await_no_others(others: Callable[[], list[str]], awaited: str, timeout_s: float) -> None:
    wait_until(
        lambda: not others(),
        awaited=awaited,
        timeout_s=timeout_s,
        last_seen=lambda: ", ".join(others()) or "none",
        poll_s=0.5,
    )
