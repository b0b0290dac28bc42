"""Faults of clients: the process of a producer or consumer is killed, shut down, or started again.

They are proven by how the process ended, and by what the new process says of itself. No node and no file of a node is
touched. A client that a step left down stays down: its journal ends there.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from typing import Protocol

from ebbtide.scenario.steps.clients import ClientName, ClientStep, KillClientStep, StartClientStep, StopClientStep
from ebbtide.waiting import WaitExpired, wait_until
from faults.base import Effect, proven_effect, unproven_effect
from faults.injector import Family, Injector, Plan

STOP_TIMEOUT_S = 10.0
"""Longer than a producer waits for answers, and a member for its last commit."""


class Clients(Protocol):
    """What the steps ask of the producers and consumers of a run, each by the name of its process."""

    def runs(self, name: str) -> bool:
        """Whether the process runs."""

    def kill_client(self, name: str) -> int | None:
        """Kill the process; returns how it ended: its exit code, or minus the signal."""

    def stop_client(self, name: str, timeout_s: float) -> int | None:
        """Shut the process down, or kill it after `timeout_s`; returns how it ended."""

    def start_client(self, name: str, timeout_s: float) -> None:
        """Start a new process of the client."""

    def works(self, name: str) -> bool:
        """Whether the newest process says that it works. Raises `HarnessError` when it ended by itself."""


class ClientFaults:
    """The client steps of one run."""

    def __init__(self, injector: Injector, clients: Clients) -> None:
        self._injector = injector
        self._clients = clients

    @property
    def family(self) -> Family:
        """How each kind is carried out."""
        return Family(
            plans={
                KillClientStep: partial(self._plan, self._kill),
                StopClientStep: partial(self._plan, self._stop),
                StartClientStep: partial(self._plan, self._start),
            }
        )

    def _plan(self, act: Callable[[ClientName, float], Effect], step: ClientStep) -> Plan:
        return Plan(nodes=(), description=step.client.process, act=partial(act, step.client, step.deadline_s))

    def _kill(self, client: ClientName, _deadline_s: float) -> Effect:
        if not self._clients.runs(client.process):
            return unproven_effect(f"{client.process} had ended before")
        status = self._clients.kill_client(client.process)
        if status != -signal.SIGKILL:
            return unproven_effect(f"the process ended with status {status}, not by this step", exit_status=status)
        return proven_effect(exit_status=status)

    def _stop(self, client: ClientName, _deadline_s: float) -> Effect:
        if not self._clients.runs(client.process):
            return unproven_effect(f"{client.process} had ended before")
        status = self._clients.stop_client(client.process, STOP_TIMEOUT_S)
        if status != 0:
            return unproven_effect(f"the process ended with status {status}: not in order", exit_status=status)
        return proven_effect(exit_status=status)

    def _start(self, client: ClientName, deadline_s: float) -> Effect:
        if self._clients.runs(client.process):
            return unproven_effect(f"{client.process} runs already")
        self._clients.start_client(client.process, deadline_s)

        def works() -> bool:
            self._injector.poll()
            return self._clients.works(client.process)

        try:
            wait_until(works, awaited=f"{client.process} to work", timeout_s=deadline_s)
        except WaitExpired as expired:
            return unproven_effect(str(expired))
        return proven_effect()
