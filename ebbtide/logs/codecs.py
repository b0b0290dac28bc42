"""Decompresses record batches: the five codecs of Kafka's batch attributes.

A batch's records are compressed as one blob. Snappy comes in xerial framing (written by Java clients and brokers) or
as one raw block (some other clients); Kafka reads both, and so does this module.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import cramjam

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16
_BUFFER_BYTES, _EXPANSION = 64 << 10, 16

BATCH_BYTES_MAX = 64 << 20
"""Uncompressed; a producer of a run fills batches of some kilobytes, and a broker takes those of one megabyte."""


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

    It is `data` itself when the codec is none. Raises `UndecodableError` for an unknown codec, for damaged input, and
    for more than `BATCH_BYTES_MAX` bytes.
    """
    try:
        match codec:
            case Codec.NONE:
                return data
            case Codec.GZIP:
                return _decompress_bounded(cramjam.gzip.decompress_into, data)
            case Codec.SNAPPY:
                return _snappy(data)
            case Codec.LZ4:
                return _decompress_bounded(cramjam.lz4.decompress_into, data)
            case Codec.ZSTD:
                return _decompress_bounded(cramjam.zstd.decompress_into, data)
    except cramjam.DecompressionError as error:
        raise UndecodableError(f"{Codec(codec).name.lower()}: {error}") from None
    raise UndecodableError(f"unknown compression codec {codec}")


def _decompress_bounded(decompress_into: Callable[[memoryview, bytearray], int], data: memoryview) -> bytes:
    """Decompress into a buffer that grows up to `BATCH_BYTES_MAX`: some kilobytes can stand for terabytes."""
    size = min(max(_BUFFER_BYTES, _EXPANSION * len(data)), BATCH_BYTES_MAX)
    while True:
        buffer = bytearray(size)
        try:
            return bytes(memoryview(buffer)[: decompress_into(data, buffer)])
        except cramjam.DecompressionError:
            # cramjam has one error for damage and for a buffer that is too small.
            if size == BATCH_BYTES_MAX:
                raise
        size = min(size * _EXPANSION, BATCH_BYTES_MAX)


def _snappy(data: memoryview) -> bytes:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _snappy_block(data, BATCH_BYTES_MAX)
    blocks: list[bytes] = []
    left = BATCH_BYTES_MAX
    position = _XERIAL_HEADER_SIZE
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        block = data[position + 4 : position + 4 + size]
        if len(block) < size or not size:
            raise UndecodableError(f"snappy: a block of {size} bytes, {len(block)} left")
        blocks.append(_snappy_block(block, left))
        left -= len(blocks[-1])
        position += 4 + size
    return b"".join(blocks)


def _snappy_block(block: memoryview, bytes_max: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)
    if size > bytes_max:
        raise UndecodableError(f"snappy: a block of {size:,} bytes uncompressed, {bytes_max:,} are allowed")
    return bytes(cramjam.snappy.decompress_raw(block))
