"""Finds which records of the metadata log a majority of the controllers has flushed.

A controller appends, flushes, and only then fetches or acknowledges more (KIP-595). So a batch counts as flushed on a
controller once a later batch was seen behind it, at a later look. A batch that a majority has flushed is committed if
no newer epoch is seen anywhere: then that majority took it from the leader of its own epoch, and every later leader
has it. A batch of an older epoch may be on a majority and still be undone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import attrgetter

import msgspec

from ebbtide.kraft.follower import BatchId

SETTLED_NS = 100_000_000
"""A batch must have been the newest for this long: a shorter look may meet the middle of one write."""


class CommittedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that a majority of the controllers had flushed at `at_ns`; with it, every batch before it."""

    base_offset: int
    next_offset: int
    epoch: int
    crc: int
    at_ns: int
    controllers: tuple[int, ...]

    @property
    def identity(self) -> tuple[int, int, int]:
        """The identity of the batch, as of a `BatchId`."""
        return self.base_offset, self.epoch, self.crc


class CommitWatch:
    """Notes each newest committed batch, from the batches that each controller's log has."""

    def __init__(self, controllers: int) -> None:
        self.committed: list[CommittedBatch] = []
        self._majority = controllers // 2 + 1
        self._newest: dict[int, tuple[BatchId, int]] = {}
        self._flushed: dict[int, BatchId] = {}
        self._epoch = -1

    def observe(self, logs: Mapping[int, Sequence[BatchId]], now_ns: int) -> None:
        """Look at the logs of all controllers, as they are now."""
        for controller, log in logs.items():
            self._look_at(controller, log, now_ns)
        flushed = sorted(self._flushed.values(), key=attrgetter("base_offset"), reverse=True)
        if len(flushed) < self._majority:
            return
        batch = flushed[self._majority - 1]
        last = self.committed[-1] if self.committed else None
        if batch.epoch != self._epoch or (last is not None and batch.base_offset <= last.base_offset):
            return
        having = tuple(one for one in sorted(self._flushed) if self._has_flushed(one, logs[one], batch))
        if len(having) >= self._majority:
            self.committed.append(
                CommittedBatch(
                    base_offset=batch.base_offset,
                    next_offset=batch.next_offset,
                    epoch=batch.epoch,
                    crc=batch.crc,
                    at_ns=now_ns,
                    controllers=having,
                )
            )

    def _look_at(self, controller: int, log: Sequence[BatchId], now_ns: int) -> None:
        if not log:
            return
        self._epoch = max(self._epoch, log[-1].epoch)
        flushed = self._flushed.get(controller)
        if flushed is not None and not has_batch(log, flushed):
            del self._flushed[controller]
        newest, since_ns = self._newest.get(controller, (None, 0))
        if newest is not None and newest.identity == log[-1].identity:
            return
        if newest is not None and now_ns - since_ns >= SETTLED_NS and has_batch(log, newest):
            self._flushed[controller] = newest
        self._newest[controller] = (log[-1], now_ns)

    def _has_flushed(self, controller: int, log: Sequence[BatchId], batch: BatchId) -> bool:
        return self._flushed[controller].base_offset >= batch.base_offset and has_batch(log, batch)


def has_batch(log: Sequence[BatchId], batch: BatchId | CommittedBatch) -> bool:
    """Whether a log, in the order of its offsets, has this very batch."""
    at = bisect_left(log, batch.base_offset, key=attrgetter("base_offset"))
    return at < len(log) and log[at].identity == batch.identity
