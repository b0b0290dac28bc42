"""Cuts the bytes of a connection into frames, and says which of them the relay records.

Only the heads of frames are read, and of what consumers get the headers of batches. A frame of another API is counted.
"""

from __future__ import annotations

from collections import Counter

from cluster.relay.fetched import HeadsOfFetch
from cluster.wire.frames import LENGTH_BYTES, RESPONSE_HEAD, Head, NotKafka, Requests, Responses

PRODUCE, FETCH, METADATA, OFFSET_COMMIT = 0, 1, 3, 8
INIT_PRODUCER_ID, END_TXN, TXN_OFFSET_COMMIT = 22, 26, 28
RECORDED = frozenset({PRODUCE, FETCH, METADATA, OFFSET_COMMIT, INIT_PRODUCER_ID, END_TXN, TXN_OFFSET_COMMIT})
"""The API keys whose frames are recorded. Metadata has the names of topics by their ids."""


class Cutter:
    """One direction of a connection.

    `unrecorded` counts the frames of other APIs. `is_read` is false from where the bytes are not Kafka's protocol.
    """

    def __init__(self, frames: Requests | Responses) -> None:
        self._frames = frames
        self._head = bytearray()
        self._body_left = 0
        self._records = False
        self._fetched: tuple[Head, HeadsOfFetch] | None = None
        self.unrecorded: Counter[int] = Counter()
        self.is_read = True

    def cut(self, data: memoryview) -> list[bytes | memoryview]:
        """Return the pieces of recorded frames in the bytes that come next; an answer to Fetch is one short piece."""
        found: list[bytes | memoryview] = []
        at = 0
        while at < len(data) and self.is_read:
            if self._body_left:
                end = min(len(data), at + self._body_left)
                if self._fetched is not None:
                    self._fetched[1].feed(data[at:end])
                elif self._records:
                    found.append(data[at:end])
                self._body_left -= end - at
                at = end
                self._end_fetched(found)
                continue
            end = at + self._frames.head_bytes - len(self._head)
            self._head += data[at:end]
            at = min(end, len(data))
            if len(self._head) == self._frames.head_bytes:
                self._begin(bytes(self._head), found)
                self._head.clear()
        return found

    def _begin(self, head: bytes, found: list[bytes | memoryview]) -> None:
        try:
            frame = self._frames.read(head, 0)
        except NotKafka:
            self.is_read = False
            return
        self._body_left = frame.size_bytes - len(head)
        self._records = frame.api in RECORDED
        if isinstance(self._frames, Requests):
            self._frames.waiting.append(frame)
        elif frame.api == FETCH:
            self._fetched = frame, HeadsOfFetch(frame.version, is_whole=True)
            self._end_fetched(found)
            return
        if self._records:
            found.append(head)
        else:
            self.unrecorded[frame.api] += 1

    def _end_fetched(self, found: list[bytes | memoryview]) -> None:
        if self._fetched is not None and not self._body_left:
            frame, heads = self._fetched
            self._fetched = None
            left = bytes(heads.kept) if heads.fetched is not None else b""
            found.append(RESPONSE_HEAD.pack(RESPONSE_HEAD.size - LENGTH_BYTES + len(left), frame.correlation) + left)
