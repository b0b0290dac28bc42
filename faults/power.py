"""Power loss: proven on the volume itself, by what did not come back.

A torn write: half of a page arrives when power goes during write-back.

A plain power loss leaves each log as the last flush left it. Here each log that lost records gets half of its first
lost page back, and zeros for the other half. A broker that starts on it must find the batch that is not whole, by its
length or its checksum, and cut the log there (Kafka's log recovery after an unclean shutdown). The metadata log is
left alone: a controller fsyncs it before it answers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cluster.runtime.base import PowerLoss
from cluster.runtime.cluster import Runtime
from cluster.runtime.disks import LogCopies, common_prefix
from ebbtide.logs.scan import Damage, scan_file
from ebbtide.logs.segments import METADATA_FOLDER, TopicPartition, partition_folders, segment_files
from ebbtide.record.node_times import NodeTimes
from ebbtide.scenario.steps.step import TornPage
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


PAGE_BYTES = 4096


def torn_write(runtime: Runtime, node_id: int) -> Effect:
    """Kill the node, lose power, and restore half of each log's first lost page.

    The node stays down. Healed by `start`. Proven as a power loss is, and when a reader of each torn log finds the
    damage at its end. A node whose logs lost nothing has no page to tear, so that the effect is not proven.
    """
    pid = runtime.pid(node_id)
    if pid is not None:
        runtime.kill(node_id)
    data_dirs = runtime.data_dirs(node_id)
    # Beside the volume: files on the volume would be lost.
    aside = data_dirs[0].parent.with_name(f"{data_dirs[0].parent.name}.torn")
    before = LogCopies(data_dirs, aside)
    try:
        loss = runtime.lose_power(node_id)
        torn = _tear_each(aside, before.folders)
        logs = before.compare()
    finally:
        before.release()
    lost_bytes = sum(log.lost_bytes for log in logs.values())
    lost = proof_of_power_loss(pid, msgspec.structs.replace(loss, lost_bytes=lost_bytes, logs=logs))
    effect = _effect_of_tear(lost, torn)
    return effect.with_times({node_id: NodeTimes(log_gone=loss.log_gone)})


def _effect_of_tear(lost: Effect, torn: Mapping[str, TornPage]) -> Effect:
    """Return the effect of a power loss after which the pages `torn` were written."""
    figures = {**lost.proof, "torn": msgspec.to_builtins(torn)}
    whole = [name for name, page in torn.items() if page.damage is None]
    if lost.effect_ns is not None and not torn:
        return unproven_effect("no log had a page to tear, because nothing was lost", **_without_probe(figures))
    if lost.effect_ns is not None and whole:
        return unproven_effect(f"a reader finds no damage at the end of {', '.join(whole)}", **_without_probe(figures))
    return msgspec.structs.replace(lost, proof=figures)


def _without_probe(figures: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in figures.items() if key != "probe"}


def _tear_each(before: Path, folders: Mapping[TopicPartition, Path]) -> dict[str, TornPage]:
    """Tear every log of `folders` that is shorter than its copy in `before`.

    Keyed `topic-partition`.
    """
    torn = {}
    for partition, kept in partition_folders(before).items():
        page = _tear(kept, folders[partition]) if kept.name != METADATA_FOLDER else None
        if page is not None:
            torn[str(partition)] = page
    return torn


def _tear(before: Path, now: Path) -> TornPage | None:
    """Tear one log; None where nothing, or the whole file, was lost."""
    segments = segment_files(now)
    for base, kept in segment_files(before).items():
        segment, size_bytes = segments.get(base), kept.stat().st_size
        if segment is None:
            return None
        start = common_prefix(kept, segment)
        if start < size_bytes:
            end = min(size_bytes, (start // PAGE_BYTES + 1) * PAGE_BYTES)
            return _tear_page(kept, segment, start, end)
    return None


def _tear_page(kept: Path, segment: Path, start: int, end: int) -> TornPage:
    """Write half of the bytes from `start` to `end`, and zeros for the rest; fsync."""
    half = start + (end - start + 1) // 2
    with kept.open("rb") as source, segment.open("r+b") as target:
        source.seek(start)
        target.truncate(start)
        target.seek(start)
        target.write(source.read(half - start) + bytes(end - half))
        target.flush()
        os.fsync(target.fileno())
    found = next((item for item in scan_file(segment) if isinstance(item, Damage)), None)
    return TornPage(
        segment=segment.name,
        position=start,
        arrived_bytes=half - start,
        zero_bytes=end - half,
        damage=found.kind if found is not None and found.tail else None,
    )
