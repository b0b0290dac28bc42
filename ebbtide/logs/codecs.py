"""Decompresses record batches: the five codecs of Kafka's batch attributes.

A batch's records are compressed as one blob. Snappy comes in xerial framing (written by Java clients and brokers) or
as one raw block (some other clients); Kafka reads both, and so does this module.
"""

from __future__ import annotations

from enum import IntEnum

import cramjam

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16


class Codec(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class UndecodableError(ValueError):
    """Bytes that do not hold what their header or schema promises."""


def decompress(codec: int, data: memoryview) -> bytes | memoryview:
    """Return the records section of a batch, uncompressed.

    It is `data` itself when the codec is none. Raises `UndecodableError` for an unknown codec and for damaged input.
    """
    try:
        match codec:
            case Codec.NONE:
                return data
            case Codec.GZIP:
                return bytes(cramjam.gzip.decompress(data))
            case Codec.SNAPPY:
                return _snappy(data)
            case Codec.LZ4:
                return bytes(cramjam.lz4.decompress(data))
            case Codec.ZSTD:
                return bytes(cramjam.zstd.decompress(data))
    except cramjam.DecompressionError as error:
        raise UndecodableError(f"{Codec(codec).name.lower()}: {error}") from None
    raise UndecodableError(f"unknown compression codec {codec}")


def _snappy(data: memoryview) -> bytes:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return bytes(cramjam.snappy.decompress_raw(data))
    blocks = []
    position = _XERIAL_HEADER_SIZE
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        block = data[position + 4 : position + 4 + size]
        if len(block) < size or not size:
            raise UndecodableError(f"snappy: a block of {size} bytes, {len(block)} left")
        blocks.append(bytes(cramjam.snappy.decompress_raw(block)))
        position += 4 + size
    return b"".join(blocks)
