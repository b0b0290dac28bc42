"""Asks whether an input of a copier may have been copied twice, or skipped."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.reconcile.final_log_rows import SESSIONS
from analysis.record.groups import BITS, Bools, Ints, bit_of, parts_of
from analysis.rows.clients import ABORTED, FINAL, HIDDEN
from analysis.rows.compare import PartitionBlocks
from analysis.rows.question import KindAnswer, KindQuestion, Place, RunSums
from analysis.rows.values import ValueMasks, value_masks


class _Copies:
    """Whether each copy may be, or is, visible (the rules say when), by masks of values."""

    def __init__(self, copies: pa.Table) -> None:
        self._copies = copies
        self.values: Ints = copies["value"].to_numpy().astype(np.int64)
        self._aborted = np.zeros(len(copies), np.bool_)
        self._is_visible = np.zeros(len(copies), np.bool_)

    def look_up(self, found: ValueMasks) -> None:
        """Take what a bucket of values says of the copies."""
        if not len(found.block):
            return
        block, bits = self.values >> BITS, bit_of(self.values)
        at = np.minimum(np.searchsorted(found.block, block), len(found.block) - 1)
        here = found.block[at] == block

        def has(kind: int) -> Bools:
            of: Bools = here & ((found.masks[kind][at] & bits) != 0)
            return of

        self._aborted |= has(ABORTED)
        self._is_visible |= has(FINAL) & ~has(HIDDEN)

    @property
    def partitions(self) -> set[Place]:
        """The partitions of the inputs."""
        found = self._copies.group_by(["topic", "partition"]).aggregate([])
        return {(row["topic"], row["partition"]) for row in found.to_pylist()}

    def may_be_twice(self) -> bool:
        """Return whether an input may have two visible copies."""
        some = self._copies.filter(pa.array(~self._aborted))
        by = some.group_by(["group", "topic", "partition", "offset"]).aggregate([("value", "count_distinct")])
        return bool(pc.any(pc.greater(by["value_count_distinct"], 1)).as_py())

    def maybe_skipped(self, commits: pa.Table, finals: Mapping[Place, PartitionBlocks]) -> dict[Place, Ints]:
        """Return the blocks of inputs that may have no visible copy below their group's committed offset."""
        found: dict[Place, Ints] = {}
        served = commits.filter(pc.and_(pc.equal(commits["status"], "served"), pc.is_valid(commits["offset"])))
        for row in served.group_by(["group", "topic", "partition"]).aggregate([("offset", "max")]).to_pylist():
            place = row["topic"], row["partition"]
            of = self._of(row["group"], *place)
            if place not in finals or not of.any():
                continue
            blocks = finals[place].kept
            committed = row["offset_max"]
            lower = np.where(blocks.block < committed >> BITS, -1, 0)
            lower[blocks.block == committed >> BITS] = int(bit_of(np.array([committed], np.int64))[0]) - 1
            left = blocks.final & lower & ~self._copied(of, blocks.block)
            found[place] = np.union1d(found.get(place, np.zeros(0, np.int64)), blocks.block[left != 0])
        return {place: blocks for place, blocks in found.items() if len(blocks)}

    def _of(self, group: str, topic: str, partition: int) -> Bools:
        """Return which copies are of one group and one partition of its inputs."""
        wanted = {"group": group, "topic": topic, "partition": partition}
        same = [pc.equal(self._copies[name], value) for name, value in wanted.items()]
        of: Bools = np.asarray(pc.and_(pc.and_(same[0], same[1]), same[2]).to_numpy())
        return of

    def _copied(self, of: Bools, blocks: Ints) -> Ints:
        """Return the masks of the inputs that have a visible copy, for each of the blocks."""
        offset = self._copies["offset"].to_numpy()[of & self._is_visible].astype(np.int64)
        copied = np.zeros(len(blocks), np.int64)
        order = np.argsort(blocks)
        for (number,), here in parts_of([offset >> BITS]):
            at = int(np.searchsorted(blocks, number, sorter=order))
            if at < len(blocks) and blocks[order[at]] == number:
                copied[order[at]] = np.bitwise_or.reduce(bit_of(offset[here]))
        return copied


class CopiesAsked(KindQuestion):
    """Is there an input of a copier that may have two committed copies, or none below its group's offset?"""

    whole_tables = ("commits", "copies")
    row_types = (SESSIONS,)
    _inputs: frozenset[Place] | None = None

    def needs_all_blocks(self, summed: RunSums, place: Place) -> bool:
        """Whether the partition has inputs."""
        if self._inputs is None:
            self._inputs = frozenset(_Copies(summed.copies).partitions if summed.copies is not None else ())
        return place in self._inputs

    def answer(self, summed: RunSums) -> KindAnswer:
        """Return the blocks of inputs that may be skipped, and those of the copies."""
        if summed.copies is None:
            return KindAnswer()
        copies = _Copies(summed.copies)
        for bucket in summed.clients.values.buckets():
            copies.look_up(value_masks(bucket))
        skipped = copies.maybe_skipped(summed.commits, summed.partitions) if summed.commits is not None else {}
        if not skipped and not copies.may_be_twice():
            return KindAnswer()
        # The rules take a copy whose rows they do not see for one that nobody made.
        return KindAnswer(is_possible=True, offsets=skipped, values=(np.unique(copies.values >> BITS),))
