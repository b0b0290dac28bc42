"""One metadata record: the frame around a message, and KRaft's control records.

Data records have a null key and the value `uvarint frame version, uvarint API key, uvarint version, message`
(KIP-631). Control records have the key `int16 version, int16 type` and as value a message whose first field repeats
its version (KIP-595, KIP-630, KIP-853).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from ebbtide.kraft.schema import Cursor, Value, messages, metadata_messages
from ebbtide.logs.batches import Batch, LogRecord
from ebbtide.logs.codecs import UndecodableError

T = TypeVar("T")

CONTROL_MESSAGES = {
    2: "LeaderChangeMessage",
    3: "SnapshotHeaderRecord",
    4: "SnapshotFooterRecord",
    5: "KRaftVersionRecord",
    6: "VotersRecord",
}
_FRAME_VERSION = 1
_CONTROL_KEY = struct.Struct(">hh")


class MetadataRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the metadata log or of a snapshot of it.

    `name` is the definition's (`PartitionChangeRecord`), `epoch` the epoch of the controller that wrote it. A record
    of a snapshot has the snapshot's last contained offset, epoch and timestamp. `undecoded` says why a record could
    not be decoded: `fields` is then empty, and `name` says what is known.
    """

    offset: int
    epoch: int
    timestamp_ms: int
    name: str
    version: int = -1
    control: bool = False
    fields: Mapping[str, Value] = {}
    undecoded: str | None = None

    def as_type(self, kind: type[T]) -> T:
        """Return the fields as a typed message of `ebbtide.kraft.messages`."""
        return msgspec.convert(self.fields, kind)


def decode_batch(batch: Batch) -> list[MetadataRecord]:
    """Return the metadata records of a batch.

    Raises `UndecodableError` when the batch cannot be split into records.
    """
    return [_decode(batch, record) for record in batch.records()]


def _decode(batch: Batch, record: LogRecord) -> MetadataRecord:
    name, version, fields, undecoded = "an unknown record", -1, {}, None
    try:
        name, version, cursor = _control_head(record) if batch.control else _data_head(record)
        fields = messages()[name].decode(cursor, version)
    except _UnknownRecordType as unknown:
        name, undecoded = unknown.args[0], "unknown type"
    except UndecodableError as error:
        undecoded = str(error)
    return MetadataRecord(
        offset=record.offset,
        epoch=batch.leader_epoch,
        timestamp_ms=record.timestamp_ms,
        name=name,
        version=version,
        control=batch.control,
        fields=fields,
        undecoded=undecoded,
    )


class _UnknownRecordType(Exception):
    """A record of a type that the bundled definitions do not have."""


def _data_head(record: LogRecord) -> tuple[str, int, Cursor]:
    cursor = Cursor(record.value or b"")
    frame = cursor.read_uvarint()
    if frame != _FRAME_VERSION:
        raise UndecodableError(f"frame version {frame}, known is {_FRAME_VERSION}")
    api_key, version = cursor.read_uvarint(), cursor.read_uvarint()
    message = metadata_messages().get(api_key)
    if message is None:
        raise _UnknownRecordType(f"metadata record {api_key}")
    return message.name, version, cursor


def _control_head(record: LogRecord) -> tuple[str, int, Cursor]:
    key, value = record.key or b"", record.value or b""
    if len(key) < _CONTROL_KEY.size or len(value) < 2:
        raise UndecodableError(f"a control record with a key of {len(key)} and a value of {len(value)} bytes")
    kind = _CONTROL_KEY.unpack_from(key)[1]
    if kind not in CONTROL_MESSAGES:
        raise _UnknownRecordType(f"control record {kind}")
    return CONTROL_MESSAGES[kind], int.from_bytes(value[:2], "big", signed=True), Cursor(value)
