"""The nodes' log directories, and the volume that each of them has of its own.

A controller has one log directory, a broker may have several (KIP-858). The first one also holds the metadata log.
Where power is lost by `truncate`, nodes have no volumes: the directories are folders of the host.

Power loss without a file system shutdown: logs are cut to recovery points.

The recovery point is the offset up to which the broker has certainly fsynced (Kafka's
`recovery-point-offset-checkpoint`). Everything above it *may* be lost, so that this is the worst case. The metadata
log is left alone: a controller fsyncs it before it answers, and a broker reads its copy anew.

What a power loss took is measured by content, since a file may come back with its old length and zeros in it. The
segments are therefore copied after the SIGKILL, which is what the broker had written, and what the volume gives back
after the remount is compared byte by byte. A log's loss is everything from its first byte that differs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cluster.host.ledger import Ledger
from cluster.host.volumes import Volume
from cluster.runtime.base import DiskReplacement, LogLoss, NodeInfo, PowerLoss, PowerLossMethod
from ebbtide import run_clock
from ebbtide.errors import HarnessError
from ebbtide.logs.checkpoint_file import RECOVERY_POINTS, cluster_id_in, read_checkpoint
from ebbtide.logs.scan import Damage, scan_file
from ebbtide.logs.segments import METADATA_FOLDER, TopicPartition, leo_of, partition_folders, segment_files
from ebbtide.record.node_times import Span
from ebbtide.scenario.model import ClusterSpec

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


class NodeDisks:
    """The disks of every node below `folder`; directories count from 1."""

    def __init__(self, folder: Path, nodes: Mapping[int, NodeInfo], spec: ClusterSpec, ledger: Ledger) -> None:
        self._folder = folder
        self._nodes = nodes
        self._spec = spec
        self._ledger = ledger
        self._volumes: dict[int, list[Volume]] = {}

    def folders(self, node_id: int) -> tuple[Path, ...]:
        """Return where each volume of the node is mounted."""
        return tuple(self._folder / "data" / name for name in self._names(node_id))

    def data_dirs(self, node_id: int) -> tuple[Path, ...]:
        """Return the log.dirs, below the mount points (Kafka refuses `lost+found`)."""
        return tuple(folder / "kafka" for folder in self.folders(node_id))

    def make_volumes(self) -> None:
        """Make and mount the volumes. Raises `HarnessError`."""
        for node_id in self._nodes:
            for name, folder in zip(self._names(node_id), self.folders(node_id), strict=True):
                image = self._folder / "volumes" / f"{name}.img"
                volume = Volume.at(image, folder, self._spec.file_system or "ext4")
                volume.create()
                volume = volume.with_identity()
                self._volumes.setdefault(node_id, []).append(volume)
                self._ledger.make(volume, volume.mount)

    def make_data_dirs(self, node_id: int) -> tuple[Path, ...]:
        """Make the node's log.dirs, which are empty, and return them."""
        data_dirs = self.data_dirs(node_id)
        for data in data_dirs:
            data.mkdir(parents=True)
        return data_dirs

    def sync(self) -> None:
        """Write all dirty pages of all volumes. Raises `OSError`."""
        for volumes in self._volumes.values():
            for volume in volumes:
                volume.sync()

    def write_unsynced(self, node_id: int) -> None:
        """Write the file that a power loss must take to each volume.

        Raises `OSError` if the first volume takes no writes. A broker starts without a further volume that
        died. A later power loss of that broker then lacks its proof.
        """
        for at, volume in enumerate(self._volumes.get(node_id, ())):
            try:
                volume.write_unsynced()
            except OSError:
                if at == 0:
                    raise

    def volume(self, node_id: int, directory: int) -> Volume:
        """Return the volume of one directory; raises `HarnessError` where nodes have none."""
        self.check_directory(node_id, directory)
        if node_id not in self._volumes:
            raise HarnessError(
                f"{self._nodes[node_id].name} has no volume of its own", next="run without --power-loss truncate"
            )
        return self._volumes[node_id][directory - 1]

    def check_directory(self, node_id: int, directory: int) -> None:
        """Raise `HarnessError` if the node has no log directory of this number."""
        count = len(self._names(node_id))
        if not 1 <= directory <= count:
            name = self._nodes[node_id].name
            raise HarnessError(
                f"{name} has no log directory {directory}", got=str(directory), allowed=f"1 to {count}, see log_dirs"
            )

    def lose_power(
        self, node_id: int, method: PowerLossMethod, *, at_the_cut: bool, look: Callable[[], str | None]
    ) -> PowerLoss:
        """Lose all that a dead node did not fsync, on all its disks at once.

        `at_the_cut`: the unsynced file is written right before. `look` returns what changed in the write-back hold.
        """
        data_dirs = self.data_dirs(node_id)
        before = LogCopies(data_dirs, self._folder / "before" / self._nodes[node_id].name)
        unsynced_there = volume_down = unsynced_gone = True
        change = None
        try:
            if method == "fs-shutdown":
                volumes = self._volumes[node_id]
                if at_the_cut:
                    for volume in volumes:
                        volume.write_unsynced(at_the_cut=True)
                unsynced_there = all(volume.has_unsynced(at_the_cut=at_the_cut) for volume in volumes)
                change, cut_ns = look(), run_clock.now_ns()
                down = [volume.shut_down() for volume in volumes]
                volume_down = all(down)
                for volume in volumes:
                    volume.unmount()
                log_gone = Span.since(cut_ns)
                for volume in volumes:
                    volume.mount()
                unsynced_gone = not any(volume.has_unsynced(at_the_cut=at_the_cut) for volume in volumes)
            else:
                cut_ns = run_clock.now_ns()
                for data in data_dirs:
                    cut_to_recovery_points(data)
                log_gone = Span.since(cut_ns)
            logs = before.compare()
        finally:
            before.release()
        return PowerLoss(
            method=method,
            volume_down=volume_down,
            unsynced_there=unsynced_there,
            unsynced_gone=unsynced_gone,
            write_back_change=change,
            lost_bytes=sum(log.lost_bytes for log in logs.values()),
            logs=logs,
            log_gone=log_gone,
        )

    def replace(self, node_id: int, directory: int | None, format_disks: Callable[[], None]) -> DiskReplacement:
        """Replace all disks of a dead node, or that of one directory.

        `format_disks` lets Kafka format what is empty.
        """
        if directory is not None:
            self.check_directory(node_id, directory)
        chosen = [at for at in range(len(self._names(node_id))) if directory in (None, at + 1)]
        data_dirs = [self.data_dirs(node_id)[at] for at in chosen]
        cluster_id_before = cluster_id_in(data_dirs[0])
        logs = losses_of_whole_disks(data_dirs)
        replaced_ns = run_clock.now_ns()
        for at, data in zip(chosen, data_dirs, strict=True):
            if node_id in self._volumes:
                self._volumes[node_id][at].replace()
            else:
                shutil.rmtree(data)
            data.mkdir()
        log_gone = Span.since(replaced_ns)
        format_disks()
        for at in chosen if node_id in self._volumes else ():
            self._volumes[node_id][at].sync()
        return DiskReplacement(
            lost_bytes=sum(log.lost_bytes for log in logs.values()),
            logs=logs,
            left=tuple(name for name in map(str, partition_folders(*data_dirs)) if name != METADATA_FOLDER),
            cluster_id_before=cluster_id_before,
            cluster_id=cluster_id_in(data_dirs[0]),
            log_gone=log_gone,
        )

    def _names(self, node_id: int) -> tuple[str, ...]:
        """Return the name of each volume; the volume of the first directory has the name of the node."""
        node = self._nodes[node_id]
        more = range(2, self._spec.log_dirs_of(node.role) + 1)
        return (node.name, *(f"{node.name}-dir-{directory}" for directory in more))
