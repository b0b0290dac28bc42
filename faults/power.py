"""Power loss: proven on the volume itself, by what did not come back."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cluster.runtime.base import PowerLoss, Runtime
from faults.base import Effect, proven, unproven


def power_loss(runtime: Runtime, node_id: int) -> Effect:
    """SIGKILL, and everything not fsynced is gone; the node stays down. Healed by `start`.

    Proven when the process is gone, the volume was really shut down, and a file that was written when the node
    started and never fsynced was there and is gone: so the kernel wrote nothing back since. How much of the logs
    vanished is measured, and is not the proof: a node that fsynced everything loses power as truly as one that did
    not. Where logs were cut back instead (truncate), there is no volume to ask: that the process is gone is all.
    """
    pid = runtime.pid(node_id)
    return proof_of_power_loss(pid, runtime.lose_power(node_id))


def proof_of_power_loss(pid: int | None, loss: PowerLoss) -> Effect:
    """Whether a node, whose process was `pid`, lost power: what `power_loss` says of its proof."""
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
