"""Stops the kernel's write-back of dirty pages, so that a power loss loses them.

Linux writes dirty pages back after about 30 s. Kafka's fsync of its checkpoints then commits them, and nothing
"unsynced" is left to lose (docs/decisions/write-back-hold.md). The setting is the host's, so that several harnesses
share one hold: the first saves the original values, the last one alive restores them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from filelock import FileLock

from cluster.host.processes import ProcessId, boot_id, identify, is_alive
from ebbtide.errors import HarnessError
from ebbtide.record.files import write_atomically

HELD_SETTINGS: dict[str, str] = {
    "dirty_writeback_centisecs": "0",
    # A day, longer than any run. Pages younger than this are not written back because of their age.
    "dirty_expire_centisecs": "8640000",
}


class _SharedHold(msgspec.Struct, frozen=True, kw_only=True):
    """The shared hold: the values to restore, and the holding processes by run id."""

    boot_id: str
    original: dict[str, str]
    holders: dict[str, ProcessId]


class WriteBackHold(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="write-back-hold"):
    """Ledger entry: one run's share in the hold.

    `shared` is the host-wide folder of the hold's state.
    """

    run_id: str
    shared: str
    settings: str = "/proc/sys/vm"

    def acquire(self) -> None:
        """Stop write-back, or join the hold. Raises `HarnessError` without permission."""
        with self._locked():
            state = self._live_state() or _SharedHold(boot_id=boot_id(), original=self._read(), holders={})
            holders = {**state.holders, self.run_id: identify(os.getpid())}
            # Saved before the change: after a kill in between, the original values can still be found.
            self._write_state(_SharedHold(boot_id=state.boot_id, original=state.original, holders=holders))
            self._set(HELD_SETTINGS)

    def undo(self) -> bool:
        """Leave the hold; the last holder alive restores the original values.

        Returns True when this run was a holder.
        """
        if not self._state_file.exists():
            return False
        with self._locked():
            state = self._live_state()
            if state is None:
                self._state_file.unlink(missing_ok=True)
                return False
            held = self.run_id in state.holders
            others = {run: who for run, who in state.holders.items() if run != self.run_id and is_alive(who)}
            if others:
                self._write_state(_SharedHold(boot_id=state.boot_id, original=state.original, holders=others))
                return held
            # A value that someone else has set meanwhile stays.
            now = self._read()
            self._set({name: value for name, value in state.original.items() if now[name] == HELD_SETTINGS[name]})
            self._state_file.unlink(missing_ok=True)
            return held

    def describe(self) -> str:
        """Return how messages name the hold."""
        return f"write-back hold ({', '.join('vm.' + name for name in HELD_SETTINGS)})"

    @property
    def _state_file(self) -> Path:
        return Path(self.shared) / "held.json"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        Path(self.shared).mkdir(parents=True, exist_ok=True)
        with FileLock(Path(self.shared) / "lock"):
            yield

    def _live_state(self) -> _SharedHold | None:
        """Return the state of this boot; a reboot has restored the settings already."""
        try:
            state = msgspec.json.decode(self._state_file.read_bytes(), type=_SharedHold)
        except FileNotFoundError:
            return None
        return state if state.boot_id == boot_id() else None

    def _write_state(self, state: _SharedHold) -> None:
        write_atomically(self._state_file, msgspec.json.encode(state))

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
