"""The bytes of one record: its producer, its number, and a CRC against damage.

A payload is little-endian; filler in the middle makes it as long as requested:

    magic 4 | run 8 | producer i32 | filler | sequence i64 | value i64 | crc u32

`run` is a hash of the run id, so that records of another run in the same topic are recognised as foreign. The CRC-32
covers everything before it. `value` is unique in a run: the producer's id in the upper bits, its running number
below. The fields that change from record to record are at the end, so that the CRC of the rest is computed once for
each producer.

In older records, a Java producer without transactions sent the text `3.17` as record 17 of producer 3. Kafka's own CRC
protects it.

Makes and reads the payloads of many records of one producer at once, with NumPy.

The bytes are those of `ebbtide.journal.payload`. The CRC-32 of payloads of one length is affine: each byte of the
numbers contributes a fixed word, whatever the other bytes are. A table has these words, and a payload's CRC is the
exclusive or of 16 of them and of that of zeros.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

MAGIC = b"EBB1"
PRODUCER_SHIFT = 40
PRODUCER_MAX = (1 << (63 - PRODUCER_SHIFT)) - 1
"""The largest producer id whose values fit into an int64."""

_HEAD = struct.Struct("<4s8si")
_NUMBERS = struct.Struct("<qq")
_CRC = struct.Struct("<I")
_TEXT = re.compile(rb"([1-9][0-9]{0,6})\.(0|[1-9][0-9]{0,11})")
PAYLOAD_BYTES_MIN = _HEAD.size + _NUMBERS.size + _CRC.size


def run_hash(run_id: str) -> bytes:
    """Return the eight bytes that represent a run id in every payload."""
    return blake2b(run_id.encode(), digest_size=8).digest()


def value_at(producer: int, number: int) -> int:
    """Return the value of a producer's record `number`.

    Records are counted over all its partitions, from 0.
    """
    return producer << PRODUCER_SHIFT | number


def value_in_words(value: int) -> str:
    """Return a value as people count: `record 327 of producer 1`."""
    return f"record {value & (1 << PRODUCER_SHIFT) - 1:,} of producer {value >> PRODUCER_SHIFT}"


def payload_start(run_id: str, producer: int, payload_bytes: int) -> bytes:
    """Return what every payload of a producer begins with: all before `sequence`."""
    length = max(payload_bytes, PAYLOAD_BYTES_MIN)
    return _HEAD.pack(MAGIC, run_hash(run_id), producer).ljust(length - _NUMBERS.size - _CRC.size, b".")


def encoder(run_id: str, producer: int, payload_bytes: int) -> Callable[[int, int], bytes]:
    """Return a function `(sequence, value) -> payload` for one producer.

    Payloads are `payload_bytes` long, or `PAYLOAD_BYTES_MIN` where that is more.
    """
    start = payload_start(run_id, producer, payload_bytes)
    start_crc = zlib.crc32(start)
    pack = struct.Struct(f"<{len(start)}sqqI").pack
    pack_numbers, crc32 = _NUMBERS.pack, zlib.crc32

    def encode_one(sequence: int, value: int) -> bytes:
        return pack(start, sequence, value, crc32(pack_numbers(sequence, value), start_crc))

    return encode_one


def encode(run_id: str, producer: int, sequence: int, value: int, payload_bytes: int = PAYLOAD_BYTES_MIN) -> bytes:
    """Return one payload; `encoder` is faster for many."""
    return encoder(run_id, producer, payload_bytes)(sequence, value)


def value_of(run_id: str) -> Callable[[bytes | None], int | None]:
    """Return a function `payload -> value` for one run.

    The value is None for a foreign, damaged, cut or missing payload.
    """
    start = MAGIC + run_hash(run_id)
    unpack_numbers, unpack_crc, crc32 = _NUMBERS.unpack_from, _CRC.unpack_from, zlib.crc32
    crc_size, tail_size = _CRC.size, _NUMBERS.size + _CRC.size

    def value(payload: bytes | None) -> int | None:
        if payload is None:
            return None
        if len(payload) < PAYLOAD_BYTES_MIN:
            return _value_of_text(payload)
        data = bytes(payload)
        if not data.startswith(start):
            return None
        if crc32(data[:-crc_size]) != unpack_crc(data, len(data) - crc_size)[0]:
            return None
        found: int = unpack_numbers(data, len(data) - tail_size)[1]
        return found

    return value


def _value_of_text(payload: bytes) -> int | None:
    """Return the value of a text that a Java producer of an older record sent; None for anything else."""
    text = _TEXT.fullmatch(payload)
    if text is None:
        return None
    producer, number = int(text[1]), int(text[2])
    return value_at(producer, number) if producer <= PRODUCER_MAX and number < 1 << PRODUCER_SHIFT else None


Ints = NDArray[np.int64]

_NUMBERS_BYTES = 16


class PayloadBatches:
    """The payloads of one producer."""

    def __init__(self, run_id: str, producer: int, payload_bytes: int) -> None:
        start = payload_start(run_id, producer, payload_bytes)
        self._layout = np.dtype([("start", f"V{len(start)}"), ("numbers", "<i8", 2), ("crc", "<u4")])
        self._start = np.frombuffer(start, f"V{len(start)}")
        self._crc_of_zeros = zlib.crc32(start + bytes(_NUMBERS_BYTES))
        self._crc_words = _crc_words()

    def encode(self, sequences: Ints, values: Ints) -> list[bytes]:
        """Return the payload of each sequence and its value."""
        numbers = np.column_stack((sequences, values)).astype("<i8", copy=False)
        crcs = np.full(len(numbers), self._crc_of_zeros, np.uint32)
        for words, column in zip(self._crc_words, numbers.view(np.uint8).T, strict=True):
            crcs ^= words.take(column)
        payloads = np.empty(len(numbers), self._layout)
        payloads["start"], payloads["numbers"], payloads["crc"] = self._start, numbers, crcs
        encoded: list[bytes] = payloads.view(f"V{self._layout.itemsize}").tolist()
        return encoded

    def values_of(self, payloads: Iterable[bytes]) -> Ints:
        """Return the values in payloads of this producer, which are whole."""
        found: Ints = np.frombuffer(b"".join(payloads), self._layout)["numbers"][:, 1].astype(np.int64, copy=False)
        return found


def _crc_words() -> NDArray[np.uint32]:
    """Return what each value of each byte changes in the CRC of zeros."""
    words = np.empty((_NUMBERS_BYTES, 256), np.uint32)
    of_zeros = zlib.crc32(bytes(_NUMBERS_BYTES))
    for place in range(_NUMBERS_BYTES):
        for byte in range(256):
            changed = bytes(place) + bytes([byte]) + bytes(_NUMBERS_BYTES - 1 - place)
            words[place, byte] = zlib.crc32(changed) ^ of_zeros
    return words
