"""Power loss without a file system shutdown: logs are cut to recovery points.

The recovery point is the offset up to which the broker has certainly fsynced (Kafka's
`recovery-point-offset-checkpoint`). Everything above it *may* be lost, so that this is the worst case. The metadata
log is left alone: a controller fsyncs it before it answers, and a broker reads its copy anew.
"""

from __future__ import annotations

import os
from pathlib import Path

from ebbtide.errors import HarnessError
from ebbtide.logs.checkpoint_file import RECOVERY_POINTS, read_checkpoint
from ebbtide.logs.scan import Damage, scan_file
from ebbtide.logs.segments import METADATA_FOLDER, TopicPartition, partition_folders, segment_files

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def cut_to_recovery_points(data_dir: Path) -> None:
    """Cut every log in `data_dir`, whose broker is dead, to its recovery point.

    A log without a recovery point loses everything. Raises `HarnessError` when the recovery points cannot be read.
    """
    points = _recovery_points(data_dir)
    for partition, folder in partition_folders(data_dir).items():
        if folder.name != METADATA_FOLDER:
            _cut(folder, points.get(partition, 0))
    (data_dir / CLEAN_SHUTDOWN).unlink(missing_ok=True)


def _recovery_points(data_dir: Path) -> dict[TopicPartition, int]:
    path = data_dir / RECOVERY_POINTS
    # A broker makes the file empty when it first starts, and fills it later.
    if not path.exists() or path.stat().st_size == 0:
        return {}
    try:
        return read_checkpoint(path)
    except ValueError as error:
        raise HarnessError("the recovery points cannot be read", where=str(path), got=str(error)) from None


def _cut(folder: Path, recovery_point: int) -> None:
    segments = segment_files(folder)
    for base, path in segments.items():
        if base > recovery_point and base != min(segments):
            path.unlink()
            _drop_derived(folder, path.stem)
            continue
        keep = _bytes_below(path, recovery_point)
        if keep < path.stat().st_size:
            os.truncate(path, keep)
            # Kafka rebuilds what it derived from the segment after an unclean shutdown.
            _drop_derived(folder, path.stem)
    for snapshot in folder.glob("*.snapshot"):
        if snapshot.stem.isdigit() and int(snapshot.stem) > recovery_point:
            snapshot.unlink()


def _bytes_below(segment: Path, offset: int) -> int:
    """Return the size in bytes of the whole batches below `offset`."""
    position = 0
    for item in scan_file(segment, verify=False):
        if isinstance(item, Damage) or item.last_offset >= offset:
            break
        position = item.position + item.size
    return position


def _drop_derived(folder: Path, stem: str) -> None:
    for suffix in (".index", ".timeindex", ".txnindex"):
        (folder / (stem + suffix)).unlink(missing_ok=True)
