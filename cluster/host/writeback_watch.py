"""Notices that something outside of a run changed the kernel's write-back settings while the run needs them.

They are the kernel's, so that they are shared by all containers. Harnesses whose ledgers are in one folder share one
hold (`cluster.host.writeback`). A harness in another container has a folder of its own: when it ends, it restores the
values that it found, and the kernel writes back what a power loss here should take.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from cluster.host.ledger import Ledger, shared_dir
from cluster.host.writeback import HELD_SETTINGS, KernelWriteBack, WriteBackHold, write_back_settings

_EVERY_S = 0.25


class WriteBackWatch:
    """Compares the settings with those that a run needs, until `end`.

    A change that was undone again counts: the kernel may have written meanwhile.
    """

    def __init__(self, needed: Mapping[str, str], settings: Path = Path("/proc/sys/vm")) -> None:
        self._needed = dict(needed)
        self._settings = settings
        self._change: str | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, name="ebbtide-write-back", daemon=True)
        self._thread.start()

    def look(self) -> str | None:
        """Look once more, and return a sentence about the first change that was seen, else None."""
        try:
            found = write_back_settings(self._settings)
        except OSError:
            return self._change
        other = [f"{name} = {value}" for name, value in found.items() if value != self._needed[name]]
        if other and self._change is None:
            needed = ", ".join(f"{name} = {value}" for name, value in self._needed.items())
            self._change = (
                f"something outside of the run changed the kernel's write-back to {', '.join(other)} "
                f"(needed: {needed}), as another Ebbtide does when its run in another container begins or ends"
            )
        return self._change

    def end(self) -> None:
        """Stop looking. Idempotent."""
        self._ended.set()
        self._thread.join()

    def _keep_looking(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self.look()


def settle_write_back(ledger: Ledger, *, hold: bool) -> tuple[WriteBackWatch, str | None]:
    """Take the hold, or keep every run from holding write-back until this run ends.

    Returns the watch over the settings, and a warning if an unknown harness has its part in them. Raises `HarnessError`
    and `WaitExpired`.
    """
    shared = str(shared_dir(ledger.path.parent))
    if not hold:
        own = KernelWriteBack(run_id=ledger.run_id, shared=shared)
        ledger.make(own, own.register)
        own.await_turn()
        return WriteBackWatch(write_back_settings()), None
    share = WriteBackHold(run_id=ledger.run_id, shared=shared)
    share.await_turn()
    ledger.make(share, share.acquire)
    needed = {f"vm.{name}": value for name, value in HELD_SETTINGS.items()}
    return WriteBackWatch(needed), share.describe_unknown_holder()
