"""Frames of an AlterPartition and its answer, byte by byte."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode

from cluster.wire.messages import ALTER_PARTITION

TOPIC = "APt247RlTCqY94-zkd20JQ"
_ID = urlsafe_b64decode(TOPIC + "==")
_TAG = b"\x01\x07\x02ab"
"""A tagged field that nobody knows."""


def framed(head: bytes, body: bytes) -> bytes:
    """A frame with its length."""
    return struct.pack(">i", len(head + body)) + head + body


def request(version: int = 3, client: bytes | None = b"1") -> bytes:
    """A request of broker 1 for the ISR 1, 2 of partition 7, as Kafka 3.3 to 4.4 writes it."""
    named = struct.pack(">h", -1) if client is None else struct.pack(">h", len(client)) + client
    head = struct.pack(">hhi", ALTER_PARTITION, version, 5) + named + _TAG
    isr = b"\x03" + b"".join(
        struct.pack(">i", one) + (struct.pack(">q", 40 + one) + b"\0" if version > 2 else b"") for one in (1, 2)
    )
    one = struct.pack(">ii", 7, 3) + isr + b"\0" + struct.pack(">i", 11) + b"\0"
    topic = b"\x02" + _ID + b"\x02" + one + b"\0"
    return framed(head, struct.pack(">iq", 1, 41) + topic + b"\0")


def answer(error: int = 0) -> bytes:
    """The answer for partition 7: its epoch is 12 now."""
    one = struct.pack(">ihii", 7, error, 1, 3) + b"\x02" + struct.pack(">i", 1) + b"\0" + struct.pack(">i", 12) + b"\0"
    topic = b"\x02" + _ID + b"\x02" + one + b"\0"
    return framed(struct.pack(">i", 5) + _TAG, struct.pack(">ih", 0, 0) + topic + b"\0")
