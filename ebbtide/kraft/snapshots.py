"""Snapshots of the metadata log (KIP-630).

Their files are `<end offset, 20 digits>-<epoch, 10 digits>.checkpoint`. A snapshot is a file of ordinary batches with
offsets of its own, between a header and a footer control record. It holds the state of everything below its end
offset.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ebbtide.kraft.messages import SnapshotHeader
from ebbtide.kraft.records import MetadataRecord, decode_batch
from ebbtide.logs.codecs import UndecodableError
from ebbtide.logs.scan import Damage, scan_file

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
