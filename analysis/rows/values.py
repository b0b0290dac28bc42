"""Finds values that stand twice or never should have been read, and blocks whose sources differ.

A block of values is *suspect* if a value stands twice in acks or final read, or was read and never should have been.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from analysis.record.groups import Bools, Groups, Ints, bit_count
from analysis.rows.buckets import Sums
from analysis.rows.clients import ABORTED, ACKED, FAILED, FINAL, HIDDEN, READ, READ_COMMITTED
from analysis.rows.question import KindAnswer, KindQuestion, RunSums
from analysis.rows.replicas import Replicas


class ValueMasks(NamedTuple):
    """The blocks of values of a bucket, and a mask of each kind of rows."""

    block: Ints
    masks: Mapping[int, Ints]
    twice: Bools

    @property
    def suspect(self) -> Ints:
        """The blocks that are suspect."""
        masks = self.masks
        forbidden = (masks[FAILED] & masks[READ]) | (masks[HIDDEN] & masks[READ_COMMITTED])
        suspect: Ints = self.block[self.twice | (forbidden != 0)]
        return suspect


def value_masks(sums: Sums) -> ValueMasks:
    """Return the masks of a bucket of sums of values."""
    block, kind = np.ascontiguousarray(sums["block"]), sums["kind"]
    groups = Groups([block], is_sorted=True)
    mask, rows = np.ascontiguousarray(sums["mask"]), np.ascontiguousarray(sums["rows"])
    kinds = (ACKED, FAILED, HIDDEN, ABORTED, FINAL, READ, READ_COMMITTED)
    masks = {one: groups.over(np.bitwise_or, np.where(kind == one, mask, 0)) for one in kinds}
    twice = groups.counted(((kind == ACKED) | (kind == FINAL)) & (rows > bit_count(mask))) > 0
    return ValueMasks(groups.first(block), masks, twice)


class Values(KindQuestion):
    """Is there a block whose sources differ, or a value that stands twice or never should have been read?

    Else no value was lost, vanished, was duplicated, was replaced or was read although it was aborted.
    """

    def answer(self, summed: RunSums) -> KindAnswer:
        """Return the blocks of offsets that differ, and the suspect blocks of values."""
        suspects = [value_masks(bucket).suspect for bucket in summed.clients.values.buckets()]
        return KindAnswer(
            offsets={place: found.differing for place, found in summed.partitions.items()}, values=suspects
        )


OF_VALUES = (Values, Replicas)
"""The questions of kinds that compare values: a last leader whose log differs may differ from what was read."""
