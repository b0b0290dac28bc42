"""Builds record batches and metadata records by hand, for tests of the decoders.

Written from the format's description, apart from the decoders, so that one checks the other.
"""

from __future__ import annotations

import gzip
import struct
from base64 import urlsafe_b64decode
from pathlib import Path

import cramjam
from crc32c import crc32c

Headers = tuple[tuple[str, bytes | None], ...]
Content = tuple[bytes | None, bytes | None, Headers]

BEGIN, END, ABORT = 23, 24, 25
TOPIC, PARTITION, CONFIG, PARTITION_CHANGE, REMOVE_TOPIC, FEATURE = 2, 3, 4, 5, 9, 12
REGISTER, UNREGISTER, FENCE, UNFENCE, REGISTRATION_CHANGE, CLEAR_ELR, NO_OP = 0, 1, 7, 8, 17, 28, 20


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def sized_bytes(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(index: int, key: bytes | None, value: bytes | None, headers: Headers = (), time_delta: int = 0) -> bytes:
    body = b"\0" + varint(time_delta) + varint(index) + sized_bytes(key) + sized_bytes(value) + varint(len(headers))
    body += b"".join(sized_bytes(name.encode()) + sized_bytes(content) for name, content in headers)
    return varint(len(body)) + body


def compress(codec: int, data: bytes) -> bytes:
    match codec:
        case 1:
            return gzip.compress(data)
        case 2:
            blocks = [data[start : start + 64] for start in range(0, len(data), 64)]
            packed = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
            framed = b"".join(struct.pack(">i", len(block)) + block for block in packed)
            return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed
        case 3:
            return bytes(cramjam.lz4.compress(data))
        case 4:
            return bytes(cramjam.zstd.compress(data))
    return data


def batch(
    base_offset: int,
    contents: list[Content],
    *,
    epoch: int = 0,
    codec: int = 0,
    flags: int = 0,
    timestamp_ms: int = 1_000,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """Return one batch whose records are a millisecond apart.

    `producer` is id, epoch and base sequence.
    """
    records = b"".join(record(index, *content, time_delta=index) for index, content in enumerate(contents))
    last = len(contents) - 1
    checked = struct.pack(">hiqq", codec | flags, last, timestamp_ms, timestamp_ms + last)
    checked += struct.pack(">qhii", *producer, len(contents)) + compress(codec, records)
    rest = struct.pack(">ibI", epoch, 2, crc32c(checked)) + checked
    return struct.pack(">qi", base_offset, len(rest)) + rest


def plain_batch(base_offset: int, *values: bytes, epoch: int = 0) -> bytes:
    return batch(base_offset, [(None, value, ()) for value in values], epoch=epoch)


def metadata_batch(base_offset: int, *messages: bytes, epoch: int = 1) -> bytes:
    return batch(base_offset, [(None, message, ()) for message in messages], epoch=epoch)


def leader_change(base_offset: int, leader: int, epoch: int = 1) -> bytes:
    value = struct.pack(">hi", 0, leader) + b"\x01\x01\0"
    return batch(base_offset, [(struct.pack(">hh", 0, 2), value, ())], epoch=epoch, flags=0x20)


def voters(base_offset: int, directories: dict[int, str], epoch: int = 1) -> bytes:
    """Return a batch with a VotersRecord; the directory ids are those of `uuid`."""
    listed = b"".join(
        struct.pack(">i", node) + uuid(directory) + uvarint(1) + struct.pack(">hh", 0, 1) + b"\0\0"
        for node, directory in directories.items()
    )
    value = struct.pack(">h", 0) + uvarint(len(directories) + 1) + listed + b"\0"
    return batch(base_offset, [(struct.pack(">hh", 0, 6), value, ())], epoch=epoch, flags=0x20)


def snapshot(*messages: bytes, timestamp_ms: int) -> bytes:
    header = struct.pack(">hq", 0, timestamp_ms) + b"\0"
    footer = struct.pack(">h", 0) + b"\0"
    return (
        batch(0, [(struct.pack(">hh", 0, 3), header, ())], flags=0x20)
        + metadata_batch(1, *messages)
        + batch(1 + len(messages), [(struct.pack(">hh", 0, 4), footer, ())], flags=0x20)
    )


def message(api_key: int, body: bytes, version: int = 0, tags: dict[int, bytes] | None = None) -> bytes:
    tagged = tags or {}
    section = b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in sorted(tagged.items()))
    return uvarint(1) + uvarint(api_key) + uvarint(version) + body + uvarint(len(tagged)) + section


def text(value: str | None) -> bytes:
    return b"\0" if value is None else uvarint(len(value.encode()) + 1) + value.encode()


def ids(*values: int) -> bytes:
    return uvarint(len(values) + 1) + struct.pack(f">{len(values)}i", *values)


def uuid(name: str) -> bytes:
    return urlsafe_b64decode(name.ljust(22, "A") + "==")


def topic(name: str, topic_id: str) -> bytes:
    return message(TOPIC, text(name) + uuid(topic_id))


def remove_topic(topic_id: str) -> bytes:
    return message(REMOVE_TOPIC, uuid(topic_id))


def partition(
    topic_id: str,
    number: int,
    replicas: tuple[int, ...],
    leader: int,
    *,
    elr: tuple[int, ...] = (),
    directories: tuple[str, ...] = (),
) -> bytes:
    body = struct.pack(">i", number) + uuid(topic_id) + ids(*replicas) + ids(*replicas) + ids() + ids()
    body += struct.pack(">iii", leader, 0, 0) + uvarint(len(directories) + 1) + b"".join(map(uuid, directories))
    return message(PARTITION, body, version=2, tags={1: ids(*elr)} if elr else None)


def change(topic_id: str, number: int, **fields: int | tuple[int, ...]) -> bytes:
    """Return a PartitionChangeRecord with these fields.

    The names are isr leader replicas removing adding recovery elr last_known.
    """
    tags = {}
    for name, value in fields.items():
        tag = ("isr", "leader", "replicas", "removing", "adding", "recovery", "elr", "last_known").index(name)
        if isinstance(value, tuple):
            tags[tag] = ids(*value)
        else:
            tags[tag] = struct.pack(">b" if name == "recovery" else ">i", value)
    return message(PARTITION_CHANGE, struct.pack(">i", number) + uuid(topic_id), version=2, tags=tags)


def clear_elr(name: str) -> bytes:
    return message(CLEAR_ELR, text(name))


def config(kind: int, resource: str, name: str, value: str | None) -> bytes:
    return message(CONFIG, struct.pack(">b", kind) + text(resource) + text(name) + text(value))


def feature(name: str, level: int) -> bytes:
    return message(FEATURE, text(name) + struct.pack(">h", level))


def register(
    broker: int,
    epoch: int,
    incarnation: str,
    *,
    fenced: bool = True,
    stopping: bool = False,
    supported: tuple[tuple[str, int], ...] = (),
) -> bytes:
    """`supported`: features with the highest level that the broker supports."""
    features = b"".join(text(name) + struct.pack(">hh", 1, level) + b"\0" for name, level in supported)
    body = struct.pack(">i?", broker, False) + uuid(incarnation) + struct.pack(">q", epoch)
    body += b"\x01" + uvarint(len(supported) + 1) + features + b"\0"
    return message(REGISTER, body + struct.pack(">??", fenced, stopping), version=2)


def unregister(broker: int, epoch: int) -> bytes:
    return message(UNREGISTER, struct.pack(">iq", broker, epoch))


def registration_change(broker: int, epoch: int, *, fenced: int = 0, stopping: int = 0) -> bytes:
    tags = {0: struct.pack(">b", fenced)} if fenced else {}
    if stopping:
        tags[1] = struct.pack(">b", stopping)
    return message(REGISTRATION_CHANGE, struct.pack(">iq", broker, epoch), version=1, tags=tags)


def legacy_fence(api_key: int, broker: int, epoch: int) -> bytes:
    return message(api_key, struct.pack(">iq", broker, epoch))


def begin() -> bytes:
    return message(BEGIN, b"", tags={0: text("a transaction")})


def end() -> bytes:
    return message(END, b"")


def abort() -> bytes:
    return message(ABORT, b"", tags={0: text("changed its mind")})


def segment_name(base: int) -> str:
    return f"{base:020}.log"


def write_log(folder: Path, *batches: bytes, base: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / segment_name(base)
    path.write_bytes(b"".join(batches))
    return path


class BytesSource:
    """A source over bytes, a memoryview or an mmap."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = memoryview(data)
        self.size = len(self._data)

    def data_from(self, position: int) -> int:
        return position

    def view(self, position: int, size: int) -> memoryview:
        """See `Source`."""
        return self._data[position : position + size]
