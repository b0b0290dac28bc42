"""Disk faults: a replaced disk, a full, a read-only and a slow one, and one that dies under a running node.

Each is proven on the volume itself, not by what the broker makes of it: by what did not come back, by the
error with which a write is refused, or by how long it takes.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from cluster.host.processes import state_of
from cluster.host.slow_volume import Pulses, timed_write
from cluster.runtime.base import LogLoss, Runtime
from cluster.runtime.log_losses import LogCopies
from ebbtide.scenario.steps.disk import SlowDiskStep
from ebbtide.scenario.steps.table import StepKind
from faults.base import Effect, merged, proven, unproven
from faults.injector import Family, Injector, Plan
from faults.power import power_loss
from faults.torn_write import torn_write

_PULSES_START_S = 10.0
"""For the process that freezes the volume to start."""

_WRITE_TIMEOUT_S = 5.0
_TOLERANCE = 0.9
"""A write begins a little after the volume was frozen."""


def wipe_disk(runtime: Runtime, node_id: int) -> Effect:
    """SIGKILL, and the disk is replaced by an empty one, formatted for the same cluster; the node stays down.

    Healed by `start`. Proven when the process is gone, no partition's folder is on the new disk, and it belongs to
    the same cluster: a broker of another one would not join, which is a different experiment.
    """
    pid = runtime.pid(node_id)
    new = runtime.replace_disk(node_id)
    figures = {
        "pid": pid,
        "cluster_id": new.cluster_id,
        "left": list(new.left),
        "lost_bytes": new.lost_bytes,
        "logs": msgspec.to_builtins(new.logs),
    }
    if pid is not None and Path(f"/proc/{pid}").exists():
        return unproven(f"pid {pid} is still there", **figures)
    if new.left:
        return unproven(f"the new disk is not empty: {', '.join(new.left)}", **figures)
    if new.cluster_id is None or new.cluster_id != new.cluster_id_before:
        return unproven(f"the disk is of cluster {new.cluster_id}, not {new.cluster_id_before}", **figures)
    return proven(**figures)


class Trouble:
    """A fault of one node's volume while the node may go on running. Healed by `mend`, which is done once."""

    def __init__(self, runtime: Runtime, node_id: int) -> None:
        self._runtime = runtime
        self._node_id = node_id
        self._volume = runtime.volume(node_id)
        self._before: LogCopies | None = None
        self._pulses: Pulses | None = None

    def fill(self) -> Effect:
        """No byte is left. Proven when a write is refused with ENOSPC."""
        ballast_bytes = self._volume.fill()
        refused = self._volume.write_error()
        return _refused(refused, (errno.ENOSPC,), ballast_bytes=ballast_bytes)

    def set_read_only(self) -> Effect:
        """Files take no more writes. Proven when a write is refused with EROFS, and reads go on."""
        self._keep_logs(self._volume.set_read_only)
        return _refused(self._volume.write_error(), (errno.EROFS,))

    def fail(self) -> Effect:
        """The volume dies: nothing can be written or read. Proven when a write is refused with EIO."""
        self._keep_logs(self._volume.shut_down)
        return _refused(self._volume.write_error(), (errno.EIO, errno.ESHUTDOWN))

    def slow(self, delay_s: float, period_s: float) -> Effect:
        """Writes wait up to `delay_s` once in every `period_s`.

        Proven when the volume was frozen and an fsynced write that began later took that long: an ordinary one may
        take as long on a busy host, and is no proof.
        """
        self._pulses = self._runtime.slow_down(self._node_id, delay_s, period_s)
        frozen = self._pulses.wait_frozen(_PULSES_START_S)
        longest_s, writes = 0.0, 0
        ends = time.monotonic() + 2 * period_s + _WRITE_TIMEOUT_S
        while (
            frozen
            and longest_s < delay_s * _TOLERANCE
            and time.monotonic() < ends
            and self._pulses.end_status() is None
        ):
            try:
                longest_s = max(longest_s, timed_write(Path(self._volume.folder), delay_s + _WRITE_TIMEOUT_S))
            except TimeoutError:
                return unproven(f"a write was not done after {delay_s + _WRITE_TIMEOUT_S:g} s")
            writes += 1
        figures = {"writes": writes, "longest_write_ms": round(longest_s * 1000, 1)}
        if (status := self._pulses.end_status()) is not None:
            return unproven(f"the volume cannot be frozen: the process for it ended with status {status}", **figures)
        if not frozen:
            return unproven(f"the volume was not frozen within {_PULSES_START_S:g} s", **figures)
        if longest_s < delay_s * _TOLERANCE:
            return unproven(f"no write took {delay_s:g} s", **figures)
        return proven(**figures)

    def mend(self) -> tuple[Effect, dict[str, LogLoss]]:
        """The volume is whole again; a node that still runs on one that died is killed first.

        Returns the effect, proven when a write is taken, and what each log lost (nothing where the volume was only
        full). A volume that was read-only or dead is mounted anew and holds what had been fsynced.
        """
        if self._pulses is not None:
            self._pulses.end()
            return self._mended(), {}
        if self._before is None:
            self._volume.free()
            return self._mended(), {}
        try:
            if self._runtime.pid(self._node_id) is not None:
                self._runtime.kill(self._node_id)
            self._volume.unmount()
            self._volume.mount()
            return self._mended(), self._before.compare()
        finally:
            self._before.release()

    def _keep_logs(self, act: Callable[[], object]) -> None:
        """Copy the logs aside as they stand, while the node is held still, then let the fault come."""
        pid = self._runtime.pid(self._node_id)
        if pid is not None and state_of(pid) == "T":
            pid = None  # a step paused it, and it stays so
        if pid is not None:
            self._runtime.pause(self._node_id)
        try:
            data_dir = self._runtime.data_dir(self._node_id)
            self._before = LogCopies(data_dir, Path(f"{self._volume.image}.before"))
            act()
        finally:
            if pid is not None:
                self._runtime.resume(self._node_id)

    def _mended(self) -> Effect:
        error = self._volume.write_error()
        return proven() if error is None else unproven(f"the volume refuses a write: {os.strerror(error)}")


INJECT: dict[StepKind, Callable[[Runtime, int], Effect]] = {
    "power-loss": power_loss,
    "torn-write": torn_write,
    "wipe-disk": wipe_disk,
}
"""What is done to one node, which is down afterwards."""
TROUBLES: dict[StepKind, Callable[[Trouble], Effect]] = {
    "fill-disk": Trouble.fill,
    "read-only": Trouble.set_read_only,
    "fail-disk": Trouble.fail,
}
"""What is done to the volume of one node, which may go on running."""


class DiskFaults:
    """The steps of this family in one run, and which volumes are in trouble."""

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
                **{kind: partial(self._do, kind) for kind in INJECT},
                **{kind: partial(self._make_trouble, kind) for kind in TROUBLES},
                "mend-disk": self._mend,
            },
            plans={SlowDiskStep: self._plan_slow},
        )

    def lost(self, node: int) -> dict[str, LogLoss]:
        """What each log of the node had lost when its volume was mended last."""
        return self._lost.get(node, {})

    def _do(self, kind: StepKind, node: int) -> Effect:
        return INJECT[kind](self._runtime, node)

    def _make_trouble(self, kind: StepKind, node: int) -> Effect:
        return self._trouble(node, TROUBLES[kind])

    def _trouble(self, node: int, act: Callable[[Trouble], Effect]) -> Effect:
        trouble = Trouble(self._runtime, node)
        self._troubles[node] = trouble
        self._injector.troubled.add(node)
        return act(trouble)

    def _plan_slow(self, step: SlowDiskStep) -> Plan:
        act = partial(Trouble.slow, delay_s=step.delay.seconds, period_s=step.period.seconds)

        def slow(nodes: tuple[int, ...]) -> Effect:
            done = [self._injector.in_trouble(node) or self._trouble(node, act) for node in nodes]
            return merged(nodes, done)

        return self._injector.on_target(step, slow)

    def _mend(self, node: int) -> Effect:
        trouble = self._troubles.pop(node, None)
        if trouble is None:
            return unproven(f"nothing is wrong with the volume of {self._injector.names([node])}")
        self._injector.troubled.discard(node)
        effect, self._lost[node] = trouble.mend()
        if self._runtime.pid(node) is not None:
            self._injector.down.discard(node)
        else:
            # A frozen one was killed to mount its volume anew.
            self._injector.paused.discard(node)
        return effect


def _refused(error: int | None, expected: tuple[int, ...], **figures: int) -> Effect:
    if error is None:
        return unproven("the volume still takes writes", **figures)
    name = errno.errorcode.get(error, str(error))
    if error not in expected:
        return unproven(f"the volume refuses writes with {name}", refused=name, **figures)
    return proven(refused=name, **figures)
