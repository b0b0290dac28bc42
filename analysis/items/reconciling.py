"""Reconciles run records, any number in the same jobs: from tables to anomalies.

The order is: NumPy sums up the rows of each run, and says which kinds can occur (the package rows). Where none can, no
Java process is needed. Else Spark gets the rows that may be in an anomaly, and finds the items of every kind that can
occur. They are kept while they are counted and stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.items.store import check_writable, store
from analysis.items.summary import AnomalySummary
from analysis.judge.rules import registry
from analysis.reconcile.commits import why_unchecked
from analysis.reconcile.model import Reconciliation
from analysis.record.record import Record
from analysis.rows.summing import SummedRun, sum_up
from ebbtide.errors import EbbtideError
from ebbtide.record.tables import TABLES
from ebbtide.scratch import SPARK, ScratchFolder

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark


def check_record(record: Record) -> None:
    """Check a record for `reconcile_checked`, as far as that is possible before rows are read.

    Raises `UsageError` when a file of the record is damaged or does not fit the record format, `HarnessError`
    when the record cannot be written to.
    """
    if record.remote is not None:
        record.remote.check_writable()
    else:
        check_writable(record.folder)
    with record.kept_open(*TABLES):
        _ = record.checked, record.gaps


def reconcile_checked(
    spark: Spark, runs: Sequence[Record], stage: Callable[[str], None] = lambda _: None
) -> list[Reconciliation | EbbtideError]:
    """Find the anomalies of several checked records in the same jobs, and write all of them to their anomalies/.

    A record whose rows cannot be read has an error instead. `stage` is called with each stage.

    Raises where the jobs fail, or the items cannot be stored, and then none is done.
    """
    stage("summing up")
    errors, summed = dict[int, EbbtideError](), list[SummedRun]()
    with ExitStack() as until_done:
        questions = registry.questions()
        for at, run in enumerate(runs):
            try:
                summed.append(sum_up(run, len(summed), _folder_of(until_done), questions))
            except EbbtideError as error:
                errors[at] = error
    found = iter(_reconcile_summed(spark, summed, stage) if summed else ())
    return [errors[at] if at in errors else next(found) for at in range(len(runs))]


def _reconcile_summed(spark: Spark, summed: Sequence[SummedRun], stage: Callable[[str], None]) -> list[Reconciliation]:
    """Find and store the items of records that were summed up; no job runs where there can be none."""
    runs = [one.run for one in summed]
    asked = [one for one in summed if one.answers.possible]
    if asked:
        from analysis.items.on_spark import find_items

        summaries = find_items(spark, asked, runs, stage)
    else:
        stage("storing")
        store([run.folder for run in runs], None, [False for _ in runs], runs[0].remote)
        summaries = [AnomalySummary() for _ in runs]
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
    why = {
        kind.name: facts.not_whole()
        or (kind.why_unknown(facts) if kind.why_unknown is not None else None)
        or next((one.answers.unknown[each] for each in kind.questions if each in one.answers.unknown), None)
        for kind in registry.ANOMALIES
    }
    return Reconciliation(
        counts=facts.counts,
        anomalies=summary.anomalies,
        unknown={kind: reason for kind, reason in why.items() if reason is not None},
        groups=summary.groups,
        acked_commits=sum(each.rows for each in facts.commits if each.status == "acked"),
        unchecked_commits=why_unchecked(facts),
    )
