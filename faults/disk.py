"""Disk faults: power loss, a replaced disk, a full, a read-only and a slow one, and one that dies under a running node.

Each is proven on the volume itself, not by what the broker makes of it: by what did not come back, by the
error with which a write is refused, or by how long it takes.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from cluster.host.processes import state_of
from cluster.host.slow_volume import Pulses, timed_write
from cluster.runtime.base import LogLoss, Runtime
from cluster.runtime.log_losses import LogsBefore
from faults.base import Effect, proven, unproven

_PULSES_START_S = 10.0
"""For the process that freezes the volume to start."""

_WRITE_TIMEOUT_S = 5.0
_TOLERANCE = 0.9
"""A write begins a little after the volume was frozen."""


def power_loss(runtime: Runtime, node_id: int) -> Effect:
    """SIGKILL, and everything not fsynced is gone; the node stays down. Healed by `start`.

    Proven when the process is gone, the volume was really shut down, and a file that was written when the node
    started and never fsynced was there and is gone: so the kernel wrote nothing back since. How much of the logs
    vanished is measured, and is not the proof: a node that fsynced everything loses power as truly as one that did
    not. Where logs were cut back instead (truncate), there is no volume to ask: that the process is gone is all.
    """
    pid = runtime.pid(node_id)
    loss = runtime.lose_power(node_id)
    figures = {
        "pid": pid,
        "method": loss.method,
        "lost_bytes": loss.lost_bytes,
        "logs": msgspec.to_builtins(loss.logs),
    }
    if loss.method == "fs-shutdown":
        figures |= {
            "volume_down": loss.volume_down,
            "unsynced_there": loss.unsynced_there,
            "unsynced_gone": loss.unsynced_gone,
        }
    if pid is not None and Path(f"/proc/{pid}").exists():
        return unproven(f"pid {pid} is still there", **figures)
    if not loss.volume_down:
        return unproven("the volume still took writes after it was to lose power", **figures)
    if not loss.unsynced_there:
        return unproven("nothing was left to lose: the node has not been started since its volume lost it", **figures)
    if not loss.unsynced_gone:
        return unproven("what was not fsynced survived: the kernel had written it back before", **figures)
    return proven(**figures)


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
        self._before: LogsBefore | None = None
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
        frozen = self._pulses.froze(_PULSES_START_S)
        longest_s, writes = 0.0, 0
        ends = time.monotonic() + 2 * period_s + _WRITE_TIMEOUT_S
        while frozen and longest_s < delay_s * _TOLERANCE and time.monotonic() < ends and self._pulses.ended() is None:
            try:
                longest_s = max(longest_s, timed_write(Path(self._volume.folder), delay_s + _WRITE_TIMEOUT_S))
            except TimeoutError:
                return unproven(f"a write was not done after {delay_s + _WRITE_TIMEOUT_S:g} s")
            writes += 1
        figures = {"writes": writes, "longest_write_ms": round(longest_s * 1000, 1)}
        if (status := self._pulses.ended()) is not None:
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
            self._before = LogsBefore(data_dir, Path(f"{self._volume.image}.before"))
            act()
        finally:
            if pid is not None:
                self._runtime.resume(self._node_id)

    def _mended(self) -> Effect:
        error = self._volume.write_error()
        return proven() if error is None else unproven(f"the volume refuses a write: {os.strerror(error)}")


def _refused(error: int | None, expected: tuple[int, ...], **figures: int) -> Effect:
    if error is None:
        return unproven("the volume still takes writes", **figures)
    name = errno.errorcode.get(error, str(error))
    if error not in expected:
        return unproven(f"the volume refuses writes with {name}", refused=name, **figures)
    return proven(refused=name, **figures)
