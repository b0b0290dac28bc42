"""One Spark session for the records that a verb judges: one after the other, started with the first, or all at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from harness.errors import EbbtideError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analysis.verdict import Verdict

JudgeTogether: TypeAlias = "Callable[[Sequence[Path]], dict[Path, Verdict]]"


@contextlib.contextmanager
def judging(records: Sequence[Path]) -> Iterator[Callable[[Path], Verdict]]:
    """A function that judges a record and writes its verdict; `records` say how much there is to come."""
    from harness.signals import unwinding

    with unwinding(), contextlib.ExitStack() as stack:
        started: list[SparkSession] = []

        def judge_one(record: Path) -> Verdict:
            from analysis.judge.judging import judge
            from analysis.reconcile.files import rows_of
            from analysis.reconcile.session import session

            if not started:
                started.append(stack.enter_context(session(rows=rows_of(records))))
            return judge(record, started[0])

        yield judge_one


@contextlib.contextmanager
def judging_together() -> Iterator[JudgeTogether]:
    """A function that judges records in the same Spark jobs and writes their verdicts, as often as it is called.

    It raises `EbbtideError` for the first that cannot be judged. The session is as large as the first call asks for.
    """
    from harness.signals import unwinding

    with unwinding(), contextlib.ExitStack() as stack:
        started: list[SparkSession] = []

        def judge_all(records: Sequence[Path]) -> dict[Path, Verdict]:
            from analysis.judge.many import Bug, judge_many
            from analysis.reconcile.files import rows_of
            from analysis.reconcile.session import session

            verdicts: dict[Path, Verdict] = {}
            if records and not started:
                started.append(stack.enter_context(session(rows=rows_of(records))))
            for record, verdict in judge_many(records, started[0]) if records else ():
                if isinstance(verdict, EbbtideError):
                    raise verdict.error if isinstance(verdict, Bug) else verdict
                verdicts[record] = verdict
            return verdicts

        yield judge_all
