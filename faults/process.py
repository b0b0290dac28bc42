"""Process faults: kill, clean stop, pause, resume and start.

They are proven by /proc and by how the process ended. A SIGKILL loses nothing that the broker has written (the page
cache stays), but is an *unclean shutdown* to the controller. Losing data needs a power loss (`faults.disk`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cluster.host.processes import cpu_ns_since, state_of, thread_cpu_ns
from cluster.runtime.cluster import Runtime
from cluster.runtime.jvm import CLEAN_EXIT_CODES
from ebbtide.errors import StepImpossible
from ebbtide.scenario.steps.process import RestartStep, RollingStep, UpgradeStep
from ebbtide.scenario.steps.table import StepKind
from ebbtide.waiting import WaitExpired, wait_until
from faults.base import Effect, Part, compose_effect, proven_effect, unproven_effect
from faults.injector import Family, Injector, Plan
from faults.upgrade import Upgrades

PROBE_TIMEOUT_S = 5.0


def kill(runtime: Runtime, node_id: int) -> Effect:
    """Send SIGKILL. Proven when SIGKILL ended the pid. Healed by `start`."""
    pid = running_pid(runtime, node_id)
    runtime.kill(node_id)
    return _end_effect(runtime, node_id, pid, by_sigkill=True)


def stop(runtime: Runtime, node_id: int, timeout_s: float = 30.0) -> Effect:
    """Stop the node by a controlled shutdown. Healed by `start`.

    Proven when the process ended by itself, not by force.
    """
    pid = running_pid(runtime, node_id)
    try:
        runtime.stop(node_id, timeout_s)
    except WaitExpired as expired:
        return unproven_effect(str(expired), pid=pid, state=state_of(pid))
    return _end_effect(runtime, node_id, pid, by_sigkill=False)


def pause(runtime: Runtime, node_id: int) -> Effect:
    """Send SIGSTOP. Proven when the process is stopped (state T). Healed by `resume`."""
    pid = running_pid(runtime, node_id)
    runtime.pause(node_id)
    try:
        wait_until(lambda: state_of(pid) == "T", awaited=f"pid {pid} in state T", timeout_s=PROBE_TIMEOUT_S)
    except WaitExpired:
        return unproven_effect(f"pid {pid} is in state {state_of(pid)}, not stopped", pid=pid, state=state_of(pid))
    return proven_effect(pid=pid, state="T")


def resume(runtime: Runtime, node_id: int) -> Effect:
    """Send SIGCONT to a stopped process.

    Proven when the process was in state T, has left it, and its threads had the CPU again.
    """
    pid = running_pid(runtime, node_id)
    state = state_of(pid)
    if state != "T":
        return unproven_effect(f"pid {pid} was not stopped, its state was {state}", pid=pid, state=state)
    before = thread_cpu_ns(pid)
    runtime.resume(node_id)
    try:
        wait_until(
            lambda: state_of(pid) not in (None, "T", "Z") and cpu_ns_since(pid, before) > 0,
            awaited=f"pid {pid} to run again",
            timeout_s=PROBE_TIMEOUT_S,
        )
    except WaitExpired:
        return unproven_effect(f"pid {pid} does not run, its state is {state_of(pid)}", pid=pid, state=state_of(pid))
    return proven_effect(pid=pid, state=state_of(pid), ran_ns=cpu_ns_since(pid, before))


def start(runtime: Runtime, node_id: int) -> Effect:
    """Start a node. Proven when it was down and its process runs.

    Whether it is ready is not checked.
    """
    pid = runtime.pid(node_id)
    if pid is not None:
        return unproven_effect(f"{runtime.nodes[node_id].name} runs already", pid=pid, state=state_of(pid))
    runtime.start([node_id])
    pid = runtime.pid(node_id)
    if pid is None:
        return unproven_effect(f"the process ended at once with status {runtime.exit_status(node_id)}")
    return proven_effect(pid=pid, state=state_of(pid))


INJECT: dict[StepKind, Callable[[Runtime, int], Effect]] = {
    "kill": kill,
    "stop": stop,
    "pause": pause,
    "resume": resume,
    "start": start,
}
"""The acts on one node."""


class ProcessFaults:
    """The process steps of one run."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector
        self._runtime = injector.runtime
        self._upgrades = Upgrades(injector)

    @property
    def family(self) -> Family:
        """How each kind is carried out."""
        return Family(
            on_a_node={
                "kill": partial(self._inject, "kill"),
                "stop": partial(self._inject, "stop"),
                "pause": self._pause,
                "resume": self._resume,
                "start": self._start,
            },
            plans={
                RestartStep: self._plan_restart,
                RollingStep: self._plan_rolling,
                UpgradeStep: self._plan_upgrade,
            },
        )

    def _inject(self, kind: StepKind, node: int) -> Effect:
        return INJECT[kind](self._runtime, node)

    def _pause(self, node: int) -> Effect:
        self._injector.paused.add(node)
        return self._inject("pause", node)

    def _resume(self, node: int) -> Effect:
        effect = self._inject("resume", node)
        self._injector.paused.discard(node)
        return effect

    def _start(self, node: int) -> Effect:
        sound = node not in self._injector.troubled
        try:
            effect = self._inject("start", node)
        except OSError as error:
            if sound:
                raise
            # A file is written to the volume before its node starts.
            raise StepImpossible(
                f"the volume of {self._injector.node_names([node])} takes no writes",
                got=error.strerror,
                next="run mend-disk for this node before its start",
            ) from None
        # A node on a volume in trouble may die again.
        if sound:
            self._injector.down.discard(node)
        return effect

    def _plan_restart(self, step: RestartStep) -> Plan:
        return self._injector.plan_on_target(step, self._restart)

    def _plan_rolling(self, step: RollingStep) -> Plan:
        return self._injector.plan_on_target(step, partial(self._roll_nodes, step))

    def _plan_upgrade(self, step: UpgradeStep) -> Plan:
        return self._upgrades.plan(step)

    def _restart(self, nodes: tuple[int, ...]) -> Effect:
        """Stop each node cleanly and start it, unless its stop was not clean."""
        parts: list[Part] = []
        for node in nodes:
            parts.append(self._injector.part("stop", node))
            if parts[-1].effect.effect_ns is not None:
                parts.append(self._injector.part("start", node))
        return compose_effect(parts)

    def _roll_nodes(self, step: RollingStep, nodes: tuple[int, ...]) -> Effect:
        """Take one node after the other down and back."""
        down: StepKind = "stop" if step.mode == "restart" else step.mode
        part = self._injector.part
        return self._injector.roll(nodes, partial(part, down), partial(part, "start"), step.deadline_s)


def running_pid(runtime: Runtime, node_id: int) -> int:
    """Return the pid of a node that runs. Raises `StepImpossible` if it is down."""
    pid = runtime.pid(node_id)
    if pid is None:
        raise StepImpossible(
            f"{runtime.nodes[node_id].name} is down, so that this step is impossible",
            next="start the node before, or name another target (followers(...) includes nodes that are down)",
        )
    return pid


def _end_effect(runtime: Runtime, node_id: int, pid: int, *, by_sigkill: bool) -> Effect:
    status = runtime.exit_status(node_id)
    figures = {"pid": pid, "exit_status": status}
    if Path(f"/proc/{pid}").exists():
        return unproven_effect(f"pid {pid} is still there, in state {state_of(pid)}", **figures)
    if (status == -signal.SIGKILL) != by_sigkill:
        return unproven_effect(f"the process ended with status {status}, not by this step", **figures)
    if not by_sigkill and status not in CLEAN_EXIT_CODES:
        return unproven_effect(f"the process ended with status {status}: its shutdown was not clean", **figures)
    return proven_effect(**figures)
