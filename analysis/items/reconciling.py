"""Reconciles run records, any number in the same jobs: from tables to anomalies.

The order is: blocks of sends and polls, and the facts (one job); where there are many rows, which
of them may be in an anomaly at all; then the items of every kind, kept while they are counted and
stored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence, Set
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analysis.items.store import check_writable, store
from analysis.items.summary import AnomalySummary, summarize
from analysis.judge.rules import registry
from analysis.reconcile import inversions, replica_blocks, ruling_out
from analysis.reconcile.blocks import BLOCK, compare_blocks, poll_blocks, readable_blocks, send_blocks
from analysis.reconcile.collecting import collect_facts
from analysis.reconcile.commits import why_unchecked
from analysis.reconcile.facts import Facts, partition_facts
from analysis.reconcile.final_log_rows import session_ranges
from analysis.reconcile.hw_observations import suspicious_observations
from analysis.reconcile.keeping import FrameKeeper
from analysis.reconcile.model import Reconciliation
from analysis.reconcile.narrowing import NarrowedTables, narrow, suspect_values, suspicious
from analysis.reconcile.parts import parts
from analysis.reconcile.row_batches import UnsuitedRows
from analysis.reconcile.row_narrowing import narrow_rows
from analysis.reconcile.row_pass import RowPass, summed_rows
from analysis.reconcile.ruling_out import Comparisons
from analysis.reconcile.session import Jvm, fits_one_part, is_small, one_call_site, plans_for
from analysis.reconcile.tables import RecordTables, RunFiles, load, run_files
from analysis.reconcile.work import Work
from analysis.record.record import Record
from analysis.remote.record import NO_COPIES, Copies, RemoteRecord
from ebbtide.errors import UsageError
from ebbtide.scratch import SPARK, scratch_folder

_SPARK_FACTOR = 500
"""Spark leaves rows out above so many times the rows above which NumPy does."""

_ROWS_OF_A_SUM = 2
"""Adding up a sum costs so many times what Spark does with a row."""


def reconcile(spark: SparkSession, record: Record, stage: Callable[[str], None] = lambda _: None) -> Reconciliation:
    """Find the anomalies of a record, and write all of them to its anomalies/; `stage` is called with each stage.

    Raises `UsageError` when a file of the record is damaged or does not fit the record format, `HarnessError`
    when the record cannot be written to.
    """
    return reconcile_all(spark, [record], stage)[0]


def reconcile_all(
    spark: SparkSession,
    records: Sequence[Record],
    stage: Callable[[str], None] = lambda _: None,
    remote: Copies = NO_COPIES,
) -> list[Reconciliation]:
    """Reconcile several records in the same jobs; `stage` is called with each stage.

    `remote` says which of the folders are copies, and of what; their anomalies/ is then in the
    copy. Raises as `reconcile` does: for any of the records, and then none is done.
    """
    runs = [checked_run(record, remote.get(record.folder.path)) for record in records]
    return reconcile_runs(spark, runs, stage)


def checked_run(record: Record, remote: RemoteRecord | None = None) -> RunFiles:
    """Return a run that `reconcile_runs` accepts.

    Raises as `reconcile` does, for all that shows before rows are read.
    """
    if remote is not None:
        remote.check_writable()
    else:
        check_writable(record.folder)
    return run_files(record, remote)


def reconcile_runs(
    spark: SparkSession, runs: Sequence[RunFiles], stage: Callable[[str], None] = lambda _: None
) -> list[Reconciliation]:
    """Reconcile several runs in the same jobs.

    Raises for rows of any of them, and then none is done.
    """
    stage("summing up")
    if Jvm.running is not None:
        Jvm.running.begin_first_use()
    try:
        rows = sum(sum(run.rows.values()) for run in runs)
        with ExitStack() as until_done:
            row_pass = None
            if not is_small(rows):
                row_pass = summed_rows(spark, runs, until_done.enter_context(scratch_folder(SPARK)))
            planned = rows if row_pass is None else row_pass.sums
            one_part = fits_one_part(planned)
            kept = until_done.enter_context(FrameKeeper(spark))
            costs = planned if row_pass is None else planned * _ROWS_OF_A_SUM
            until_done.enter_context(plans_for(spark, costs, one_part=one_part))
            until_done.enter_context(one_call_site(spark))
            return _reconcile_runs(spark, runs, kept, row_pass, stage)
    except (Py4JJavaError, PySparkException) as error:
        # To Spark, a file system that went away looks like a damaged file.
        for run in runs:
            if run.remote is not None:
                run.remote.check_answers()
        raise _as_usage_error(error, [run.record for run in runs]) from None


def _reconcile_runs(
    spark: SparkSession,
    runs: Sequence[RunFiles],
    kept: FrameKeeper,
    row_pass: RowPass | None,
    stage: Callable[[str], None],
) -> list[Reconciliation]:
    """Reconcile several runs; `row_pass` has summed up their sends and polls, None: Spark does."""
    tables = load(spark, runs)
    if row_pass is not None:
        sends, polls = kept.keep(row_pass.send_blocks()), kept.keep(row_pass.poll_blocks())
    else:
        deletions = {number: run.deletions for number, run in enumerate(runs)}
        sends, polls = kept.keep(send_blocks(tables, deletions)), kept.keep(poll_blocks(tables))
    facts = collect_facts(tables, sends, polls, runs)
    rows = sum(sum(run.rows.values()) for run in runs)
    partitions = partition_facts(spark, facts)
    blocks = compare_blocks(sends, polls, partitions, facts)
    seen = readable_blocks(blocks, tables, facts) if blocks is not None else None
    in_order = row_pass.sends_in_order() if row_pass is not None and tables.polls is not None else None
    inverted = inversions.inversions(tables) if in_order is None else inversions.decreases(in_order)
    work = Work(spark=spark, runs=facts, tables=tables, partitions=partitions)
    found = [kind.items(work) for kind in registry.ANOMALIES if kind.items and kind.looks_at_all_rows]
    # Where Spark reads all rows, leaving some out pays from more rows on.
    narrows = not is_small(rows if row_pass is not None else rows // _SPARK_FACTOR)
    narrowed = None
    if not narrows:
        possible = ruling_out.possible_kinds(_comparisons(spark, tables, blocks, inverted, facts, None))
    else:
        stage("comparing blocks")
        blocks, seen, inverted = kept.keep(blocks), kept.keep(seen), kept.keep(inverted)
        compared = _comparisons(spark, tables, blocks, inverted, facts, row_pass)
        possible, narrowed = _narrow(tables, compared, kept, row_pass)
        if narrowed is not None:
            tables = narrowed.tables
    sessions = None
    if polls is not None and seen is not None and tables.polls is not None and ruling_out.UNSEEN in possible:
        sessions = session_ranges(polls, seen, tables.polls)
    stage("comparing records")
    left = rows if narrowed is None else narrowed.rows
    one_part = narrowed is not None and row_pass is not None and fits_one_part(left)
    with contextlib.nullcontext() if not narrows else plans_for(spark, left, one_part=one_part):
        work = replace(work, tables=tables, readable=seen, sessions=sessions, inverted=inverted)
        found += _items(work, possible)
        summaries = [AnomalySummary() for _ in runs]
        items = None
        if some := [one for one in found if one is not None]:
            # Each kind has as many parts as there are shuffle partitions; most of them are empty.
            items = kept.keep(reduce(DataFrame.union, some).coalesce(parts(spark)))
            summaries = summarize(items, len(runs))
        stage("storing")
        store([run.record.folder for run in runs], items, [bool(one.anomalies) for one in summaries], runs[0].remote)
    return [
        Reconciliation(
            counts=one.counts,
            anomalies=summary.anomalies,
            unknown=_why_unknown(one),
            lost=summary.lost,
            regressions=summary.regressions,
            vanished=summary.vanished,
            gaps=one.gaps,
            duplicates=summary.duplicates,
            aborted_reads=summary.aborted_reads,
            hanging=summary.hanging,
            commits=summary.commits,
            copies=summary.copies,
            acked_commits=sum(each.rows for each in one.commits if each.status == "acked"),
            unchecked_commits=why_unchecked(one),
        )
        for one, summary in zip(facts, summaries, strict=True)
    ]


def _why_unknown(facts: Facts) -> dict[str, str]:
    """Return why kinds could not be judged, or not everywhere."""
    why = {kind.name: facts.not_whole() or kind.why_unknown(facts) for kind in registry.ANOMALIES}
    return {kind: reason for kind, reason in why.items() if reason is not None}


def _comparisons(
    spark: SparkSession,
    tables: RecordTables,
    blocks: DataFrame | None,
    inverted: DataFrame | None,
    runs: Sequence[Facts],
    row_pass: RowPass | None,
) -> Comparisons:
    """Return what says which kinds are possible, and which rows must be looked at one by one."""
    if row_pass is None:
        suspects = suspect_values(tables, None)
    else:
        sums = row_pass.value_sums()
        suspects = None if sums is None else suspicious(sums)
    return Comparisons(
        blocks=blocks,
        suspects=suspects,
        inverted=inverted,
        replicas=_differing_replicas(spark, tables, runs, row_pass),
        high_watermarks=suspicious_observations(tables, runs),
    )


def _differing_replicas(
    spark: SparkSession, tables: RecordTables, runs: Sequence[Facts], row_pass: RowPass | None
) -> DataFrame | None:
    checkpoints = replica_blocks.checkpoints_of(runs)
    if row_pass is not None and checkpoints:
        with contextlib.suppress(UnsuitedRows):
            sums = row_pass.replica_sums(checkpoints)
            return None if sums is None else replica_blocks.differing(sums)
    return replica_blocks.differing_blocks(spark, tables, runs)


def _narrow(
    tables: RecordTables, found: Comparisons, kept: FrameKeeper, row_pass: RowPass | None
) -> tuple[Set[str], NarrowedTables | None]:
    """Return which kinds are possible, as far as it is known, and the rows that count; None: too many may."""
    if row_pass is not None:
        answers = ruling_out.answers(found)
        if answers is None:
            return ruling_out.EVERYTHING, None
        with contextlib.suppress(UnsuitedRows):
            return answers.possible, narrow_rows(tables, answers, row_pass)
    some = [
        found.blocks.where("NOT agree").select(*BLOCK) if found.blocks is not None else None,
        inversions.blocks_before(found.inverted) if found.inverted is not None else None,
        found.replicas,
    ]
    differing = [one for one in some if one is not None]
    return ruling_out.EVERYTHING, narrow(tables, reduce(DataFrame.union, differing), kept) if differing else None


def _items(work: Work, possible: Set[str]) -> list[DataFrame | None]:
    """Return the items of the kinds that look at rows one by one, as far as they are `possible`."""
    found = [
        kind.items(work)
        for kind in registry.ANOMALIES
        if kind.items and not kind.looks_at_all_rows and (kind.question is None or kind.question in possible)
    ]
    # A last leader whose log differs from another replica's may differ from what was read.
    if not possible.isdisjoint((ruling_out.VALUES, ruling_out.REPLICAS)) and work.history is not None:
        found.append(_items_of_values(work.history, work.runs))
    return found


def _items_of_values(history: DataFrame, runs: Sequence[Facts]) -> DataFrame:
    """Return the items of the kinds that compare values, from one pass."""
    kinds = [kind.row(runs) for kind in registry.ANOMALIES if kind.row]
    return history.select(F.inline(F.array_compact(F.array(*kinds))))


_OF_THE_RECORD = ("FAILED_READ_FILE", "CAST_OVERFLOW", "ARITHMETIC_OVERFLOW")


def _as_usage_error(error: Exception, records: Sequence[Record]) -> Exception:
    """Return a `UsageError` for a file that is damaged behind its footer.

    Any other error stays as it is.
    """
    said = next((line for line in str(error).splitlines() if any(word in line for word in _OF_THE_RECORD)), None)
    if said is None:
        return error
    where = str(records[0]) if len(records) == 1 else f"one of {len(records)} records"
    return UsageError("a table's file is damaged", where=where, got=said, allowed="a whole Parquet file")
