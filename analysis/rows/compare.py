"""Compares the sources of a run by their sums: blocks of offsets, blocks of values, and replicas.

A block of offsets *agrees* if acks, consumers and the final read hold the same rows, an offset each, as far as each may
see them, and polls have the same leader epochs. Nothing in it is lost, vanished or replaced. Without a final read of
the block there is nothing to agree with, except below the log start. A block without acks agrees only if no log start
moved: its values may have been acked at offsets removed since.

A block of values is *suspect* if a value stands twice in acks or final read, or was read and never should have been.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from analysis.rows.batches import RowGroup, batches
from analysis.rows.buckets import BLOCK_SUM, Sums, SumStore
from analysis.rows.clients import (
    ABORTED,
    ACKED,
    ACKS,
    FAILED,
    FINAL,
    HIDDEN,
    HIDDEN_ACKS,
    READ,
    READ_COMMITTED,
    ClientSums,
    ConsumerSession,
)
from analysis.rows.facts import Facts, partition_rows
from analysis.rows.groups import BITS, Bools, Groups, Ints, bit_count, bit_of, hashed, highest_bit, parts_of
from analysis.rows.positions import GroupPosition, offsets_in

_SESSION = ("consumer", "session", "read_committed")
_NONE = -1


class PartitionEnds(NamedTuple):
    """What is known of a partition.

    The first three are as in `facts.PARTITION_FACTS`. `unmoved`: no log start of the run moved. `all_shown`: the final
    read hid what is hidden from read_committed consumers, or nothing is. `open_readers`: some ordinary consumer got
    everything. `positions`: those of groups.
    """

    final_read: bool
    log_start: int | None
    read_last: int | None
    unmoved: bool
    all_shown: bool
    open_readers: bool
    positions: Sequence[GroupPosition] = ()


def places_of(facts: Facts) -> dict[tuple[str, int], PartitionEnds]:
    """Return what is known of each partition."""
    unmoved = all(ends.log_start == 0 for ends in facts.final_offsets.values())
    all_shown = facts.final_read_committed or not facts.has_transactions
    open_readers = {(one.topic, one.partition) for one in facts.polls if not one.final and not one.read_committed}
    found = {}
    for row in partition_rows(facts):
        at = row["topic"], row["partition"]
        known = bool(row.get("final_read")), row.get("log_start"), row.get("read_last")
        # Sessions and resets are put in order by the clock.
        positions = () if facts.clock_went_back else facts.positions
        positions = [one for one in positions if (one.topic, one.partition) == at]
        found[at] = PartitionEnds(*known, unmoved, all_shown, at in open_readers, positions)
    return found


class Blocks(NamedTuple):
    """Blocks of one partition, an entry each.

    - `final`: the offsets of the final read. `shown`: those of acks that a read_committed consumer may get, right where
      `acks_final`: acks and final read are the same.
    - `returned`: the offsets that any ordinary consumer returned. `passed_over`: any of them may have passed over an
      offset of the final read.
    """

    block: Ints
    agree: Bools
    final: Ints
    shown: Ints
    acks_final: Bools
    returned: Ints
    passed_over: Bools


class PartitionBlocks:
    """The blocks of one partition, compared.

    - `differing`: those that do not agree.
    - `kept`: those that the rules on sessions look at.
    - `reached`: for each source the last offset that stands, by blocks that agree.
    - `passed`: for each position of a group, offsets of acks and final read that no member got.
    - `passed_below`: likewise, offsets of acks below the final log start.
    """

    def __init__(self, sums: ClientSums, topic: str, partition: int, place: PartitionEnds, *, keeps_all: bool) -> None:
        """With `keeps_all`, all blocks with a final read are kept, else those that may be passed over."""
        self._place = place
        self._keeps_all = keeps_all
        self._is_final, self._committed = sums.session_flags
        self.reached: dict[int, int] = {}
        none = np.zeros(0, np.int64)
        self.passed: list[Ints] = [none for _ in place.positions]
        self.passed_below: list[Ints] = [none for _ in place.positions]
        self._is_member = [
            np.array([one is not None and not one.final and one.consumer in position.members for one in sums.sources])
            for position in place.positions
        ]
        differing, kept = [], []
        for bucket in sums.blocks.buckets(topic, partition):
            blocks = self._compare(bucket)
            differing.append(blocks.block[~blocks.agree])
            keep = (blocks.final != 0) & (blocks.passed_over | self._keeps_all)
            if keep.any():
                kept.append(Blocks(*(column[keep] for column in blocks)))
        self.differing: Ints = np.concatenate(differing)
        self.kept = _joined(kept)

    def _compare(self, sums: Sums) -> Blocks:
        """Return the blocks of a bucket, whose sums are in the order of their blocks and sources."""
        source, block = sums["source"].astype(np.int64), np.ascontiguousarray(sums["block"])
        groups = Groups([block], is_sorted=True)
        number = np.repeat(np.arange(len(groups.starts)), groups.rows)
        of_acks, of_hidden = source == ACKS, source == HIDDEN_ACKS
        polled: Bools = source > HIDDEN_ACKS
        final: Bools = polled & self._is_final[source]
        committed: Bools = polled & self._committed[source]
        summary = np.stack([np.ascontiguousarray(sums[name]) for name in ("rows", "mask", "xor", "sum")], 1)
        count = len(groups.starts)

        acks = np.zeros((count, 4), np.int64)
        acks[number[of_acks]] = summary[of_acks]
        hidden = np.zeros((count, 4), np.int64)
        hidden[number[of_hidden]] = summary[of_hidden]
        # A row of acks is hidden or not; the masks say so where an offset has one row.
        shown = acks - hidden
        shown[:, 1], shown[:, 2] = acks[:, 1] & ~hidden[:, 1], acks[:, 2] ^ hidden[:, 2]
        has_acks = acks[:, 0] > 0
        once = groups.counted((bit_count(summary[:, 1]) != summary[:, 0]) & ~of_hidden) == 0
        acks_once = bit_count(acks[:, 1]) == acks[:, 0]

        open_, open_same = _shared(groups, number, summary, polled & ~committed)
        shut, shut_same = _shared(groups, number, summary, committed)
        has_open, has_shut = open_[:, 0] > 0, shut[:, 0] > 0
        alike = open_same & shut_same
        alike &= ~(has_acks & has_open) | (acks == open_).all(1)
        alike &= ~(has_acks & has_shut) | (shown == shut).all(1)

        finals = groups.counted(final)
        the_final = np.zeros((count, 4), np.int64)
        the_final[number[final]] = summary[final]
        final_mask = groups.over(np.bitwise_or, np.where(final, summary[:, 1], 0))
        returned = groups.over(np.bitwise_or, np.where(polled & ~final, summary[:, 1], 0))
        newest = groups.over(np.maximum, np.where(polled, sums["newest"], np.iinfo(np.int32).min))
        oldest = groups.over(np.minimum, np.where(polled, sums["oldest"], np.iinfo(np.int32).max))
        epochs = np.ascontiguousarray(sums["epochs"])[:, None]
        open_epochs, open_alike = _shared(groups, number, epochs, polled & ~committed)
        shut_epochs, shut_alike = _shared(groups, number, epochs, committed)
        both = has_open & has_shut
        same_epochs = open_alike & shut_alike & (~both | ((open_ == shut).all(1) & (open_epochs == shut_epochs)[:, 0]))
        same_epochs |= (oldest == newest) | ~(has_open | has_shut)
        blocks = groups.first(block)

        unacked = self._place.unmoved & (~has_open | ~has_shut | (open_ == shut).all(1))
        read = (finals == 1) & (has_acks | unacked)
        log_start = self._place.log_start
        removed = (finals == 0) & has_acks & (log_start is not None and blocks < (log_start or 0) >> BITS)
        agree = self._place.final_read & same_epochs & once & alike & (read | removed)
        acks_final = (finals == 1) & has_acks & acks_once & (acks == the_final).all(1)
        read_last = self._place.read_last
        may_be_read = final_mask if self._place.open_readers else self._shown(final_mask, shown[:, 1], acks_final)
        passed_over = ((may_be_read & ~returned) != 0) & (read_last is not None and blocks <= (read_last or 0) >> BITS)
        agreed: Ints = np.where(agree, final_mask, 0)
        self._reach(source, block, summary[:, 1] & agreed[number], polled & ~final)
        visible = np.where(acks_once, shown[:, 1], acks[:, 1])
        for at, position in enumerate(self._place.positions):
            got = groups.over(np.bitwise_or, np.where(self._is_member[at][source], summary[:, 1], 0))
            self._pass_over(at, blocks, visible & ~got & position.masks(blocks), final_mask)
        return Blocks(blocks, agree, final_mask, shown[:, 1] & final_mask, acks_final, returned, passed_over)

    def _reach(self, source: Ints, block: Ints, standing: Ints, ordinary: Bools) -> None:
        here = ordinary & (standing != 0)
        highest = (block[here] << BITS) + highest_bit(standing[here])
        for (number,), of in parts_of([source[here]]):
            self.reached[number] = max(self.reached.get(number, _NONE), int(highest[of].max()))

    def _pass_over(self, at: int, blocks: Ints, left: Ints, final: Ints) -> None:
        position, log_start = self._place.positions[at], self._place.log_start or 0
        for found, masks in ((self.passed, left & final), (self.passed_below, left & ~final)):
            if masks.any():
                offsets = position.between_sessions(offsets_in(blocks, masks))
                offsets = offsets[offsets < log_start] if found is self.passed_below else offsets
                found[at] = np.concatenate([found[at], offsets])

    def _shown(self, final: Ints, shown: Ints, acks_final: Bools) -> Ints:
        """Return the offsets of the final read that a read_committed consumer may get, as far as acks say."""
        return final if self._place.all_shown else np.where(acks_final, shown, final)

    def has_skip(self, jumps: Ints) -> bool:
        """Return whether any of some jumps (`ClientSums.jumps`) left out an offset that its consumer may get."""
        order = np.argsort(self.kept.block)
        block, final, shown, acks_final = (getattr(self.kept, name)[order] for name in _MASKS)
        if not len(block):
            return False
        found = False
        for committed, mask in ((1, self._shown(final, shown, acks_final)), (0, final)):
            some = jumps[jumps[:, 2] == committed]
            found |= bool((_below(block, mask, some[:, 1]) > _below(block, mask, some[:, 0])).any())
        return found


_MASKS = ("block", "final", "shown", "acks_final")


def _below(block: Ints, mask: Ints, offset: Ints) -> Ints:
    """Return how many offsets of these blocks, which are in order, are below each of some offsets."""
    before = np.concatenate([[0], np.cumsum(bit_count(mask))])
    at = np.searchsorted(block, offset >> BITS)
    there = np.minimum(at, len(block) - 1)
    in_block = np.where(block[there] == offset >> BITS, bit_count(mask[there] & (bit_of(offset) - 1)), 0)
    found: Ints = before[at] + in_block
    return found


def _shared(groups: Groups, number: Ints, summary: Ints, which: Bools) -> tuple[Ints, Bools]:
    """Return one summary a group of the rows `which`, and where all of them are the same."""
    one = np.zeros((len(groups.starts), summary.shape[1]), np.int64)
    one[number[which]] = summary[which]
    other = which & (summary != one[number]).any(1)
    return one, groups.counted(other) == 0


def _joined(parts: list[Blocks]) -> Blocks:
    if not parts:
        none, no = np.zeros(0, np.int64), np.zeros(0, np.bool_)
        return Blocks(none, no, none, none, no, none, no)
    return Blocks(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


READABLE = pa.schema(
    [
        *(pa.field(name, kind) for name, kind in (("run", pa.int32()), ("topic", pa.string()))),
        *(pa.field(name, kind) for name, kind in (("partition", pa.int32()), ("block", pa.int64()))),
        *(pa.field(name, pa.int64()) for name in ("open_mask", "shown_mask", "agreed_mask", "returned")),
    ]
)
"""The offsets of the final read by block.

`open_mask` has all of them, `shown_mask` those that read_committed lets through, null where each value must be looked
up in sends. `agreed_mask` is `open_mask` where the block agrees, else null. `returned` has the offsets that any
ordinary consumer returned.
"""


def readable(run: int, topic: str, partition: int, kept: Blocks, *, all_shown: bool) -> pa.Table:
    """Return kept blocks as rows of `READABLE`; `all_shown` as in `PartitionEnds`."""
    count = len(kept.block)
    same = {"run": run, "topic": topic, "partition": partition}
    columns = [pa.array([one] * count, READABLE.field(name).type) for name, one in same.items()]
    shown = pa.array(kept.final) if all_shown else pa.array(kept.shown, mask=~kept.acks_final)
    columns += [pa.array(kept.block), pa.array(kept.final), shown, pa.array(kept.final, mask=~kept.agree)]
    return pa.Table.from_arrays([*columns, pa.array(kept.returned)], schema=READABLE)


SESSIONS = pa.schema(
    [
        *(pa.field(name, kind) for name, kind in (("run", pa.int32()), ("topic", pa.string()))),
        *(pa.field(name, pa.int32()) for name in ("partition", "consumer", "session")),
        pa.field("read_committed", pa.bool_()),
        *(pa.field(name, pa.int64()) for name in ("first", "last")),
    ]
)
"""Each session of an ordinary consumer: its first offset, and the last that stands by blocks that agree."""


def sessions(run: int, sums: ClientSums, reached: Mapping[int, int]) -> pa.Table:
    """Return the sessions as rows of `SESSIONS`."""
    rows = [
        {
            "run": run,
            "topic": one.topic,
            "partition": one.partition,
            **{name: getattr(one, name) for name in _SESSION},
            "first": sums.first_offsets[number],
            "last": reached.get(number),
        }
        for number, one in enumerate(sums.sources)
        if isinstance(one, ConsumerSession) and not one.final
    ]
    return pa.Table.from_pylist(rows, schema=SESSIONS)


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


class ReplicaSums:
    """The rows of each replica below its last checkpointed HW, by blocks of offsets.

    A block in which checkpoints lie has a sum for each stretch between two of them. So replicas with other checkpoints
    are compared below the lower one.
    """

    def __init__(self, facts: Facts, folder: Callable[[], Path], seed: int) -> None:
        self._checkpoints = {(one.topic, one.partition, one.broker): one.high_watermark for one in facts.checkpoints}
        self._ends: dict[tuple[str, int], Ints] = {}
        for (topic, partition, _), end in self._checkpoints.items():
            ends = self._ends.get((topic, partition), np.zeros(0, np.int64))
            self._ends[topic, partition] = np.union1d(ends, np.array([end], np.int64))
        self._sums = SumStore(BLOCK_SUM, folder)
        self._seed = seed

    def add(self, group: RowGroup) -> None:
        """Sum up a row group of replicas."""
        for rows in batches(group, ("broker", "topic", "partition", "offset", "leader_epoch", "value")):
            offset = rows.numbers("offset")
            hashes = hashed(
                self._seed, offset, rows.numbers("leader_epoch"), rows.numbers("value"), unknown=~rows.known("value")
            )
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

    def differing(self) -> dict[tuple[str, int], Ints]:
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
