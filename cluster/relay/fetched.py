"""Reads answers to Fetch without the records in them: of each batch only the header.

The relay drops the rest while the bytes pass, so that what consumers get takes no room in the spool. The decoder reads
what is left by the same walk. Layout: Kafka's FetchResponse.json, from version 4 on; Kafka 4 knows no older one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple
from uuid import UUID

from cluster.wire.frames import RESPONSE_HEAD
from ebbtide.logs.batches import HEADER_SIZE, LENGTH_END, MAGIC

VERSION_MIN, VERSION_MAX = 4, 18
_SESSIONS, _LOG_START, _PREFERRED_REPLICA, _FLEXIBLE, _TOPIC_IDS = 7, 5, 11, 12, 13
_MAGIC_AT = 16


class FetchedPartition(NamedTuple):
    """What an answer has of one partition, `heads`: the header of each whole batch.

    The topic has a `name`, or an id instead.
    """

    name: str | None
    topic_id: UUID | None
    partition: int
    high_watermark: int
    heads: Sequence[bytes]


class Unreadable(Exception):
    """The bytes are not an answer to Fetch of a known version."""


Fetched = list[FetchedPartition]
_Walk = Generator[int, bytes, Fetched]
"""Asks for that many bytes, or passes over them if the number is negative."""


class HeadsOfFetch:
    """Reads one frame; `is_whole`: nothing was dropped from it, and otherwise it has no head either."""

    def __init__(self, version: int, *, is_whole: bool) -> None:
        self._walk = _walk(version)
        self._drops = is_whole
        self._asked = bytearray()
        self.kept = bytearray()
        self.fetched: Fetched | None = None
        """What the answer has, once it is complete; null as well where the answer is unreadable."""
        self._left = self._step(None)

    def feed(self, data: memoryview) -> None:
        """Read the bytes that come next."""
        at = 0
        while at < len(data) and self._left:
            end = min(len(data), at + abs(self._left))
            if self._left < 0:
                self._left += end - at
                if not self._left:
                    self._left = self._step(b"")
            else:
                self._asked += data[at:end]
                self._left -= end - at
                if not self._left:
                    asked = bytes(self._asked)
                    self._asked.clear()
                    self.kept += asked
                    self._left = self._step(asked)
            at = end

    def _step(self, asked: bytes | None) -> int:
        """Go on to the next bytes that are asked for, or dropped; 0: the answer is complete, or unreadable."""
        try:
            step = next(self._walk) if asked is None else self._walk.send(asked)
            while step == 0 or (step < 0 and not self._drops):
                step = self._walk.send(b"")
        except StopIteration as ended:
            self.fetched = ended.value
        except Unreadable:
            self.kept.clear()
        else:
            return step
        return 0


def read_fetch_answer(version: int, frame: bytes) -> Fetched | None:
    """Return what is left of an answer in a frame of the spool; None if the relay could not read it."""
    heads = HeadsOfFetch(version, is_whole=False)
    heads.feed(memoryview(frame)[RESPONSE_HEAD.size :])
    return heads.fetched


def _walk(version: int) -> _Walk:
    yield -RESPONSE_HEAD.size
    if not VERSION_MIN <= version <= VERSION_MAX:
        raise Unreadable
    is_flexible = version >= _FLEXIBLE
    if is_flexible:
        yield from _skip_tags()
    yield 10 if version >= _SESSIONS else 4
    found: Fetched = []
    for _ in range((yield from _length(is_flexible))):
        name, topic_id = None, None
        if version >= _TOPIC_IDS:
            topic_id = UUID(bytes=(yield 16))
        else:
            name_bytes = yield (yield from _length(is_flexible, 2))
            name = name_bytes.decode(errors="replace")
        for _ in range((yield from _length(is_flexible))):
            partition = yield from _integer(4)
            yield 2
            high_watermark = yield from _integer(8)
            yield 16 if version >= _LOG_START else 8
            for _ in range((yield from _length(is_flexible))):
                yield 16
                if is_flexible:
                    yield from _skip_tags()
            yield 4 if version >= _PREFERRED_REPLICA else 0
            heads = yield from _heads((yield from _length(is_flexible)))
            found.append(FetchedPartition(name, topic_id, partition, high_watermark, heads))
            if is_flexible:
                yield from _skip_tags()
        if is_flexible:
            yield from _skip_tags()
    if is_flexible:
        yield from _skip_tags()
    return found


def _heads(left: int) -> Generator[int, bytes, list[bytes]]:
    """Read the batches in a field of this many bytes; the last one may be cut, and is no batch then."""
    found: list[bytes] = []
    while left >= HEADER_SIZE:
        head = yield HEADER_SIZE
        size = int.from_bytes(head[8:LENGTH_END], "big") + LENGTH_END
        if head[_MAGIC_AT] != MAGIC or size < HEADER_SIZE:
            raise Unreadable
        if size > left:
            yield HEADER_SIZE - left
            return found
        found.append(head)
        yield HEADER_SIZE - size
        left -= size
    yield -left
    return found


def _length(is_flexible: bool, size: int = 4) -> Generator[int, bytes, int]:
    """Read the length of an array, a string or bytes; null counts as empty."""
    if not is_flexible:
        return max((yield from _integer(size)), 0)
    return max((yield from _unsigned_varint()) - 1, 0)


def _integer(size: int) -> Generator[int, bytes, int]:
    return int.from_bytes((yield size), "big", signed=True)


def _unsigned_varint() -> Generator[int, bytes, int]:
    value = shift = 0
    while True:
        byte = (yield 1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
        if shift > 28:
            raise Unreadable


def _skip_tags() -> Generator[int, bytes, None]:
    for _ in range((yield from _unsigned_varint())):
        yield from _unsigned_varint()
        yield (yield from _unsigned_varint())
