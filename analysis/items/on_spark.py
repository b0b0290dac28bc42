"""Finds the items of runs in which a kind of anomaly can occur, with Spark.

Importing it imports PySpark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import reduce
from types import TracebackType
from typing import TypeAlias, overload

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analysis.items.store import store
from analysis.items.summary import AnomalySummary, summarize
from analysis.judge.rules import registry
from analysis.reconcile.work import Work
from analysis.record.record import Record
from analysis.rows.choose import choose
from analysis.rows.facts import Facts
from analysis.rows.question import KindQuestion
from analysis.rows.summing import SummedRun
from analysis.spark.columns import partition_facts
from analysis.spark.parts import parts
from analysis.spark.session import fits_one_part, one_call_site, plans_for
from analysis.spark.tables import RecordTables, StagedTables, staged_tables
from ebbtide.errors import UsageError


class FrameKeeper(AbstractContextManager["FrameKeeper"]):
    """Keeps frames that several jobs read from their first use until the end of the block.

    A kept frame is a leaf of the plans that are built on it. Spark goes through the whole plan below a frame at each
    step that is built on it, and that took more time than all other planning.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._frames: list[DataFrame] = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for frame in self._frames:
            frame.unpersist()

    @overload
    def keep(self, frame: DataFrame) -> DataFrame: ...

    @overload
    def keep(self, frame: None) -> None: ...

    def keep(self, frame: DataFrame | None) -> DataFrame | None:
        """Return the same rows, computed when a job first needs them, and kept.

        They are in memory as far as there is room, else on disk. What a lost executor held is
        computed again.
        """
        if frame is None:
            return None
        self._frames.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        # The plan of a persisted frame is a leaf that reads the kept rows. So is a local
        # checkpoint, but its rows are lost with the executor that held them.
        dataset = self._spark._jvm.org.apache.spark.sql.classic.Dataset  # type: ignore[union-attr]
        leaf = frame._jdf.queryExecution().withCachedData()
        return DataFrame(dataset.ofRows(self._spark._jsparkSession, leaf), self._spark)


Spark: TypeAlias = SparkSession | Callable[[], SparkSession]
"""A session, or what starts it: only if a kind of anomaly can occur."""


def find_items(
    spark: Spark, asked: Sequence[SummedRun], runs: Sequence[Record], stage: Callable[[str], None]
) -> list[AnomalySummary]:
    """Find, count and store the items of all runs; only the runs `asked` can have any.

    Returns a summary for each run. Raises for rows of any of them.
    """
    summaries = [AnomalySummary() for _ in runs]
    folders = [run.folder for run in runs]
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
        raise _as_usage_error(error, runs) from None
    return summaries


def _items(
    spark: SparkSession, staged: StagedTables, summed: Sequence[SummedRun], kept: FrameKeeper
) -> list[DataFrame]:
    """Return the items of the kinds that can occur."""
    facts, runs = [one.facts for one in summed], [one.run for one in summed]
    tables = RecordTables(**{name: staged.record_table(name, runs) for name in RecordTables.__struct_fields__})
    work = Work(
        spark=spark,
        runs=facts,
        tables=tables,
        partitions=partition_facts(spark, facts),
        made=[one.answers.rows for one in summed],
        staged=staged,
        keep=kept.keep,
    )
    possible = frozenset[type[KindQuestion]]().union(*(one.answers.possible for one in summed))
    kinds = [kind for kind in registry.ANOMALIES if not possible.isdisjoint(kind.questions)]
    found = [kind.items(work) for kind in kinds if kind.items]
    if any(kind.row for kind in kinds) and work.history is not None:
        found.append(_items_of_values(work.history, work.runs))
    return [one for one in found if one is not None]


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
    where = str(records[0]) if len(records) == 1 else f"one of {len(records)} runs"
    return UsageError("a table's file is damaged", where=where, got=said, next="copy the record here again")
