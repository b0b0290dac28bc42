"""Upgrades and downgrades: a node stops cleanly and starts on another release.

The node's own log proves which release it runs. A controller is back once it gets new metadata records, a broker once
the ISR of every partition is whole.
"""

from __future__ import annotations

import re
import time
from functools import partial
from pathlib import Path

from cluster.runtime.jvm import CLEAN_EXIT_CODES
from ebbtide.errors import StepImpossible
from ebbtide.logs.segments import METADATA_FOLDER, log_end
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.waiting import WaitExpired, wait_until
from faults.base import Effect, Part, carry_out_part, compose_effect, proven_effect, unproven_effect
from faults.injector import Injector, Plan

_RELEASE = re.compile(rb"\bKafka version: (\S+)\s")
"""What a node logs about its own release (`AppInfoParser`)."""

_REFUSAL = re.compile(rb"metadata.?version|feature|unsupported", re.IGNORECASE)
"""What a node logs about why it refuses the cluster's feature levels."""
_REASON_MAX = 600


class Upgrades:
    """The upgrades of one run."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector
        self._runtime = injector.runtime

    def plan(self, step: UpgradeStep) -> Plan:
        """Resolve the nodes of the step that do not run its release yet.

        Raises `RoleUnresolved`, `StepImpossible` if all of them run it, and `HarnessError` if this host lacks it.
        """
        nodes = self._injector.plan_on_target(step, lambda _: compose_effect([])).nodes
        to_move = tuple(node for node in nodes if self._runtime.releases[node] != step.to)
        if not to_move:
            raise StepImpossible(
                f"an upgrade to the same release: {self._injector.node_names(nodes)} run Kafka {step.to} already",
                next="name another release in `to`",
            )
        self._runtime.require_release(step.to)
        names = self._injector.node_names(to_move)
        return Plan(
            nodes=to_move,
            description=f"{names} to Kafka {step.to}",
            act=partial(self._move_nodes, step, to_move),
            target=nodes,
        )

    def _move_nodes(self, step: UpgradeStep, nodes: tuple[int, ...]) -> Effect:
        """Move one node after the other; each waits for the whole ISR after the last one."""

        def start(node: int) -> Part:
            if step.expect_refusal:
                refused = self._refuse(node, step)
                return carry_out_part("start", (node,), partial(self._start_again, node, refused))
            return carry_out_part("start", (node,), partial(self._start, node, step))

        return self._injector.roll(nodes, partial(self._injector.part, "stop"), start, step.deadline_s)

    def _start(self, node: int, step: UpgradeStep) -> Effect:
        """Start a node that is down on the step's release, and wait until it takes part in the cluster."""
        name, log = self._runtime.nodes[node].name, self._runtime.log_file(node)
        ends_s = time.monotonic() + step.deadline_s

        def left_s() -> float:
            return max(0.1, ends_s - time.monotonic())

        before, logged_before, ended = self._runtime.releases[node], _size_of(log), log_end(self._metadata_log(node))
        self._runtime.releases.install(node, step.to)
        effect = self._injector.inject("start", node)
        if effect.effect_ns is None:
            return effect
        try:
            self._runtime.wait_ready([node], step.deadline_s)
            logged = wait_until(
                lambda: _logged_release(log, logged_before),
                awaited=f"{name} to log its release",
                timeout_s=left_s(),
            )
            # The active controller writes a record every 500 ms, so that a node that takes part gets new ones.
            wait_until(
                lambda: log_end(self._metadata_log(node)) > ended,
                awaited=f"new metadata records on {name}",
                timeout_s=left_s(),
            )
        except WaitExpired as expired:
            return unproven_effect(str(expired), pid=effect.figures.pid, **{"from": before})
        # A build logs its version, which is its name without the digest of its jars.
        runs_it = logged == step.to.partition("@")[0]
        figures = {"pid": effect.figures.pid, "from": before, "to": step.to if runs_it else logged}
        if not runs_it:
            return unproven_effect(f"{name} says that it runs Kafka {logged}, not {step.to}", **figures)
        return proven_effect(**figures)

    def _refuse(self, node: int, step: UpgradeStep) -> Effect:
        """Start a node on a release that it must refuse; it is down afterwards, with its old release."""
        name, before, log = self._runtime.nodes[node].name, self._runtime.releases[node], self._runtime.log_file(node)
        logged_before = _size_of(log)
        self._runtime.releases.install(node, step.to)
        try:
            self._runtime.start([node])
            wait_until(
                lambda: self._runtime.pid(node) is None,
                awaited=f"{name} to refuse Kafka {step.to} and to end",
                timeout_s=step.deadline_s,
            )
        except WaitExpired as expired:
            self._runtime.kill(node)
            return unproven_effect(str(expired))
        finally:
            self._runtime.releases.install(node, before)
        status = self._runtime.exit_status(node)
        reason = _logged_error(log, logged_before)
        figures = {"release": step.to, "status": status, "log": reason.decode(errors="replace")}
        if status in CLEAN_EXIT_CODES:
            return unproven_effect(f"{name} ended with status {status} on Kafka {step.to}: no refusal", **figures)
        if not _REFUSAL.search(reason):
            return unproven_effect(f"{name} ended on Kafka {step.to}, and not because of a feature level", **figures)
        return proven_effect(**figures)

    def _start_again(self, node: int, refused: Effect) -> Effect:
        """Start a node on its old release, after it refused another one."""
        effect = self._injector.inject("start", node)
        if effect.effect_ns is None:
            return effect
        figures = {"pid": effect.figures.pid, "refused": refused.proof}
        return proven_effect(**figures) if refused.why is None else unproven_effect(refused.why, **figures)

    def _metadata_log(self, node: int) -> Path:
        return self._runtime.data_dir(node) / METADATA_FOLDER


def _size_of(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _logged_release(log: Path, since: int) -> str | None:
    """Return the release that the node has logged behind the first `since` bytes; None if there is none."""
    with log.open("rb") as file:
        file.seek(since)
        found = _RELEASE.search(file.read())
    return None if found is None else found[1].decode()


def _logged_error(log: Path, since: int) -> bytes:
    """Return the first error behind the first `since` bytes, without its stack trace."""
    with log.open("rb") as file:
        file.seek(since)
        lines = [line for line in file.read().splitlines() if not line.startswith(b"\tat ")]
    first = next((at for at, line in enumerate(lines) if b" ERROR " in line), len(lines))
    return b"\n".join(lines[first : first + 3])[:_REASON_MAX]
