"""A broker's offset checkpoints, Kafka's format 0.

The file has a version, a count, then `topic partition offset` lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ebbtide.logs.segments import TopicPartition, partition_folders
from ebbtide.untrusted.files import UnreadableFile, read_text

HIGH_WATERMARKS = "replication-offset-checkpoint"
"""The file with the HW of every replica, as the broker last wrote it."""

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
"""The file with the offset of every log up to which the broker has certainly fsynced it."""


def read_checkpoint(path: Path) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint file.

    Raises `ValueError` if the file is missing, damaged, or not a checkpoint file.
    """
    try:
        text = read_text(path)
    except UnreadableFile as error:
        raise ValueError(f"{error.what}: {error.got}") from None
    version, count, *lines = text.splitlines() or [""]
    if version != "0":
        raise ValueError(f"version {version!r}, known is '0'")
    if int(count) != len(lines):
        raise ValueError(f"{len(lines)} lines instead of {count}")
    offsets = {}
    for line in lines:
        topic, partition, offset = line.split()
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def read_high_watermarks(data_dirs: Sequence[Path]) -> dict[TopicPartition, int]:
    """Return the checkpointed HW of every replica of a node.

    Each log directory has a checkpoint of its own, which counts for the replicas in that directory: a replica may have
    left it since. Raises `ValueError` as `read_checkpoint` does.
    """
    if len(data_dirs) == 1:
        return read_checkpoint(data_dirs[0] / HIGH_WATERMARKS)
    found = {}
    for data_dir in data_dirs:
        # A directory without replicas has an empty checkpoint.
        if there := partition_folders(data_dir).keys():
            marks = read_checkpoint(data_dir / HIGH_WATERMARKS)
            found.update({at: mark for at, mark in marks.items() if at in there})
    return found
