"""Power loss: proven on the volume itself, by what did not come back."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cluster.runtime.base import PowerLoss, Runtime
from ebbtide.record.node_times import NodeTimes
from faults.base import Effect, proven_effect, unproven_effect


def power_loss(runtime: Runtime, node_id: int) -> Effect:
    """Kill the node and lose everything that it did not fsync; it stays down.

    Healed by `start`. Proven when the process is gone, the volume was really shut down, and the unsynced file was
    there and is gone. That file is written when the node starts and is never fsynced: if it is gone, the kernel wrote
    nothing back since. The settings of write-back must have been the same all the time: another Ebbtide on this kernel
    may have ended the hold. Where the scenario leaves write-back to the kernel, another one is written right before the
    power is cut: it then shows that the volume lost what the kernel had not written.

    How much of the logs vanished is measured, and is not the proof: a node that fsynced everything also loses power.
    Where logs were cut back instead (truncate), there is no volume to ask: the proof is that the process is gone.
    """
    pid = runtime.pid(node_id)
    loss = runtime.lose_power(node_id)
    return proof_of_power_loss(pid, loss).with_times({node_id: NodeTimes(log_gone=loss.log_gone)})


def proof_of_power_loss(pid: int | None, loss: PowerLoss) -> Effect:
    """Return the effect of a power loss, proven as `power_loss` says.

    `pid` is the node's process before.
    """
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
    if loss.write_back_change is not None:
        figures["write_back_change"] = loss.write_back_change
    if pid is not None and Path(f"/proc/{pid}").exists():
        return unproven_effect(f"pid {pid} is still there", **figures)
    if not loss.volume_down:
        return unproven_effect("the volume still accepted writes after its power was cut", **figures)
    if loss.write_back_change is not None:
        return unproven_effect(loss.write_back_change, **figures)
    if not loss.unsynced_there:
        return unproven_effect(
            "nothing was left to lose: the node has not been started since its volume lost it", **figures
        )
    if not loss.unsynced_gone:
        return unproven_effect("what was not fsynced survived: the kernel had written it back before", **figures)
    return proven_effect(**figures)
