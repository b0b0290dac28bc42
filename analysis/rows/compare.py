"""Compares the sources of a run by their sums, in blocks of offsets.

A block of offsets *agrees* if acks, consumers and the final read hold the same rows, an offset each, as far as each may
see them, and polls have the same leader epochs. Nothing in it is lost, vanished or replaced. Without a final read of
the block there is nothing to agree with, except below the log start. A block without acks agrees only if no log start
moved: its values may have been acked at offsets removed since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from analysis.record.groups import BITS, Bools, Groups, Ints, bit_count, highest_bit, parts_of
from analysis.rows.buckets import Sums
from analysis.rows.clients import ACKS, HIDDEN_ACKS, ClientSums, ConsumerSession
from analysis.rows.facts import Facts, partition_rows

_NONE = -1


class PartitionEnds(NamedTuple):
    """What is known of a partition.

    The first three are as in `facts.PARTITION_FACTS`. `unmoved`: no log start of the run moved. `all_shown`: the final
    read hid what is hidden from read_committed consumers, or nothing is. `open_readers`: some ordinary consumer got
    everything.
    """

    final_read: bool
    log_start: int | None
    read_last: int | None
    unmoved: bool
    all_shown: bool
    open_readers: bool


def places_of(facts: Facts) -> dict[tuple[str, int], PartitionEnds]:
    """Return what is known of each partition."""
    unmoved = all(ends.log_start == 0 for ends in facts.final_offsets.values())
    all_shown = facts.final_read_committed or not facts.has_transactions
    open_readers = {(one.topic, one.partition) for one in facts.polls if not one.final and not one.read_committed}
    found = {}
    for row in partition_rows(facts):
        at = row["topic"], row["partition"]
        known = bool(row.get("final_read")), row.get("log_start"), row.get("read_last")
        found[at] = PartitionEnds(*known, unmoved, all_shown, at in open_readers)
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


class ComparedBlocks(NamedTuple):
    """The sums of some blocks of one partition, for questions of kinds.

    `acked` are the offsets of acks that a read_committed consumer may get, as far as acks say. `log_start` is that of
    the final read.
    """

    sums: Sums
    groups: Groups
    sources: list[ConsumerSession | None]
    block: Ints
    acked: Ints
    final: Ints
    log_start: int

    def got_by(self, consumers: Collection[int]) -> Ints:
        """Return for each block the offsets that some ordinary consumers got."""
        wanted = np.array([one is not None and not one.final and one.consumer in consumers for one in self.sources])
        return self.groups.over(np.bitwise_or, np.where(wanted[self.sums["source"]], self.sums["mask"], 0))


class PartitionBlocks:
    """The blocks of one partition, compared.

    - `differing`: those that do not agree.
    - `kept`: those that the rules on sessions look at.
    - `reached`: for each source the last offset that stands, by blocks that agree.
    """

    def __init__(
        self,
        sums: ClientSums,
        topic: str,
        partition: int,
        place: PartitionEnds,
        look: Callable[[ComparedBlocks], None],
        *,
        keeps_all: bool,
    ) -> None:
        """With `keeps_all`, all blocks with a final read are kept, else those that may be passed over.

        `look` is called with all blocks, some at a time.
        """
        self._place, self._look, self._keeps_all = place, look, keeps_all
        self._sources = sums.sources
        self._is_final, self._committed = sums.session_flags
        self.reached: dict[int, int] = {}
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
        self._look(ComparedBlocks(sums, groups, self._sources, blocks, visible, final_mask, log_start or 0))
        return Blocks(blocks, agree, final_mask, shown[:, 1] & final_mask, acks_final, returned, passed_over)

    def _reach(self, source: Ints, block: Ints, standing: Ints, ordinary: Bools) -> None:
        here = ordinary & (standing != 0)
        highest = (block[here] << BITS) + highest_bit(standing[here])
        for (number,), of in parts_of([source[here]]):
            self.reached[number] = max(self.reached.get(number, _NONE), int(highest[of].max()))

    def _shown(self, final: Ints, shown: Ints, acks_final: Bools) -> Ints:
        """Return the offsets of the final read that a read_committed consumer may get, as far as acks say."""
        return final if self._place.all_shown else np.where(acks_final, shown, final)


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
