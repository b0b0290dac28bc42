"""The bytes of one record: who sent it, which one it is, and a CRC that tells damage from loss.

A payload is a 40-byte head, little-endian, and filler up to the size asked for:

    magic 4 | run 8 | producer i32 | sequence i64 | value i64 | length u32 | crc u32 | filler

`run` is a hash of the run id, so that records of another run in the same topic are recognised as foreign.
The CRC-32 covers the head before it and the filler after it. `value` is unique in a run: the producer's id in
the upper bits, its running number below.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from hashlib import blake2b

MAGIC = b"EBB1"
PRODUCER_SHIFT = 40
PRODUCER_MAX = (1 << (63 - PRODUCER_SHIFT)) - 1
"""The largest producer id whose values still fit an int64."""

_HEAD = struct.Struct("<4s8siqqI")
_CRC = struct.Struct("<I")
HEAD_BYTES = _HEAD.size + _CRC.size


def run_hash(run_id: str) -> bytes:
    """Eight bytes that stand for a run id in every payload."""
    return blake2b(run_id.encode(), digest_size=8).digest()


def value_at(producer: int, number: int) -> int:
    """The value of a producer's record `number` (counted over all its partitions from 0)."""
    return producer << PRODUCER_SHIFT | number


def encoder(run_id: str, producer: int, payload_bytes: int) -> Callable[[int, int], bytes]:
    """A function `(sequence, value) -> payload` for one producer.

    Payloads are `payload_bytes` long, or `HEAD_BYTES` where that is more. The run's and producer's part is
    prepared once: the function runs for every record sent.
    """
    length = max(payload_bytes, HEAD_BYTES)
    filler = b"." * (length - HEAD_BYTES)
    run = run_hash(run_id)
    pack_head, pack_crc, crc32 = _HEAD.pack, _CRC.pack, zlib.crc32

    def encode_one(sequence: int, value: int) -> bytes:
        head = pack_head(MAGIC, run, producer, sequence, value, length)
        return head + pack_crc(crc32(filler, crc32(head))) + filler

    return encode_one


def encode(run_id: str, producer: int, sequence: int, value: int, payload_bytes: int = HEAD_BYTES) -> bytes:
    """One payload; `encoder` is the same for many."""
    return encoder(run_id, producer, payload_bytes)(sequence, value)


def value_of(run_id: str) -> Callable[[bytes | None], int | None]:
    """A function `payload -> value` for one run; None for a foreign, damaged, cut or missing payload."""
    start = MAGIC + run_hash(run_id)
    unpack_head, unpack_crc, crc32 = _HEAD.unpack_from, _CRC.unpack_from, zlib.crc32

    def value(payload: bytes | None) -> int | None:
        if payload is None or len(payload) < HEAD_BYTES:
            return None
        data = bytes(payload)
        if not data.startswith(start):
            return None
        (crc,) = unpack_crc(data, _HEAD.size)
        if crc32(data[HEAD_BYTES:], crc32(data[: _HEAD.size])) != crc:
            return None
        found = unpack_head(data)
        return int(found[4]) if found[5] == len(data) else None

    return value


def decode(payload: bytes | None, run_id: str) -> int | None:
    """The value of one payload, or None; `value_of` is the same for many."""
    return value_of(run_id)(payload)
