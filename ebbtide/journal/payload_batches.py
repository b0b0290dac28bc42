"""Makes and reads the payloads of many records of one producer at once, with NumPy.

The bytes are those of `ebbtide.journal.payload`. The CRC-32 of payloads of one length is affine: each byte of the
numbers contributes a fixed word, whatever the other bytes are. A table has these words, and a payload's CRC is the
exclusive or of 16 of them and of that of zeros.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ebbtide.journal.payload import payload_start

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
