"""Sums up one run: its facts, and the answers to the questions.

A table is read in three passes at most: for its checksum, here, and for the rows that the answers name (the module
choose).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from analysis.rows.batches import for_each, row_groups
from analysis.rows.clients import ClientSums
from analysis.rows.clock import has_gone_back
from analysis.rows.compare import (
    READABLE,
    Blocks,
    PartitionBlocks,
    ReplicaSums,
    places_of,
    readable,
    sessions,
    value_masks,
)
from analysis.rows.damaged_logs import damaged_logs, unread_replicas
from analysis.rows.facts import (
    CheckpointFacts,
    CommitFacts,
    CopyFacts,
    EpochFacts,
    Facts,
    PollFacts,
    SendFacts,
    ServedFacts,
)
from analysis.rows.groups import BITS, Ints
from analysis.rows.order import as_table
from analysis.rows.policies import PolicyFacts, compacted_topics, default_policy, unsafe_property
from analysis.rows.positions import (
    PASSED,
    GroupPosition,
    MemberEvents,
    group_positions,
    passed_rows,
    why_unknown_membership,
    why_unknown_positions,
)
from analysis.rows.questions import (
    BACK,
    COMMITS,
    COPIES,
    DAMAGED,
    HANGING,
    HIGH_WATERMARKS,
    ORDER,
    PASSED_OVER,
    REPLICAS,
    SKIPS,
    UNSEEN,
    VALUES,
    Answers,
    CopiesAsked,
    hanging_partitions,
    may_have_lost_commits,
)
from analysis.rows.runs import RunFiles
from analysis.rows.small_tables import ObservedWatermarks, commits_of, copies_of, epochs_of, policies_of
from ebbtide.errors import UsageError
from ebbtide.logs.segments import TopicPartition

BLOCKS_MAX = 300_000
"""Above so many blocks that differ, all rows are looked at.

Finding rows in them then costs as much as moving all.
"""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What the tables of a run say, for its facts."""

    sends: list[SendFacts] = []
    polls: list[PollFacts] = []
    served: list[ServedFacts] = []
    checkpoints: list[CheckpointFacts] = []
    epochs: list[EpochFacts] = []
    policies: list[PolicyFacts] = []
    commits: list[CommitFacts] = []
    copies: list[CopyFacts] = []
    positions: list[GroupPosition] = []
    why_positions_unknown: str | None = None


class SummedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run, its facts, and the answers."""

    run: RunFiles
    facts: Facts
    answers: Answers


def sum_up(run: RunFiles, number: int, folder: Callable[[], Path]) -> SummedRun:
    """Sum up a run; `number` is its index among those that are judged together.

    `folder` makes the folder for sums that memory has no room for. Raises `UsageError` for values that the record
    format does not have, and for files that are damaged.
    """
    sums = ClientSums(run, folder)
    sends = row_groups(run, number, "sends")
    for_each(sends, sums.sum_sends)
    for_each(row_groups(run, number, "polls"), partial(sums.sum_polls, sums.doubt_sent_values()))
    watermarks = ObservedWatermarks(run)
    commits, commit_rows = commits_of(run)
    copies, copy_rows = copies_of(run)
    epochs = epochs_of(run)
    positions, why_positions_unknown = _positions_of(run, sums, epochs)
    counted = Counted(
        sends=sums.sends,
        polls=sums.polls,
        served=watermarks.served,
        checkpoints=watermarks.checkpoints,
        epochs=epochs,
        policies=policies_of(run),
        commits=commits,
        copies=copies,
        positions=positions,
        why_positions_unknown=why_positions_unknown,
    )
    for table, facts_of_table in (
        ("sends", counted.sends),
        ("polls", counted.polls),
        ("watermarks", counted.served),
        ("commits", counted.commits),
        ("copies", counted.copies),
    ):
        _refuse_count(run, table, sum(one.rows for one in facts_of_table))
    facts = facts_of(number, run, counted)
    asked = _Asked(run, facts, sums)
    asked.compare_values(CopiesAsked(copy_rows) if copy_rows is not None else None, commit_rows)
    if run.rows["sends"] and run.rows["polls"]:
        asked.order(sums.order.inversions(sends))
    if facts.checkpoints:
        replicas = ReplicaSums(facts, folder, secrets.randbits(63))
        for_each(row_groups(run, number, "replicas"), replicas.add)
        asked.add_blocks(REPLICAS, replicas.differing())
    if not facts.clock_went_back and watermarks.has_lower_answer():
        asked.possible.add(HIGH_WATERMARKS)
    if may_have_lost_commits(commit_rows):
        asked.possible.add(COMMITS)
    hanging = hanging_partitions(facts)
    asked.add_blocks(HANGING, {place: np.array([lso >> BITS], np.int64) for place, lso in hanging.items()})
    return SummedRun(run=run, facts=asked.facts_in_doubt(), answers=asked.answers())


def facts_of(number: int, run: RunFiles, counted: Counted) -> Facts:
    """Return the facts of one run."""
    manifest = run.record.manifest
    of_clients: list[SendFacts | PollFacts] = [*counted.sends, *counted.polls]
    named = {f"{one.topic}-{one.partition}" for one in of_clients} | manifest.final_offsets.keys()
    by_default = default_policy(run.record)
    used = {TopicPartition.parse(name).topic for name in named}
    logged = used | {one.topic for one in counted.checkpoints}
    with_holes = {one.topic for one in compacted_topics(logged, counted.policies, by_default)}
    return Facts(
        run=number,
        rows=run.rows,
        missing=run.missing,
        final_consumer=manifest.final_consumer,
        final_offsets=manifest.final_offsets,
        final_transactions=manifest.final_transactions,
        complete=manifest.status == "complete",
        idempotent=tuple(int(name) for name, producer in manifest.producers.items() if producer.idempotent),
        transactional=any(producer.transactional for producer in manifest.producers.values()),
        clock_went_back=has_gone_back(run.files["watermarks"]),
        gaps=run.record.gaps,
        damaged_logs=damaged_logs(run.record, counted.checkpoints, with_holes),
        deletions=run.deletions,
        unread_replicas=unread_replicas(run.record),
        compacted=compacted_topics(used, counted.policies, by_default),
        unsafe_property=unsafe_property(run.record),
        sends=counted.sends,
        polls=counted.polls,
        served=counted.served,
        checkpoints=counted.checkpoints,
        epochs=counted.epochs,
        commits=counted.commits,
        copies=counted.copies,
        positions=counted.positions,
        why_positions_unknown=counted.why_positions_unknown,
    )


def _positions_of(
    run: RunFiles, sums: ClientSums, epochs: Sequence[EpochFacts]
) -> tuple[list[GroupPosition], str | None]:
    """Return the positions of groups, and why they are not known."""
    if not sums.groups:
        return [], why_unknown_membership(run.record)
    events = MemberEvents(run.record, sums.groups)
    created_ns: dict[TopicPartition, int] = {}
    for one in epochs:
        if one.leader_epoch == 0:
            created_ns[TopicPartition(one.topic, one.partition)] = one.since_ns
    sessions = sums.member_sessions
    return group_positions(sums.groups, events, sessions, created_ns), why_unknown_positions(events, sessions)


def _refuse_count(run: RunFiles, table: str, rows: int) -> None:
    """Raise `UsageError` where fewer or more rows were read than the footers promise."""
    if rows != run.rows[table]:
        raise UsageError(
            "not every row of a table was read",
            where=f"{run.record}: table {table}",
            got=f"{rows:,} rows",
            allowed=f"{run.rows[table]:,} rows, as the files' footers say",
        )


class _Asked:
    """Gathers the answers for one run."""

    def __init__(self, run: RunFiles, facts: Facts, sums: ClientSums) -> None:
        self.run, self.facts, self.sums = run, facts, sums
        self.possible: set[str] = set()
        self._offsets: dict[tuple[str, int], list[Ints]] = {}
        self._values: list[Ints] = []
        self._readable: list[pa.Table] = []
        self._passed: list[pa.Table] = []
        self._in_doubt: list[str] = []
        self._sessions = sessions(facts.run, sums, {})
        self._inversions = as_table(facts.run, {})

    def add_blocks(self, question: str, blocks: Mapping[tuple[str, int], Ints]) -> None:
        """Answer yes if there are any blocks of offsets, and look at them."""
        for place, some in blocks.items():
            if len(some):
                self.possible.add(question)
                self._offsets.setdefault(place, []).append(some)

    def compare_values(self, copies: CopiesAsked | None, commits: pa.Table | None) -> None:
        """Answer what depends on the sums of sends and polls."""
        suspects = []
        for bucket in self.sums.values.buckets():
            found = value_masks(bucket)
            suspects.append(found.suspect)
            if copies is not None:
                copies.look_up(found)
        if any(len(some) for some in suspects):
            self.possible.add(VALUES)
        self._values += suspects
        inputs = copies.partitions if copies is not None else set()
        finals = self._compare_partitions(inputs)
        if copies is not None:
            skipped = copies.maybe_skipped(commits, finals) if commits is not None else {}
            if skipped or copies.may_be_twice():
                self.possible.add(COPIES)
                self.add_blocks(COPIES, skipped)
                # The rules take a copy whose rows they do not see for one that nobody made.
                self._values.append(np.unique(copies.values >> BITS))
        for question, name in ((DAMAGED, "damaged"), (BACK, "back")):
            if any(getattr(one, name) for one in self.facts.polls):
                self.possible.add(question)

    def _compare_partitions(self, inputs: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Blocks]:
        facts, sums = self.facts, self.sums
        places = places_of(facts)
        reached: dict[int, int] = {}
        finals = {}
        for topic, partition in sorted((str(topic), int(str(number))) for topic, number in sums.blocks.places()):
            place = topic, partition
            jumps = None if sums.jumps is None else sums.jumps.get(place, [])
            found = PartitionBlocks(sums, topic, partition, places[place], keeps_all=jumps != [] or place in inputs)
            all_shown = places[place].all_shown
            self.add_blocks(VALUES, {place: found.differing})
            reached |= found.reached
            self._add_passed(place, places[place].positions, found)
            finals[place] = found.kept
            looked_at = set()
            if found.kept.passed_over.any():
                looked_at.add(UNSEEN)
            if jumps is None or (jumps and found.has_skip(np.concatenate(jumps))):
                looked_at.add(SKIPS)
            self.possible |= looked_at
            if looked_at:
                self._readable.append(readable(facts.run, topic, partition, found.kept, all_shown=all_shown))
                if not all_shown:
                    unclear = {place: found.kept.block[~found.kept.acks_final]}
                    self.add_blocks(next(iter(looked_at)), unclear)
        self._sessions = sessions(facts.run, sums, reached)
        return finals

    def _add_passed(self, place: tuple[str, int], positions: Sequence[GroupPosition], found: PartitionBlocks) -> None:
        for position, offsets, below in zip(positions, found.passed, found.passed_below, strict=True):
            where = f"{place[0]}-{place[1]}"
            if len(below):
                why = f"the group {position.group} left out acked records of {where} below the final log start"
                self._in_doubt.append(f"{why}: whether the log still had them is not known")
            if len(offsets) and not position.is_settled:
                why = f"the group {position.group} got nothing of {where} after its last assignment"
                self._in_doubt.append(f"{why}, so where it stands is not known")
            elif len(offsets):
                self.add_blocks(PASSED_OVER, {place: np.unique(offsets >> BITS)})
                self._passed.append(passed_rows(self.facts.run, position, offsets))

    def order(self, inversions: Mapping[tuple[str, int, int], Ints]) -> None:
        """Answer whether acked sends are out of order; `inversions` is `SendOrder.inversions`."""
        self._inversions = as_table(self.facts.run, inversions)
        for (topic, partition, _), pairs in inversions.items():
            self.add_blocks(ORDER, {(topic, partition): np.unique(pairs[:, 4] >> BITS)})

    def answers(self) -> Answers:
        """Return the answers."""
        offsets = {place: np.unique(np.concatenate(some)) for place, some in self._offsets.items()}
        values = np.unique(np.concatenate([np.zeros(0, np.int64), *self._values]))
        too_many = sum(len(some) for some in offsets.values()) > BLOCKS_MAX or len(values) > BLOCKS_MAX
        return Answers(
            possible=frozenset(self.possible),
            offsets=None if too_many else offsets,
            values=None if too_many else values,
            readable=pa.concat_tables([READABLE.empty_table(), *self._readable]),
            sessions=self._sessions,
            inversions=self._inversions,
            passed=pa.concat_tables([PASSED.empty_table(), *self._passed]),
        )

    def facts_in_doubt(self) -> Facts:
        """Return the facts with why what groups passed over is not known."""
        if self.facts.why_positions_unknown is not None or not self._in_doubt:
            return self.facts
        return msgspec.structs.replace(self.facts, why_positions_unknown="; ".join(self._in_doubt))
