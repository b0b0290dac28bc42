"""Partition folders and their segments, and log end offsets (LEO).

LEOs are read from the batches themselves. Folder and file names are Kafka's: `<topic>-<partition>/` holds `<base
offset, 20 digits>.log`. Folders that are being deleted, moved or are stray have a suffix and are not replicas.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ebbtide.logs.scan import Damage, scan_file

METADATA_FOLDER = "__cluster_metadata-0"
INTERNAL_PREFIX = "__"

_SEGMENT = re.compile(r"(\d{20})\.log")
_PARTITION = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.DOTALL)
_NUMBER_MAX = 2**31 - 1


class TopicPartition(NamedTuple):
    """A partition; `str()` gives Kafka's `topic-partition`."""

    topic: str
    partition: int

    @classmethod
    def parse(cls, text: str) -> TopicPartition:
        """Return the partition that `t-0` names; the only reader of such names, from files, records and folders.

        Raises ValueError for anything else, also for a number that Kafka's int32 cannot hold.
        """
        match = _PARTITION.fullmatch(text)
        if match is None or int(match[2]) > _NUMBER_MAX:
            raise ValueError(f"{text!r} is not a topic-partition such as t-0")
        return cls(match[1], int(match[2]))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def segment_files(folder: Path) -> dict[int, Path]:
    """Return the segments of a partition folder by base offset, in order.

    Empty when the folder is missing.
    """
    try:
        found = [(match, path) for path in folder.iterdir() if (match := _SEGMENT.fullmatch(path.name))]
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {int(match[1]): path for match, path in sorted(found, key=lambda pair: pair[1].name)}


def partition_folders(*data_dirs: Path) -> dict[TopicPartition, Path]:
    """Return the replicas in the log directories of a node, in order.

    A directory that is missing has none. A replica is in one directory; if it is in two, the first one counts.
    """
    found: dict[TopicPartition, Path] = {}
    for data_dir in data_dirs:
        for path in data_dir.iterdir() if data_dir.is_dir() else ():
            if _PARTITION.fullmatch(path.name) and path.is_dir():
                found.setdefault(TopicPartition.parse(path.name), path)
    return dict(sorted(found.items()))


def replica_folder(data_dirs: Sequence[Path], at: TopicPartition) -> Path:
    """Return the folder of a partition's replica on a node; one that does not exist if the node has no replica."""
    folders = [data_dir / str(at) for data_dir in data_dirs]
    return next((folder for folder in folders if folder.is_dir()), folders[0])


def log_dir_of(data_dirs: Sequence[Path], at: TopicPartition) -> int | None:
    """Return the number of the log directory, from 1 on, that has a partition's replica.

    None: none has it, or it is being moved to another one (a folder with the suffix `-future`). Raises `OSError`.
    """
    moved = re.compile(re.escape(str(at)) + r"\.[0-9a-f]+-future")
    found = []
    for number, data_dir in enumerate(data_dirs, 1):
        names = {path.name for path in data_dir.iterdir()}
        if any(map(moved.fullmatch, names)):
            return None
        found += [number] if str(at) in names else []
    return found[0] if len(found) == 1 else None


class LogEnd(NamedTuple):
    """Where a log ends: its LEO, and the leader epoch of its last batch; epochs order logs first.

    Without a batch the epoch is -1.
    """

    last_epoch: int
    leo: int


def leo_of(partition_dir: Path) -> int:
    """Return the offset after the last batch up to which the replica's log is whole.

    See `log_end`.
    """
    return log_end(partition_dir).leo


def log_end(partition_dir: Path) -> LogEnd:
    """Return the end of the part of a replica's log that is whole.

    Reads every segment and checks every checksum, as a broker's recovery does. Stops at the first damage, where
    recovery would truncate. The LEO is 0 for a folder without segments.
    """
    end = LogEnd(-1, 0)
    for base, path in segment_files(partition_dir).items():
        end = LogEnd(end.last_epoch, max(end.leo, base))
        for item in scan_file(path):
            if isinstance(item, Damage):
                return end
            end = LogEnd(item.leader_epoch, item.next_offset)
    return end
