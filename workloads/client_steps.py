"""What steps do to the producers and consumers of a run: kill, shut down, and start again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ebbtide.journal.convert import JOURNAL_SUFFIX
from ebbtide.journal.file import cut_torn_tail
from workloads.client import Client
from workloads.process import ClientState

STARTED = (ClientState.RUNNING, ClientState.DONE, ClientState.STOPPED)
"""The states of a client that works, or has."""
_PATIENCE_S = 30.0
"""So much longer waits the client itself: the step says first that it does not work in time."""
_JOURNALS = {"producer": ("producer", "copies"), "consumer": ("consumer", "commits")}
"""The journals of a client, in the words that their names begin with."""


class ClientSteps:
    """The `clients` by the names of their processes. `folder` has the journals.

    `start` starts a new process of a client, which continues the journals.
    """

    def __init__(self, folder: Path, clients: Sequence[Client], start: Callable[[str, float], None]) -> None:
        self.clients = {one.name: one for one in clients}
        self._folder = folder
        self._start = start
        self._lives = dict.fromkeys(self.clients, 0)

    def life_of(self, name: str) -> int:
        """Return how often a step started the client again."""
        return self._lives[name]

    def runs(self, name: str) -> bool:
        """Whether the process runs."""
        return self.clients[name].is_alive

    def works(self, name: str) -> bool:
        """Whether the newest process says that it works. Raises `HarnessError` when it ended by itself."""
        self.clients[name].check()
        return self.clients[name].state in STARTED

    def kill_client(self, name: str) -> int | None:
        """Kill the process, which need not run any more; returns how it ended."""
        client = self.clients[name]
        client.is_down = True
        client.kill()
        kind, _, number = name.partition("-")
        for word in _JOURNALS[kind]:
            cut_torn_tail(self._folder / f"{word}-{number}{JOURNAL_SUFFIX}")
        return client.end().exit_code

    def stop_client(self, name: str, timeout_s: float) -> int | None:
        """Shut the process down, which need not run any more; kill it after `timeout_s`. Returns how it ended."""
        client = self.clients[name]
        client.is_down = True
        client.request_stop(leaves=True)
        return client.join(time.monotonic() + timeout_s).exit_code

    def start_client(self, name: str, timeout_s: float) -> None:
        """Start a new process of the client, which has `timeout_s` to work."""
        self._lives[name] += 1
        self._start(name, timeout_s + _PATIENCE_S)
