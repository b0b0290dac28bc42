"""Reconciles run records, any number in the same jobs: from tables to anomalies.

The order is: NumPy sums up the rows of each run, and says which kinds can occur (the package rows). Where none can, no
Java process is needed. Else Spark gets the rows that may be in an anomaly, and finds the items of every kind that can
occur. They are kept while they are counted and stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, reduce
from pathlib import Path
from typing import TypeAlias

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analysis.items.store import check_writable, store
from analysis.items.summary import AnomalySummary, summarize
from analysis.judge.rules import registry
from analysis.reconcile.commits import why_unchecked
from analysis.reconcile.final_log_rows import readable_blocks, session_ranges
from analysis.reconcile.model import Reconciliation
from analysis.reconcile.work import Work
from analysis.record.record import Record
from analysis.remote.record import NO_COPIES, Copies, RemoteRecord
from analysis.rows import questions
from analysis.rows.choose import choose
from analysis.rows.compare import READABLE, SESSIONS
from analysis.rows.facts import Facts
from analysis.rows.order import INVERSIONS
from analysis.rows.runs import RunFiles, run_files
from analysis.rows.summing import SummedRun, sum_up
from analysis.spark.columns import partition_facts
from analysis.spark.keeping import FrameKeeper
from analysis.spark.parts import parts
from analysis.spark.session import fits_one_part, one_call_site, plans_for
from analysis.spark.tables import RecordTables, StagedTables, staged_tables
from ebbtide.errors import UsageError
from ebbtide.scratch import SPARK, ScratchFolder

Spark: TypeAlias = SparkSession | Callable[[], SparkSession]
"""A session, or what starts it: only if a kind of anomaly can occur."""


def reconcile(spark: Spark, record: Record, stage: Callable[[str], None] = lambda _: None) -> Reconciliation:
    """Find the anomalies of a record, and write all of them to its anomalies/; `stage` is called with each stage.

    Raises `UsageError` when a file of the record is damaged or does not fit the record format, `HarnessError`
    when the record cannot be written to.
    """
    return reconcile_all(spark, [record], stage)[0]


def reconcile_all(
    spark: Spark,
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
    spark: Spark, runs: Sequence[RunFiles], stage: Callable[[str], None] = lambda _: None
) -> list[Reconciliation]:
    """Reconcile several runs in the same jobs.

    Raises for rows of any of them, and then none is done.
    """
    stage("summing up")
    with ExitStack() as until_done:
        summed = [sum_up(run, number, _folder_of(until_done)) for number, run in enumerate(runs)]
    folders = [run.record.folder for run in runs]
    summaries = [AnomalySummary() for _ in runs]
    asked = [one for one in summed if one.answers.possible]
    if not asked:
        stage("storing")
        store(folders, None, [False for _ in runs], runs[0].remote)
        return [_reconciliation(one, summary) for one, summary in zip(summed, summaries, strict=True)]
    try:
        if not isinstance(spark, SparkSession):
            stage("starting Spark")
        session = spark if isinstance(spark, SparkSession) else spark()
        with ExitStack() as until_done:
            stage("choosing rows")
            staged = until_done.enter_context(staged_tables(session, [one.run for one in asked]))
            for one in asked:
                choose(one, staged.add)
            until_done.enter_context(plans_for(session, staged.rows, one_part=fits_one_part(staged.rows)))
            until_done.enter_context(one_call_site(session))
            kept = until_done.enter_context(FrameKeeper(session))
            stage("comparing records")
            if some := _items(session, staged, asked, kept):
                # Each kind has as many parts as there are shuffle partitions; most of them are empty.
                items = kept.keep(reduce(DataFrame.union, some).coalesce(parts(session)))
                summaries = summarize(items, len(runs))
            else:
                items = None
            stage("storing")
            store(folders, items, [bool(one.anomalies) for one in summaries], runs[0].remote)
    except (Py4JJavaError, PySparkException) as error:
        # To Spark, a file system that went away looks like a damaged file.
        for run in runs:
            if run.remote is not None:
                run.remote.check_answers()
        raise _as_usage_error(error, [run.record for run in runs]) from None
    return [_reconciliation(one, summary) for one, summary in zip(summed, summaries, strict=True)]


def _folder_of(until_done: ExitStack) -> Callable[[], Path]:
    """Return what makes a scratch folder when it is first called; it is removed at the end of the block."""

    @cache
    def folder() -> Path:
        scratch = ScratchFolder(SPARK)
        until_done.callback(scratch.remove)
        return scratch.path

    return folder


def _reconciliation(one: SummedRun, summary: AnomalySummary) -> Reconciliation:
    facts = one.facts
    why = {kind.name: facts.not_whole() or kind.why_unknown(facts) for kind in registry.ANOMALIES}
    return Reconciliation(
        counts=facts.counts,
        anomalies=summary.anomalies,
        unknown={kind: reason for kind, reason in why.items() if reason is not None},
        lost=summary.lost,
        regressions=summary.regressions,
        vanished=summary.vanished,
        duplicates=summary.duplicates,
        aborted_reads=summary.aborted_reads,
        hanging=summary.hanging,
        commits=summary.commits,
        copies=summary.copies,
        acked_commits=sum(each.rows for each in facts.commits if each.status == "acked"),
        unchecked_commits=why_unchecked(facts),
    )


def _items(
    spark: SparkSession, staged: StagedTables, summed: Sequence[SummedRun], kept: FrameKeeper
) -> list[DataFrame]:
    """Return the items of the kinds that can occur."""
    possible = frozenset[str]().union(*(one.answers.possible for one in summed))
    work = _work(spark, staged, summed, kept, possible)
    found = [
        kind.items(work)
        for kind in registry.ANOMALIES
        if kind.items and (kind.question is None or kind.question in possible)
    ]
    # A last leader whose log differs from another replica's may differ from what was read.
    if not possible.isdisjoint((questions.VALUES, questions.REPLICAS)) and work.history is not None:
        found.append(_items_of_values(work.history, work.runs))
    return [one for one in found if one is not None]


def _work(
    spark: SparkSession, staged: StagedTables, summed: Sequence[SummedRun], kept: FrameKeeper, possible: Set[str]
) -> Work:
    """Return what the kinds that are possible look at."""
    facts, runs = [one.facts for one in summed], [one.run for one in summed]
    tables = RecordTables(**{name: staged.record_table(name, runs) for name in RecordTables.__struct_fields__})
    work = Work(spark=spark, runs=facts, tables=tables, partitions=partition_facts(spark, facts))
    if questions.ORDER in possible:
        for one in summed:
            staged.add("inversions", one.answers.inversions)
        work = replace(work, inverted=staged.frame("inversions", INVERSIONS))
    if tables.polls is None or possible.isdisjoint((questions.UNSEEN, questions.SKIPS)):
        return work
    for one in summed:
        staged.add("readable", one.answers.readable)
        staged.add("sessions", one.answers.sessions)
    readable = staged.frame("readable", READABLE)
    if any(one.answers.readable["shown_mask"].null_count for one in summed):
        readable = kept.keep(readable_blocks(readable, tables))
    sessions = session_ranges(staged.frame("sessions", SESSIONS), tables.polls)
    return replace(work, readable=readable, sessions=sessions)


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
