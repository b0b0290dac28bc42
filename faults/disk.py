"""Disk faults: a power loss, proven by what did not come back."""

from __future__ import annotations

from pathlib import Path

import msgspec

from faults.base import Effect, proven, unproven
from harness.runtime.base import Runtime


def power_loss(runtime: Runtime, node_id: int) -> Effect:
    """SIGKILL, and everything not fsynced is gone; the node stays down. Healed by `start`.

    Proven when the process is gone, the volume was really shut down, and a file that was written when the node
    started and never fsynced is gone: so the kernel wrote nothing back since. How much of the logs vanished is
    measured, and is not the proof: a node that fsynced everything loses power as truly as one that did not.
    """
    pid = runtime.pid(node_id)
    loss = runtime.lose_power(node_id)
    figures = {
        "pid": pid,
        "method": loss.method,
        "volume_down": loss.volume_down,
        "unsynced_gone": loss.unsynced_gone,
        "lost_bytes": loss.lost_bytes,
        "logs": msgspec.to_builtins(loss.logs),
    }
    if pid is not None and Path(f"/proc/{pid}").exists():
        return unproven(f"pid {pid} is still there", **figures)
    if not loss.volume_down:
        return unproven("the volume still took writes after it was to lose power", **figures)
    if not loss.unsynced_gone:
        return unproven("what was not fsynced survived: the kernel had written it back before", **figures)
    return proven(**figures)
