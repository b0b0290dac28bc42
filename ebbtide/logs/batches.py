"""Kafka record batches, magic 2: the unit of every segment and snapshot.

Layout: docs "Kafka message format, record batch" and KIP-98. A batch is read at two depths. The header is 61 bytes
and always read. Records are decompressed and decoded only when `Batch.records` is called.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b

import msgspec
from crc32c import crc32c

from ebbtide.logs.codecs import UndecodableError, decompress

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
LENGTH_END = 12
"""The length field counts the bytes that follow it; base offset and length itself are 12 bytes."""
MAGIC = 2
CRC_START = 21
"""The checksum covers everything from the attributes on: neither base offset nor leader epoch."""

_CODEC_BITS = 0x07
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_SEQUENCES = 1 << 31
_COMMITS = {0: False, 1: True}
"""The types of a control record of a transaction: ABORT and COMMIT."""


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """One record.

    `sequence` is -1 where the producer was not idempotent; headers keep their order.
    """

    offset: int
    timestamp_ms: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Batch(msgspec.Struct, frozen=True, gc=False):
    """One batch header and, not yet decoded, its bytes.

    `position` is the batch's place in its file and `size` its bytes there, header included. `count` is the number of
    records, which compaction may have made smaller than the offset range. `data` refers to the block that was read
    from disk: keep the needed values of a batch, not the batch.
    """

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    data: memoryview

    @property
    def next_offset(self) -> int:
        """The offset after the batch's last."""
        return self.last_offset + 1

    @property
    def codec(self) -> int:
        """The compression codec; see `codecs.Codec`."""
        return self.attributes & _CODEC_BITS

    @property
    def control(self) -> bool:
        """Whether the batch holds control records: transaction markers, or KRaft's own."""
        return bool(self.attributes & _CONTROL)

    @property
    def transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def log_append_time(self) -> bool:
        """Whether the broker set the timestamps; each record then has the max timestamp."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    def crc_matches(self) -> bool:
        """Whether the bytes are those that were written (CRC-32C)."""
        return crc32c(self.data[CRC_START:]) == self.crc

    def records(self) -> Iterator[LogRecord]:
        """Decode the records.

        Raises `UndecodableError` where the bytes do not hold what their lengths promise.
        """
        payload = bytes(decompress(self.codec, self.data[HEADER_SIZE:]))
        position = 0
        try:
            for index in range(self.count):
                record, position = _read_record(payload, position, self, index)
                yield record
        except (IndexError, UnicodeDecodeError):
            raise UndecodableError(f"record {index} of {self.count} ends early or is not a record") from None
        if position != len(payload):
            raise UndecodableError(f"{len(payload) - position} bytes left over after {self.count} records")


def ends_with_commit(batch: Batch) -> bool | None:
    """Whether a marker of a transaction says COMMIT; None: it is damaged, or no marker of a transaction."""
    try:
        keys = [one.key or b"" for one in batch.records()] if batch.crc_matches() else []
    except UndecodableError:
        return None
    # A control record's key is its version and its type, of two bytes each.
    return _COMMITS.get(int.from_bytes(keys[0][2:], "big")) if [len(key) for key in keys] == [4] else None


def record_digests(batch: Batch, key: bytes) -> Iterator[tuple[int, int]]:
    """Yield the offset of each record, and a keyed digest of its key, value and headers, as they are in the batch.

    Raises `UndecodableError` as `Batch.records` does.
    """
    payload = bytes(decompress(batch.codec, batch.data[HEADER_SIZE:]))
    position = 0
    try:
        for index in range(batch.count):
            size, position = read_varint(payload, position)
            end = position + size
            if size <= 0 or end > len(payload):
                raise UndecodableError(f"record {index} of {batch.count} claims {size} bytes")
            _, position = read_varint(payload, position + 1)
            delta, position = read_varint(payload, position)
            digest = blake2b(payload[position:end], digest_size=8, key=key).digest()
            yield batch.base_offset + delta, int.from_bytes(digest, "big", signed=True)
            position = end
    except IndexError:
        raise UndecodableError(f"record {index} of {batch.count} ends early") from None


def parse_header(data: memoryview, position: int) -> Batch:
    """Return the batch that starts at `data[0]`.

    `data` must hold the whole batch and nothing more.
    """
    (
        base_offset,
        _,
        leader_epoch,
        _,
        crc,
        attributes,
        last_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = HEADER.unpack_from(data)
    return Batch(
        position,
        len(data),
        base_offset,
        base_offset + last_delta,
        leader_epoch,
        crc,
        attributes,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
        data,
    )


def whole_batches(data: bytes) -> list[Batch]:
    """Return the whole batches at the start of some bytes, such as an answer to Fetch."""
    view, position, found = memoryview(data), 0, []
    while len(data) - position >= HEADER_SIZE:
        size = int.from_bytes(view[position + 8 : position + LENGTH_END], "big") + LENGTH_END
        if position + size > len(data):
            break
        found.append(parse_header(view[position : position + size], position))
        position += size
    return found


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a zigzag varint (or varlong) and the position behind it.

    Raises IndexError when it ends early.
    """
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise UndecodableError("a varint of more than ten bytes")


def _read_sized(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        if size != -1:
            raise UndecodableError(f"a field of {size} bytes")
        return None, position
    return data[position : position + size], position + size


def _read_record(data: bytes, position: int, batch: Batch, index: int) -> tuple[LogRecord, int]:
    size, position = read_varint(data, position)
    end = position + size
    if size <= 0 or end > len(data):
        raise UndecodableError(f"record {index} of {batch.count} claims {size} bytes, {len(data) - position} left")
    timestamp_delta, position = read_varint(data, position + 1)
    offset_delta, position = read_varint(data, position)
    key, position = _read_sized(data, position)
    value, position = _read_sized(data, position)
    header_count, position = read_varint(data, position)
    headers = []
    for _ in range(header_count):
        name, position = _read_sized(data, position)
        content, position = _read_sized(data, position)
        headers.append(((name or b"").decode(), content))
    if position != end:
        raise UndecodableError(f"record {index} of {batch.count} does not fill its {size} bytes")
    timestamp = batch.max_timestamp_ms if batch.log_append_time else batch.base_timestamp_ms + timestamp_delta
    # Sequences wrap to 0 after 2^31 - 1; compaction leaves holes, so they follow the offset, not the index.
    sequence = -1 if batch.base_sequence < 0 else (batch.base_sequence + offset_delta) % _SEQUENCES
    return LogRecord(batch.base_offset + offset_delta, timestamp, sequence, key, value, tuple(headers)), end
