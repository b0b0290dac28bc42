"""Disk faults: a power loss, proven by what did not come back."""

from __future__ import annotations

from pathlib import Path

import msgspec

from faults.base import Effect, proven, unproven
from harness.runtime.base import Runtime


def power_loss(runtime: Runtime, node_id: int) -> Effect:
    """SIGKILL, and everything not fsynced is gone; the node stays down. Healed by `start`.

    Proven when the process is gone, the volume was really shut down, and bytes did vanish from a log. A
    power loss that took nothing tests nothing: either nothing was written since the last fsync, or the
    kernel wrote it back before.
    """
    pid = runtime.pid(node_id)
    loss = runtime.lose_power(node_id)
    figures = {
        "pid": pid,
        "method": loss.method,
        "volume_down": loss.volume_down,
        "lost_bytes": loss.lost_bytes,
        "logs": msgspec.to_builtins(loss.logs),
    }
    if pid is not None and Path(f"/proc/{pid}").exists():
        return unproven(f"pid {pid} is still there", **figures)
    if not loss.volume_down:
        return unproven("the volume still took writes after it was to lose power", **figures)
    if loss.lost_bytes == 0:
        return unproven("nothing un-fsynced vanished: every byte of every log came back", **figures)
    return proven(**figures)
