"""The questions whose answers say which kinds of anomalies can occur in a run at all.

Most records have no anomaly. Where every answer is no, no rule is planned, and Java does not start. An answer yes may
be wrong, an answer no is not. The rules decide on the rows that an answer yes names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.rows.clients import ABORTED, FINAL, HIDDEN
from analysis.rows.compare import Blocks, ValueMasks
from analysis.rows.facts import Facts
from analysis.rows.groups import BITS, Bools, Ints, bit_of, parts_of
from ebbtide.logs.segments import TopicPartition

VALUES = "values"
"""Is there a block whose sources differ, or a value that stands twice or never should have been read?

Else no value was lost, vanished, was duplicated, was replaced or was read although it was aborted.
"""
UNSEEN = "unseen"
"""Is there an offset of the final read that an ordinary consumer may have passed over?"""
SKIPS = "skips"
"""Is there a row that jumped over an offset of the final read?"""
BACK = "back"
"""Is there a row whose offset is not above the one before in its session?"""
DAMAGED = "damaged"
"""Did a consumer get a record that is not of this run?"""
ORDER = "order"
"""Is there an acked value whose offset is below that of the value before? Else none is out of order."""
REPLICAS = "replicas"
"""Is there a block in which the replicas' committed rows differ? Else no record of theirs does."""
HIGH_WATERMARKS = "high watermarks"
"""Is there a HW below an earlier one? Else none went back."""
COMMITS = "commits"
"""Is there an answer of a coordinator without, or with an older commit than, what was acked or shown before?"""
HANGING = "hanging"
"""Is there a partition whose last stable offset was below its HW at the final read?"""
PASSED_OVER = "passed over"
"""Is there an acked offset of the final read that a group left out between its members' sessions?"""
COPIES = "copies"
"""Is there an input of a copier that may have two committed copies, or none below its group's offset?"""

COMMITS_MAX = 1_000_000
"""Above so many rows of commits nothing is asked, and the rules look at all of them."""


class _Register(NamedTuple):
    """What one committed offset is of."""

    group: str
    topic: str
    partition: int


class _CommitRow(msgspec.Struct, frozen=True):
    """One row of commits."""

    group: str
    topic: str
    partition: int
    status: str
    asked_ns: int
    commit: int | None = None
    offset: int | None = None
    done_ns: int | None = None


def may_have_lost_commits(commits: pa.Table | None) -> bool:
    """Return whether the answer to `COMMITS` may be yes.

    Who coordinated does not matter here, nor whether the answer is settled.
    """
    if commits is None:
        return False
    if len(commits) > COMMITS_MAX:
        return True
    registers: dict[_Register, list[_CommitRow]] = {}
    for row in msgspec.convert(commits.to_pylist(), list[_CommitRow]):
        registers.setdefault(_Register(row.group, row.topic, row.partition), []).append(row)
    return any(_may_lose(rows) for rows in registers.values())


def _may_lose(rows: Sequence[_CommitRow]) -> bool:
    """Return whether an answer of one register is older than what was acked or shown before it was asked for."""
    writes: dict[int, list[_CommitRow]] = {}
    for row in rows:
        if row.status != "served" and row.commit is not None:
            writes.setdefault(row.commit, []).append(row)
    sent = {commit: min(row.asked_ns for row in some) for commit, some in writes.items()}
    acked = {
        commit: max(row.done_ns or 0 for row in some)
        for commit, some in writes.items()
        if all(row.status == "acked" and row.done_ns is not None for row in some)
    }
    answers = [row for row in rows if row.status == "served" and row.done_ns is not None]
    shown = [(row.done_ns or 0, sent[row.commit]) for row in answers if row.commit in sent]
    seen = sorted([(done, sent[commit]) for commit, done in acked.items()] + shown)
    done = np.array([one for one, _ in seen], np.int64)
    newest = np.maximum.accumulate(np.array([one for _, one in seen], np.int64)) if seen else done
    for row in answers:
        before = int(np.searchsorted(done, row.asked_ns))
        if not before:
            continue
        expected = newest[before - 1]
        if row.offset is None or (row.commit is not None and acked.get(row.commit, expected) < expected):
            return True
    return False


def hanging_partitions(facts: Facts) -> dict[tuple[str, int], int]:
    """Return the partitions whose last stable offset (LSO) was below the HW, with the LSO."""
    found = {}
    if facts.final_transactions is not None:
        for name, ends in facts.final_offsets.items():
            if ends.last_stable is not None and ends.last_stable < ends.high_watermark:
                place = TopicPartition.parse(name)
                found[place.topic, place.partition] = ends.last_stable
    return found


class CopiesAsked:
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
    def partitions(self) -> set[tuple[str, int]]:
        """The partitions of the inputs."""
        found = self._copies.group_by(["topic", "partition"]).aggregate([])
        return {(row["topic"], row["partition"]) for row in found.to_pylist()}

    def may_be_twice(self) -> bool:
        """Return whether an input may have two visible copies."""
        some = self._copies.filter(pa.array(~self._aborted))
        by = some.group_by(["group", "topic", "partition", "offset"]).aggregate([("value", "count_distinct")])
        return bool(pc.any(pc.greater(by["value_count_distinct"], 1)).as_py())

    def maybe_skipped(self, commits: pa.Table, finals: Mapping[tuple[str, int], Blocks]) -> dict[tuple[str, int], Ints]:
        """Return the blocks of inputs that may have no visible copy below their group's committed offset."""
        found: dict[tuple[str, int], Ints] = {}
        served = commits.filter(pc.and_(pc.equal(commits["status"], "served"), pc.is_valid(commits["offset"])))
        for row in served.group_by(["group", "topic", "partition"]).aggregate([("offset", "max")]).to_pylist():
            place = row["topic"], row["partition"]
            of = self._of(_Register(row["group"], *place))
            if place not in finals or not of.any():
                continue
            blocks = finals[place]
            committed = row["offset_max"]
            lower = np.where(blocks.block < committed >> BITS, -1, 0)
            lower[blocks.block == committed >> BITS] = int(bit_of(np.array([committed], np.int64))[0]) - 1
            left = blocks.final & lower & ~self._copied(of, blocks.block)
            found[place] = np.union1d(found.get(place, np.zeros(0, np.int64)), blocks.block[left != 0])
        return {place: blocks for place, blocks in found.items() if len(blocks)}

    def _of(self, register: _Register) -> Bools:
        """Return which copies are of one group and one partition of its inputs."""
        same = [pc.equal(self._copies[name], value) for name, value in register._asdict().items()]
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


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The questions with the answer yes, and the rows that the rules must look at.

    `offsets`: blocks of offsets by partition. `values`: blocks of values. None instead of either: there are too many,
    and all rows must be looked at. `readable`, `sessions`, `inversions` and `passed` are tables of the modules compare,
    order and positions.
    """

    possible: frozenset[str]
    offsets: dict[tuple[str, int], Ints] | None
    values: Ints | None
    readable: pa.Table
    sessions: pa.Table
    inversions: pa.Table
    passed: pa.Table
