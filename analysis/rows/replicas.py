"""Finds blocks in which the replicas' committed rows differ."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import numpy as np

from analysis.record.groups import BITS, Groups, Ints, hashed
from analysis.record.scans import Rows, feed_table
from analysis.rows.buckets import BLOCK_SUM, SumStore
from analysis.rows.facts import Facts
from analysis.rows.question import KindAnswer, KindQuestion, Place, RunSums

_COLUMNS = ("broker", "topic", "partition", "offset", "leader_epoch", "value")


class ReplicaSums:
    """The rows of each replica below its last checkpointed HW, by blocks of offsets.

    A block in which checkpoints lie has a sum for each stretch between two of them. So replicas with other checkpoints
    are compared below the lower one.
    """

    def __init__(self, facts: Facts, folder: Callable[[], Path], seed: int) -> None:
        self._checkpoints = {(one.topic, one.partition, one.broker): one.high_watermark for one in facts.checkpoints}
        self._ends: dict[Place, Ints] = {}
        for (topic, partition, _), end in self._checkpoints.items():
            ends = self._ends.get((topic, partition), np.zeros(0, np.int64))
            self._ends[topic, partition] = np.union1d(ends, np.array([end], np.int64))
        self._sums = SumStore(BLOCK_SUM, folder)
        self._seed = seed

    def add(self, rows: Rows) -> None:
        """Sum up a batch of replicas."""
        offset = rows.numbers("offset")
        unknown = ~rows.known("value")
        hashes = hashed(self._seed, offset, rows.numbers("leader_epoch"), rows.numbers("value"), unknown=unknown)
        for (topic, partition, broker), here in rows.parts("partition", "broker"):
            below = here[offset[here] < self._checkpoints.get((topic, partition, broker), -1)]
            if len(below):
                self._add(topic, partition, broker, offset[below], hashes[below])

    def _add(self, topic: str, partition: int, broker: int, offset: Ints, hashes: Ints) -> None:
        # The stretch of a block is its number among the replicas' checkpoints, of which there are fewer than offsets.
        stretch = np.searchsorted(self._ends[topic, partition], offset, "right")
        block = (offset >> BITS << BITS) + stretch % 2**BITS
        groups = Groups([block])
        self._sums.add(
            (topic, partition),
            block=groups.first(block),
            source=np.full_like(groups.starts, broker),
            rows=groups.rows,
            xor=groups.over(np.bitwise_xor, hashes),
            sum=groups.over(np.add, hashes),
        )

    def differing(self) -> dict[Place, Ints]:
        """Return the blocks that are not the same in all replicas that have rows of them, by partition."""
        found = {}
        for topic, partition in self._sums.places():
            parts = []
            for sums in self._sums.buckets(topic, partition):
                block = np.ascontiguousarray(sums["block"])
                groups = Groups([block], is_sorted=True)
                number = np.repeat(np.arange(len(groups.starts)), groups.rows)
                summary = np.stack([np.ascontiguousarray(sums[name]) for name in ("rows", "xor", "sum")], 1)
                other = (summary != summary[groups.starts][number]).any(1)
                parts.append(groups.first(block)[groups.counted(other) > 0] >> BITS)
            found[str(topic), int(str(partition))] = np.unique(np.concatenate(parts))
        return {place: blocks for place, blocks in found.items() if len(blocks)}


class Replicas(KindQuestion):
    """Is there a block in which the replicas' committed rows differ? Else no record of theirs does."""

    def answer(self, summed: RunSums) -> KindAnswer:
        """Return the blocks that differ."""
        if not summed.facts.checkpoints:
            return KindAnswer()
        replicas = ReplicaSums(summed.facts, self.folder, secrets.randbits(63))
        feed_table(self.run, "replicas", self.run.scans(), (_COLUMNS, replicas.add))
        return KindAnswer(offsets=replicas.differing())
