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
        self._waiting = frames.waiting if isinstance(frames, Requests) else None
        self._head = bytearray()
        self._body_left = 0  # of the frame that the next bytes belong to
        self._records = False
        self._fetched: tuple[Head, HeadsOfFetch] | None = None
        self.unrecorded: Counter[int] = Counter()
        self.is_read = True

    def cut(self, data: memoryview) -> list[bytes | memoryview]:
        """Return the pieces of recorded frames in the bytes that come next; an answer to Fetch is one short piece.

        Frames that follow each other are one piece: one long copy costs half of several.
        """
        found: list[bytes | memoryview] = []
        began = at = 0  # of the piece, and of what comes next
        size, head_bytes = len(data), self._frames.head_bytes
        while at < size and self.is_read:
            if not (self._body_left or self._head) and at + head_bytes <= size:
                self._begin(data, at)
            end = min(size, at + (self._body_left or head_bytes - len(self._head)))
            if self._body_left and self._records and self._fetched is None:
                self._body_left -= end - at
            else:
                if began < at:
                    found.append(data[began:at])
                (self._take if self._body_left else self._take_head)(data[at:end], found)
                began = end
            at = end
        if began < at:
            found.append(data[began:at])
        return found

    def _take_head(self, piece: memoryview, found: list[bytes | memoryview]) -> None:
        """Take a part of a head that came in several."""
        self._head += piece
        if len(self._head) == self._frames.head_bytes:
            head = memoryview(bytes(self._head))
            self._head.clear()
            self._begin(head, 0)
            if self.is_read:
                self._take(head, found)

    def _begin(self, data: memoryview, at: int) -> None:
        """Read the head of a frame; all of the frame is then still to be taken."""
        try:
            frame = self._frames.read(data, at)
        except NotKafka:
            self.is_read = False
            return
        self._body_left = frame.size_bytes
        self._records = frame.api in RECORDED
        if self._waiting is not None:
            self._waiting.append(frame)
        elif frame.api == FETCH:
            self._fetched = frame, HeadsOfFetch(frame.version, is_whole=True)
        if not self._records:
            self.unrecorded[frame.api] += 1

    def _take(self, piece: memoryview, found: list[bytes | memoryview]) -> None:
        self._body_left -= len(piece)
        if self._fetched is None:
            if self._records:
                found.append(piece)
            return
        frame, heads = self._fetched
        heads.feed(piece)
        if not self._body_left:
            self._fetched = None
            left = bytes(heads.kept) if heads.fetched is not None else b""
            found.append(RESPONSE_HEAD.pack(RESPONSE_HEAD.size - LENGTH_BYTES + len(left), frame.correlation) + left)
