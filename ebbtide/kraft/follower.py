"""Follows the metadata log of a controller on disk while it is written.

The files may change between two polls. The follower handles each change:

- A batch is half written: it is not consumed, and the next poll tries again (`tail` describes it).
- A segment is rolled: reading continues in the next one.
- Old segments are deleted after a snapshot: nothing is lost, since they were read.
- The log is truncated, by a new controller's log or by a power loss: `LogTruncated`, then the new records. It is
  detected when the last consumed batch is no longer in its place. Raft's log matching property (same offset and
  epoch, same prefix) makes one batch enough.
- The log is replaced by a later snapshot: `SnapshotStarted`, then the snapshot's records.
- The folder vanishes (an unmounted volume): nothing is returned until it is back.

No file stays open between polls, so that a volume can be unmounted.

The copy of a metadata log that a follower writes into the run record.

It holds whole batches only, at the positions that they have in the controller's files. Segments that the controller
deletes after a snapshot stay: they are evidence. Where the controller truncates its log, the copy is truncated too.

Snapshots of the metadata log (KIP-630).

Their files are `<end offset, 20 digits>-<epoch, 10 digits>.checkpoint`. A snapshot is a file of ordinary batches with
offsets of its own, between a header and a footer control record. It holds the state of everything below its end
offset.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from ebbtide.kraft.messages import SnapshotHeader
from ebbtide.kraft.records import MetadataRecord, decode_batch
from ebbtide.logs.batches import HEADER_SIZE, Batch, parse_header
from ebbtide.logs.codecs import UndecodableError
from ebbtide.logs.scan import Damage, FileSource, scan, scan_file
from ebbtide.logs.segments import segment_files
from ebbtide.record.files import write_atomically


class Mirror:
    """Files of the same names in `folder`, which is made at the first write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, position: int, data: memoryview) -> None:
        """Write a batch at its position in the original."""
        self._folder.mkdir(parents=True, exist_ok=True)
        target = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            while data:
                written = os.pwrite(target, data, position)
                data, position = data[written:], position + written
        finally:
            os.close(target)

    def copy(self, path: Path) -> None:
        """Copy a finished file, once."""
        target = self._folder / path.name
        if not target.exists():
            write_atomically(target, path.read_bytes())

    def truncate(self, segment: int, position: int) -> None:
        """Cut the log off at `position` of the segment with base offset `segment`."""
        for base, path in segment_files(self._folder).items():
            if base > segment:
                path.unlink()
            elif base == segment:
                os.truncate(path, position)


class LogTruncated(msgspec.Struct, frozen=True, kw_only=True):
    """Records from `end_offset` on, returned before, are no longer in the log."""

    end_offset: int


class SnapshotStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The state is replaced by that of a snapshot, whose records follow."""

    end_offset: int
    epoch: int
    file: str


class LogGap(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets from `start` to before `end` are in no segment and no snapshot."""

    start: int
    end: int


FollowedItem = MetadataRecord | LogTruncated | SnapshotStarted | LogGap


class BatchId(msgspec.Struct, frozen=True, gc=False):
    """The place of a consumed batch, and what identifies it.

    `segment` is the base offset of its segment.
    """

    segment: int
    position: int
    size: int
    base_offset: int
    next_offset: int
    epoch: int
    crc: int

    @property
    def identity(self) -> tuple[int, int, int]:
        """The identity of the batch, the same in any log and at any position."""
        return self.base_offset, self.epoch, self.crc


class MetadataFollower:
    """Reads the folder `__cluster_metadata-0`, and mirrors what it read into `mirror`.

    It also works on a log at rest: one `poll` reads all of it. Not safe for several threads.
    """

    def __init__(self, log_dir: Path, mirror: Path | None = None) -> None:
        self.log_dir = log_dir
        self.next_offset = 0
        """The offset of the next record to return."""
        self.tail: Damage | None = None
        """The damage behind the last consumed batch at the last poll; normally None."""
        self.unreadable: str | None = None
        """Why the last poll could not read the folder; None when it could."""
        self.batches: list[BatchId] = []
        """Every batch that was consumed and is still in the log."""
        self._mirror = None if mirror is None else Mirror(mirror)
        self._seen: tuple[tuple[str, int, int], ...] = ()

    def poll(self) -> list[MetadataRecord | LogTruncated | SnapshotStarted | LogGap]:
        """Return what is new since the last poll, in log order.

        Empty when nothing is new, or the folder cannot be read.
        """
        out: list[FollowedItem] = []
        self.unreadable = None
        try:
            self._poll(out)
        except OSError as error:
            # The folder's volume is being unmounted, replaced or repaired: the next poll sees the outcome.
            self.unreadable = str(error)
        return out

    def _poll(self, out: list[FollowedItem]) -> None:
        segments = segment_files(self.log_dir)
        if not segments:
            self.unreadable = f"no segments in {self.log_dir}"
            return
        stats = [(path.name, path.stat()) for path in segments.values()]
        seen = tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
        if seen == self._seen:
            return
        self._drop_truncated(segments, out)
        self.tail = None
        while self.tail is None:
            behind = [base for base in segments if base <= self.next_offset]
            if not behind:
                self._skip_to(min(segments), out)
                continue
            at_end = self._read(behind[-1], segments[behind[-1]], out)
            ahead = [base for base in segments if base > behind[-1]]
            if not at_end or not ahead:
                break
            if self.next_offset < ahead[0]:
                self._skip_to(ahead[0], out)
        self._seen = seen

    def _skip_to(self, to: int, out: list[FollowedItem]) -> None:
        """Skip offsets that no segment has, by the oldest snapshot that covers them."""
        for snapshot in snapshot_files(self.log_dir):
            if snapshot.end_offset < to:
                continue
            try:
                records = read_snapshot(snapshot)
            except UndecodableError:
                continue
            if self._mirror is not None:
                self._mirror.copy(snapshot.path)
            out.append(SnapshotStarted(end_offset=snapshot.end_offset, epoch=snapshot.epoch, file=snapshot.path.name))
            out += records
            self.next_offset = snapshot.end_offset
            return
        out.append(LogGap(start=self.next_offset, end=to))
        self.next_offset = to

    def _read(self, base: int, path: Path, out: list[FollowedItem]) -> bool:
        """Consume the new batches of one segment.

        Returns whether its end was reached without damage.
        """
        last = self.batches[-1] if self.batches else None
        inside = last is not None and last.segment == base
        position = last.position + last.size if last is not None and inside else 0
        after = last.next_offset - 1 if last is not None and inside else base - 1
        with path.open("rb") as file:
            for item in scan(FileSource(file), position, after_offset=after):
                if isinstance(item, Damage):
                    self.tail = item
                    return False
                self._consume(base, path, item, out)
        return True

    def _consume(self, base: int, path: Path, batch: Batch, out: list[FollowedItem]) -> None:
        if batch.base_offset > self.next_offset:
            out.append(LogGap(start=self.next_offset, end=batch.base_offset))
        try:
            records = decode_batch(batch)
        except UndecodableError as error:
            records = [_undecodable(batch, str(error))]
        if self._mirror is not None:
            self._mirror.write(path.name, batch.position, batch.data)
        self.batches.append(_batch_id(base, batch))
        out += [record for record in records if record.offset >= self.next_offset]
        self.next_offset = max(self.next_offset, batch.next_offset)

    def _drop_truncated(self, segments: dict[int, Path], out: list[FollowedItem]) -> None:
        start = min(segments)
        kept = [batch for batch in self.batches if batch.base_offset >= start]
        if not kept or _is_in_log(kept[-1], segments):
            return
        cut = next(index for index, batch in enumerate(kept) if not _is_in_log(batch, segments))
        gone = kept[cut]
        out.append(LogTruncated(end_offset=gone.base_offset))
        self.batches = self.batches[: len(self.batches) - len(kept) + cut]
        self.next_offset = gone.base_offset
        if self._mirror is not None:
            self._mirror.truncate(gone.segment, gone.position)


def _undecodable(batch: Batch, why: str) -> MetadataRecord:
    return MetadataRecord(
        offset=batch.base_offset,
        epoch=batch.leader_epoch,
        timestamp_ms=batch.base_timestamp_ms,
        name=f"a batch of {batch.count} records",
        control=batch.control,
        undecoded=why,
    )


def _batch_id(segment: int, batch: Batch) -> BatchId:
    return BatchId(
        segment, batch.position, batch.size, batch.base_offset, batch.next_offset, batch.leader_epoch, batch.crc
    )


def _is_in_log(batch: BatchId, segments: dict[int, Path]) -> bool:
    path = segments.get(batch.segment)
    if path is None:
        return False
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size < batch.position + batch.size:
            return False
        head = os.pread(file.fileno(), HEADER_SIZE, batch.position)
    if len(head) < HEADER_SIZE:
        return False
    found = parse_header(memoryview(head), batch.position)
    return batch.identity == _batch_id(batch.segment, found).identity


_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot file that was written to its end.

    A snapshot that is being written has another suffix.
    """

    path: Path
    end_offset: int
    epoch: int


def snapshot_files(folder: Path) -> list[Snapshot]:
    """Return the snapshots in a metadata log's folder, oldest first."""
    found = [
        Snapshot(path=path, end_offset=int(match[1]), epoch=int(match[2]))
        for path in folder.iterdir()
        if (match := _NAME.fullmatch(path.name))
    ]
    return sorted(found, key=lambda snapshot: (snapshot.end_offset, snapshot.epoch))


def read_snapshot(snapshot: Snapshot) -> list[MetadataRecord]:
    """Return the snapshot's records, including header and footer.

    Each has the snapshot's last contained offset, epoch and log timestamp, because its offsets inside the file mean
    nothing in the log. Raises `UndecodableError` unless the file is whole, footer included.
    """
    records: list[MetadataRecord] = []
    for item in scan_file(snapshot.path):
        if isinstance(item, Damage):
            raise UndecodableError(f"{snapshot.path.name}, byte {item.position}: {item.detail}")
        records += decode_batch(item)
    if not records or records[0].name != "SnapshotHeaderRecord" or records[-1].name != "SnapshotFooterRecord":
        raise UndecodableError(f"{snapshot.path.name} has no header or no footer")
    timestamp = records[0].as_type(SnapshotHeader).last_contained_log_timestamp
    return [
        msgspec.structs.replace(record, offset=snapshot.end_offset - 1, epoch=snapshot.epoch, timestamp_ms=timestamp)
        for record in records
    ]
