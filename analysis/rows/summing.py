"""Sums up one run: its facts, and the answers to the questions of the kinds of anomalies.

A table is read in three passes at most: for its checksum, here, and for the rows that the answers name (the module
choose).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from analysis.evidence.report import LogFileDamage, ReplicaLog
from analysis.record.groups import Ints
from analysis.record.record import Record
from analysis.record.scans import feed_table
from analysis.rows.clients import ClientSums
from analysis.rows.deletions import Deletion, deletions_of
from analysis.rows.facts import (
    CheckpointFacts,
    CommitFacts,
    CopyFacts,
    DamagedLog,
    Facts,
    PollFacts,
    SendFacts,
    ServedFacts,
)
from analysis.rows.policies import PolicyFacts, compacted_topics, default_policy, unsafe_property
from analysis.rows.question import KindAnswer, KindQuestion, Place, RunSums
from analysis.rows.small_tables import (
    COMMIT_COLUMNS,
    COPY_COLUMNS,
    Gathered,
    ObservedWatermarks,
    commits_of,
    copies_of,
    epochs_of,
    policies_of,
)
from ebbtide.errors import UsageError
from ebbtide.logs.segments import TopicPartition


def damaged_logs(
    record: Record, checkpoints: Sequence[CheckpointFacts], compacted: Collection[str]
) -> tuple[DamagedLog, ...]:
    """Return the replicas with damage below their HW, by evidence.json.

    A batch that cannot be read has no row in replicas, and a missing row there is no divergence: a log that nobody can
    read would agree with every other log. A torn tail above the HW is what a power loss leaves, and says nothing. Nor
    does a gap between two segments of a compacted topic.

    A replica without a checkpoint has the highest checkpoint of its partition. `compacted` are the
    topics that were compacted at some time of the run.
    """
    report = record.reports.replicas
    return tuple(_first_damage(report.logs, checkpoints, compacted)) if report is not None else ()


def unread_replicas(record: Record) -> tuple[str, ...]:
    """Return the replicas' logs and checkpoints that are missing or unreadable.

    What they hold is not compared.
    """
    replicas = record.reports.replicas
    checkpoints = record.reports.checkpoints
    logs = replicas.missing if replicas is not None else ()
    return (*logs, *((*checkpoints.missing, *checkpoints.problems) if checkpoints is not None else ()))


def _first_damage(
    logs: Sequence[ReplicaLog], checkpoints: Sequence[CheckpointFacts], compacted: Collection[str]
) -> Iterator[DamagedLog]:
    own = {(one.topic, one.partition, one.broker): one.high_watermark for one in checkpoints}
    for log in logs:
        if not log.damages:
            continue
        others = [hw for (topic, partition, _), hw in own.items() if (topic, partition) == (log.topic, log.partition)]
        high_watermark = own.get((log.topic, log.partition, log.broker), max(others, default=0))
        damages = [one for one in log.damages if one.damage.kind != "hole" or log.topic not in compacted]
        below = [one for one in damages if _start_offset(one, log) < high_watermark]
        if below:
            first = min(below, key=lambda one: _start_offset(one, log))
            why = (
                f"{first.file}: {first.damage.detail}, from offset {_start_offset(first, log)} on, "
                f"below its last known HW {high_watermark}"
            )
            yield DamagedLog(log.topic, log.partition, log.broker, why)


def _start_offset(damage: LogFileDamage, log: ReplicaLog) -> int:
    return damage.from_offset if damage.from_offset is not None else log.log_end_offset


BLOCKS_MAX = 300_000
"""Above so many blocks that differ, all rows are looked at.

Finding rows in them then costs as much as moving all.
"""


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to all questions about a run.

    - `possible`: the questions with the answer yes. `unknown`: why what some questions are for is not known.
    - `offsets`: blocks of offsets by partition, `values`: blocks of values, whose rows the rules must look at. None
      instead of either: there are too many, and all rows must be looked at.
    - `rows`: the rows that NumPy made, by the name of their type.
    """

    possible: frozenset[type[KindQuestion]]
    unknown: Mapping[type[KindQuestion], str]
    offsets: Mapping[Place, Ints] | None
    values: Ints | None
    rows: Mapping[str, pa.Table]

    @property
    def whole_tables(self) -> frozenset[str]:
        """The tables of which the rules look at all rows."""
        return frozenset(name for one in self.possible for name in one.whole_tables)


class SummedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run, its facts, and the answers."""

    run: Record
    facts: Facts
    answers: Answers


def sum_up(run: Record, number: int, folder: Callable[[], Path], questions: Sequence[type[KindQuestion]]) -> SummedRun:
    """Sum up a run; `number` is its index among those that are judged together.

    `folder` makes the folder for sums that memory has no room for. Raises `UsageError` for values that the record
    format does not have, and for files that are damaged.
    """
    deletions, scans = deletions_of(run), run.scans()
    asked = [question(run, folder) for question in questions]
    sums, watermarks = ClientSums(deletions, folder), ObservedWatermarks()
    commits, copies = Gathered(COMMIT_COLUMNS), Gathered(COPY_COLUMNS)
    for table, columns, add in (
        ("watermarks", watermarks.columns, watermarks.add),
        ("commits", commits.columns, commits.add),
        ("copies", copies.columns, copies.add),
        ("sends", sums.columns["sends"], sums.add_sends),
        ("polls", sums.columns["polls"], sums.add_polls),
    ):
        also = [(one.reads[table], one.add) for one in asked if table in one.reads]
        feed_table(run, table, scans, (columns, add), *also)
    feed_table(run, "described", scans)
    facts = facts_of(
        number,
        run,
        policies_of(run.timeline),
        deletions,
        sends=sums.sends,
        polls=sums.polls,
        served=watermarks.served,
        checkpoints=watermarks.checkpoints,
        commits=commits_of(commits.table),
        copies=copies_of(copies.table),
        clock_went_back=watermarks.clock_went_back,
    )
    for table, facts_of_table in (
        ("sends", facts.sends),
        ("polls", facts.polls),
        ("watermarks", facts.served),
        ("commits", facts.commits),
        ("copies", facts.copies),
    ):
        _refuse_count(run, table, sum(one.rows for one in facts_of_table))
    answers = _answers(RunSums(facts, sums, commits.table, copies.table, asked), asked)
    feed_table(run, "replicas", scans)
    return SummedRun(run=run, facts=facts, answers=answers)


def facts_of(
    number: int,
    run: Record,
    policies: Sequence[PolicyFacts],
    deletions: tuple[Deletion, ...] = (),
    *,
    sends: Sequence[SendFacts] = (),
    polls: Sequence[PollFacts] = (),
    served: Sequence[ServedFacts] = (),
    checkpoints: Sequence[CheckpointFacts] = (),
    commits: Sequence[CommitFacts] = (),
    copies: Sequence[CopyFacts] = (),
    clock_went_back: bool = False,
) -> Facts:
    """Return the facts of one run, from those of its tables."""
    manifest = run.manifest
    of_clients: list[SendFacts | PollFacts] = [*sends, *polls]
    named = {f"{one.topic}-{one.partition}" for one in of_clients} | manifest.final_offsets.keys()
    by_default = default_policy(run)
    used = {TopicPartition.parse(name).topic for name in named}
    logged = used | {one.topic for one in checkpoints}
    with_holes = compacted_topics(logged, policies, by_default)
    return Facts(
        run=number,
        rows=run.row_counts,
        missing=frozenset(table for table, files in run.checked.items() if not files),
        final_consumer=manifest.final_consumer,
        final_offsets=manifest.final_offsets,
        final_transactions=manifest.final_transactions,
        complete=manifest.status == "complete",
        idempotent=tuple(int(name) for name, producer in manifest.producers.items() if producer.idempotent),
        transactional=any(producer.transactional for producer in manifest.producers.values()),
        clock_went_back=clock_went_back,
        gaps=run.gaps,
        damaged_logs=damaged_logs(run, checkpoints, with_holes),
        deletions=deletions,
        unread_replicas=unread_replicas(run),
        compacted=compacted_topics(used, policies, by_default),
        unsafe_property=unsafe_property(run),
        sends=sends,
        polls=polls,
        served=served,
        checkpoints=checkpoints,
        epochs=epochs_of(run.timeline),
        commits=commits,
        copies=copies,
    )


def _refuse_count(run: Record, table: str, rows: int) -> None:
    """Raise `UsageError` where fewer or more rows were read than the footers promise."""
    if rows != run.row_counts[table]:
        raise UsageError(
            "not every row of a table was read",
            where=f"{run}: table {table}",
            got=f"{rows:,} rows",
            allowed=f"{run.row_counts[table]:,} rows, as the files' footers say",
        )


def _answers(summed: RunSums, asked: Sequence[KindQuestion]) -> Answers:
    answers = [(type(one), one.answer(summed)) for one in asked]
    possible = [(question, answer) for question, answer in answers if answer]
    some = _together(answer for _, answer in possible)
    values = np.unique(np.concatenate([np.zeros(0, np.int64), *(each for _, one in possible for each in one.values)]))
    too_many = sum(map(len, some.values())) > BLOCKS_MAX or len(values) > BLOCKS_MAX
    row_types = {row_type.name: row_type for question, _ in possible for row_type in question.row_types}
    return Answers(
        possible=frozenset(question for question, _ in possible),
        unknown={question: answer.why_unknown for question, answer in answers if answer.why_unknown is not None},
        offsets=None if too_many else some,
        values=None if too_many else values,
        rows={name: row_type.rows_of(summed) for name, row_type in row_types.items()},
    )


def _together(answers: Iterable[KindAnswer]) -> dict[Place, Ints]:
    """Return the blocks of offsets of some answers."""
    found: dict[Place, list[Ints]] = {}
    for answer in answers:
        for place, blocks in answer.offsets.items():
            if len(blocks):
                found.setdefault(place, []).append(blocks)
    return {place: np.unique(np.concatenate(some)) for place, some in found.items()}
