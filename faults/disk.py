"""Disk faults: replaced, full, read-only, slow and failing disks.

Each is proven on the volume itself, not by the broker's reaction: by what did not come back, by the error of a
refused write, or by how long a write takes.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from cluster.host.processes import state_of
from cluster.host.slow_volume import Pulses, timed_write
from cluster.host.volumes import Volume
from cluster.runtime.base import DiskReplacement, LogLoss
from cluster.runtime.cluster import Runtime
from cluster.runtime.disks import LogCopies
from ebbtide import run_clock
from ebbtide.logs.segments import partition_folders
from ebbtide.record.log_losses import HOLDS
from ebbtide.record.node_times import NodeTimes, OfNode, Span
from ebbtide.scenario.steps.disk import (
    DirectoryStep,
    FailDiskStep,
    FillDiskStep,
    ReadOnlyStep,
    SlowDiskStep,
    WipeDiskStep,
)
from ebbtide.scenario.steps.table import StepKind
from ebbtide.scenario.validate_order import FaultNow
from faults.base import Effect, merge_effects, proven_effect, unproven_effect
from faults.injector import Family, Injector, Plan
from faults.power import power_loss, torn_write

_PULSES_START_S = 10.0
"""How long (s) the process that freezes the volume may take to start."""

_WRITE_TIMEOUT_S = 5.0
_TOLERANCE = 0.9
"""A write begins a little after the volume was frozen."""


def wipe_disk(runtime: Runtime, node_id: int, directory: int | None = None) -> Effect:
    """Kill the node and replace its disks, or that of one log directory, by empty ones; the node stays down.

    A disk is formatted for the same cluster. Healed by `start`. Proven when the process is gone, no partition's
    folder is on the new disk, and it belongs to the same cluster: a broker of another cluster would not join, which
    is a different experiment.
    """
    pid = runtime.pid(node_id)
    holds = _holdings(runtime, node_id, directory)
    new = runtime.replace_disk(node_id, directory)
    effect = _effect_of_wipe(pid, new, holds)
    return effect.with_times({node_id: NodeTimes(log_gone=new.log_gone)})


def _effect_of_wipe(pid: int | None, new: DiskReplacement, holds: dict[str, object]) -> Effect:
    figures = {
        **holds,
        "pid": pid,
        "cluster_id": new.cluster_id,
        "left": list(new.left),
        "lost_bytes": new.lost_bytes,
        "logs": msgspec.to_builtins(new.logs),
    }
    if pid is not None and Path(f"/proc/{pid}").exists():
        return unproven_effect(f"pid {pid} is still there", **figures)
    if new.left:
        return unproven_effect(f"the new disk is not empty: {', '.join(new.left)}", **figures)
    if new.cluster_id is None or new.cluster_id != new.cluster_id_before:
        return unproven_effect(f"the disk belongs to cluster {new.cluster_id}, not {new.cluster_id_before}", **figures)
    return proven_effect(**figures)


def _holdings(runtime: Runtime, node_id: int, directory: int | None) -> dict[str, object]:
    """Return, for the proof, which logs are in the named directory: the others lose nothing."""
    if directory is None:
        return {}
    held = partition_folders(runtime.data_dirs(node_id)[directory - 1])
    return {"directory": directory, HOLDS: sorted(map(str, held))}


class Trouble:
    """A fault of the volumes of one node, or of that of its `directory`; the node may continue to run.

    Healed by `mend`, which is called once.
    """

    def __init__(self, runtime: Runtime, node_id: int, directory: int | None = None) -> None:
        self._runtime = runtime
        self._node_id = node_id
        self._data_dirs = runtime.data_dirs(node_id)
        self._chosen = [at for at in range(1, len(self._data_dirs) + 1) if directory in (None, at)]
        self._volumes = [runtime.volume(node_id, at) for at in self._chosen]
        # Read now: a volume that fails cannot be read.
        self._held = _holdings(runtime, node_id, directory)
        self._before: LogCopies | None = None
        self._pulses: list[Pulses] = []

    def fill(self) -> Effect:
        """Fill the volumes. Proven when a write is refused with ENOSPC."""
        ballast_bytes = sum(volume.fill() for volume in self._volumes)
        return self._refusal_effect((errno.ENOSPC,), ballast_bytes=ballast_bytes)

    def set_read_only(self) -> Effect:
        """Make the volumes read-only. Proven when a write is refused with EROFS.

        Reads go on.
        """
        gone = self._keep_logs(lambda volume: volume.set_read_only())
        return self._refusal_effect((errno.EROFS,)).with_times(gone)

    def fail(self) -> Effect:
        """Make the volumes fail. Proven when a write is refused with EIO."""
        gone = self._keep_logs(lambda volume: volume.shut_down())
        return self._refusal_effect((errno.EIO, errno.ESHUTDOWN)).with_times(gone)

    def slow(self, delay_s: float, period_s: float) -> Effect:
        """Make writes wait up to `delay_s` once in every `period_s`.

        Proven when the volume was frozen and an fsynced write that began later took that long. An ordinary write may
        take as long on a busy host, and is no proof.
        """
        for at in self._chosen:
            # One by one: if a later volume cannot be slowed down, `mend` still ends the earlier ones.
            self._pulses.append(self._runtime.slow_down(self._node_id, delay_s, period_s, at))
        pairs = zip(self._pulses, self._volumes, strict=True)
        effects = [self._measure(pulses, volume, delay_s, period_s) for pulses, volume in pairs]
        return next((effect for effect in effects if effect.effect_ns is None), effects[-1])

    def _measure(self, pulses: Pulses, volume: Volume, delay_s: float, period_s: float) -> Effect:
        frozen = pulses.wait_frozen(_PULSES_START_S)
        longest_s, writes = 0.0, 0
        ends = time.monotonic() + 2 * period_s + _WRITE_TIMEOUT_S
        while frozen and longest_s < delay_s * _TOLERANCE and time.monotonic() < ends and pulses.end_status() is None:
            try:
                longest_s = max(longest_s, timed_write(Path(volume.folder), delay_s + _WRITE_TIMEOUT_S))
            except TimeoutError:
                return unproven_effect(f"a write did not end within {delay_s + _WRITE_TIMEOUT_S:g} s")
            writes += 1
        figures = {**self._held, "writes": writes, "longest_write_ms": round(longest_s * 1000, 1)}
        if (status := pulses.end_status()) is not None:
            return unproven_effect(
                f"the volume cannot be frozen: the process for it ended with status {status}", **figures
            )
        if not frozen:
            return unproven_effect(f"the volume was not frozen within {_PULSES_START_S:g} s", **figures)
        if longest_s < delay_s * _TOLERANCE:
            return unproven_effect(f"no write took {delay_s:g} s", **figures)
        return proven_effect(**figures)

    def mend(self) -> tuple[Effect, dict[str, LogLoss]]:
        """Make the volumes whole again; returns the effect, and what each log lost.

        A node that still runs on a failed volume is killed first. So is a broker with several log directories: it may
        have taken the directory offline, and opens it again only when it starts. Proven when a write is accepted. The
        logs lost nothing where the volume was only full. A volume that was read-only or failed is mounted again and
        holds what had been fsynced.
        """
        if self._pulses:
            for pulses in self._pulses:
                pulses.end()
            return self._check_mended(), {}
        if self._before is None:
            if len(self._data_dirs) > 1:
                self._kill()
            for volume in self._volumes:
                volume.free()
            return self._check_mended(), {}
        try:
            self._kill()
            for volume in self._volumes:
                volume.unmount()
                volume.mount()
            return self._check_mended(), self._before.compare()
        finally:
            self._before.release()

    def _kill(self) -> None:
        if self._runtime.pid(self._node_id) is not None:
            self._runtime.kill(self._node_id)

    def _keep_logs(self, act: Callable[[Volume], object]) -> OfNode:
        """Copy the logs while the node is paused, then let the fault happen; returns when it did."""
        pid = self._runtime.pid(self._node_id)
        if pid is not None and state_of(pid) == "T":
            pid = None  # a step paused the node, and it stays paused
        if pid is not None:
            self._runtime.pause(self._node_id)
        try:
            data_dirs = [self._data_dirs[at - 1] for at in self._chosen]
            self._before = LogCopies(data_dirs, Path(f"{self._volumes[0].image}.before"))
            broken_ns = run_clock.now_ns()
            for volume in self._volumes:
                act(volume)
            return {self._node_id: NodeTimes(log_gone=Span.since(broken_ns))}
        finally:
            if pid is not None:
                self._runtime.resume(self._node_id)

    def _check_mended(self) -> Effect:
        errors = [error for volume in self._volumes if (error := volume.write_error()) is not None]
        return (
            proven_effect() if not errors else unproven_effect(f"the volume refuses a write: {os.strerror(errors[0])}")
        )

    def _refusal_effect(self, expected: tuple[int, ...], **figures: int) -> Effect:
        """Return the effect of a trouble in which each volume must refuse a write."""
        refusals = [volume.write_error() for volume in self._volumes]
        odd = [error for error in refusals if error not in expected]
        return _refusal_effect((odd or refusals)[0], expected, **self._held, **figures)


INJECT: dict[StepKind, Callable[[Runtime, int], Effect]] = {
    "power-loss": power_loss,
    "torn-write": torn_write,
    "wipe-disk": wipe_disk,
}
"""The acts on one node, which is down afterwards."""
TROUBLES: dict[StepKind, Callable[[Trouble], Effect]] = {
    "fill-disk": Trouble.fill,
    "read-only": Trouble.set_read_only,
    "fail-disk": Trouble.fail,
}
"""The acts on the volume of one node, which may continue to run."""


class DiskFaults:
    """The disk steps of one run, and the volumes that are in trouble."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector
        self._runtime = injector.runtime
        self._troubles: dict[int, Trouble] = {}
        self._lost: dict[int, dict[str, LogLoss]] = {}

    @property
    def family(self) -> Family:
        """How each kind is carried out."""
        return Family(
            on_a_node={
                **{kind: partial(self._inject, kind) for kind in INJECT},
                **{kind: partial(self._make_trouble, kind) for kind in TROUBLES},
                "mend-disk": self._mend,
            },
            plans={
                **dict.fromkeys((WipeDiskStep, FillDiskStep, ReadOnlyStep, FailDiskStep), self._plan_in_directory),
                SlowDiskStep: self._plan_slow,
            },
        )

    def log_losses(self, node: int) -> dict[str, LogLoss]:
        """Return what each log of the node had lost when its volume was last mended."""
        return self._lost.get(node, {})

    def _inject(self, kind: StepKind, node: int) -> Effect:
        return INJECT[kind](self._runtime, node)

    def _make_trouble(self, kind: StepKind, node: int, directory: int | None = None) -> Effect:
        return self._trouble(kind, node, TROUBLES[kind], directory)

    def _plan_in_directory(self, step: DirectoryStep) -> Plan:
        word, directory = step.step, step.directory
        if directory is None:
            return self._injector.plan_on_each(step)

        def on_one(node: int) -> Effect:
            if isinstance(step, WipeDiskStep):
                return wipe_disk(self._runtime, node, directory)
            return self._make_trouble(word, node, directory)

        def act(nodes: tuple[int, ...]) -> Effect:
            # Refused first: `inject` notes that the node goes down.
            done = [
                self._refuse_without(node, directory) or self._injector.inject(word, node, on_one) for node in nodes
            ]
            return merge_effects(nodes, done)

        return self._injector.plan_on_target(step, act, part=f"log directory {directory}")

    def _trouble(self, kind: StepKind, node: int, act: Callable[[Trouble], Effect], directory: int | None) -> Effect:
        trouble = Trouble(self._runtime, node, directory)
        self._troubles[node] = trouble
        self._injector.troubled[node] = FaultNow(kind, node, spares_first=directory not in (None, 1))
        return act(trouble)

    def _plan_slow(self, step: SlowDiskStep) -> Plan:
        act = partial(Trouble.slow, delay_s=step.delay.seconds, period_s=step.period.seconds)

        def slow(nodes: tuple[int, ...]) -> Effect:
            done = [
                self._injector.refuse_if_troubled(node)
                or self._refuse_without(node, step.directory)
                or self._trouble(step.step, node, act, step.directory)
                for node in nodes
            ]
            return merge_effects(nodes, done)

        part = None if step.directory is None else f"log directory {step.directory}"
        return self._injector.plan_on_target(step, slow, part=part)

    def _refuse_without(self, node: int, directory: int | None) -> Effect | None:
        """Return the refusal to touch a log directory that the node, such as a controller, does not have."""
        count = 1 if directory is None else len(self._runtime.data_dirs(node))
        if directory is None or directory <= count:
            return None
        return unproven_effect(f"{self._injector.node_names([node])} has no log directory {directory}, but {count}")

    def _mend(self, node: int) -> Effect:
        trouble = self._troubles.pop(node, None)
        if trouble is None:
            return unproven_effect(f"nothing is wrong with the volume of {self._injector.node_names([node])}")
        self._injector.troubled.pop(node, None)
        effect, self._lost[node] = trouble.mend()
        if self._runtime.pid(node) is not None:
            self._injector.down.discard(node)
        else:
            # A paused node was killed to mount its volume again.
            self._injector.paused.discard(node)
        return effect


def _refusal_effect(error: int | None, expected: tuple[int, ...], **figures: Any) -> Effect:
    if error is None:
        return unproven_effect("the volume still takes writes", **figures)
    name = errno.errorcode.get(error, str(error))
    if error not in expected:
        return unproven_effect(f"the volume refuses writes with {name}", refused=name, **figures)
    return proven_effect(refused=name, **figures)
