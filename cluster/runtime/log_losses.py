"""Measures what a power loss took from the logs of a volume, by content.

Sizes are not enough: a file may come back with its old length and zeros in it. The segments are therefore copied
after the SIGKILL, which is what the broker had written, and what the volume gives back after the remount is compared
byte by byte. A log's loss is everything from its first byte that differs.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from cluster.runtime.base import LogLoss
from ebbtide.logs.segments import leo_of, partition_folders, segment_files

_BLOCK = 1 << 20


class LogCopies:
    """Copies of the segments of `data_dirs`, kept in `aside` until `release`."""

    def __init__(self, data_dirs: Sequence[Path], aside: Path) -> None:
        self._aside = aside
        self.folders = partition_folders(*data_dirs)
        """The folder of each log that was copied."""
        for partition, folder in self.folders.items():
            kept = aside / str(partition)
            kept.mkdir(parents=True)
            for segment in segment_files(folder).values():
                # The copy reads through the page cache and flushes nothing.
                shutil.copyfile(segment, kept / segment.name)

    def compare(self) -> dict[str, LogLoss]:
        """Compare each log's copy with the log now; returns losses by `topic-partition`."""
        return {
            str(partition): _compare(before, self.folders[partition])
            for partition, before in partition_folders(self._aside).items()
        }

    def release(self) -> None:
        """Delete the copies."""
        shutil.rmtree(self._aside, ignore_errors=True)


def losses_of_whole_disks(data_dirs: Sequence[Path]) -> dict[str, LogLoss]:
    """Return the loss of each log on disks that will be replaced: all of it.

    Keyed `topic-partition`.
    """
    losses = {}
    for partition, folder in partition_folders(*data_dirs).items():
        size_bytes = sum(segment.stat().st_size for segment in segment_files(folder).values())
        losses[str(partition)] = LogLoss(
            bytes_before=size_bytes, bytes_after=0, lost_bytes=size_bytes, leo_before=leo_of(folder), leo_after=0
        )
    return losses


def _compare(before: Path, after: Path) -> LogLoss:
    old, new = segment_files(before), segment_files(after)
    return LogLoss(
        bytes_before=sum(path.stat().st_size for path in old.values()),
        bytes_after=sum(path.stat().st_size for path in new.values()),
        lost_bytes=sum(
            path.stat().st_size - (common_prefix(path, new[base]) if base in new else 0) for base, path in old.items()
        ),
        leo_before=leo_of(before),
        leo_after=leo_of(after),
    )


def common_prefix(first: Path, second: Path) -> int:
    """Return how many bytes two files have in common from their start."""
    position = 0
    with first.open("rb") as one, second.open("rb") as other:
        while True:
            left, right = one.read(_BLOCK), other.read(_BLOCK)
            if left != right or not left:
                return position + _common_length(left, right)
            position += len(left)


def _common_length(left: bytes, right: bytes) -> int:
    """Return the length of the common prefix, by halving: a comparison is one memcmp."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
