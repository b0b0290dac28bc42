"""A torn write: half of a page arrives when power goes during write-back.

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

from cluster.runtime.base import Runtime
from cluster.runtime.log_losses import LogCopies, common_prefix
from ebbtide.logs.scan import Damage, scan_file
from ebbtide.logs.segments import METADATA_FOLDER, TopicPartition, partition_folders, segment_files
from ebbtide.record.node_times import NodeTimes
from faults.base import Effect, unproven_effect
from faults.power import proof_of_power_loss

PAGE_BYTES = 4096


class TornPage(msgspec.Struct, frozen=True, kw_only=True):
    """The first lost page of a log after the tear.

    `damage`: what a reader finds there; None: nothing wrong.
    """

    segment: str
    position: int
    arrived_bytes: int
    zero_bytes: int
    damage: str | None


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
