"""One Spark session for the records that a verb judges, started with the first: one after the other, or all at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ebbtide.errors import EbbtideError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ebbtide.record.verdict import Verdict

JudgeTogether: TypeAlias = "Callable[[Sequence[Path]], dict[Path, Verdict | EbbtideError]]"
"""Each record with its verdict, or with why it could not be judged."""


@contextlib.contextmanager
def judging(records: Sequence[Path]) -> Iterator[Callable[[Path], Verdict]]:
    """A function that judges a record and writes its verdict; `records` say how much there is to come."""
    with _session_when_asked() as session_for:

        def judge_one(record: Path) -> Verdict:
            from analysis.judging.one_record import judge

            return judge(record, session_for(records))

        yield judge_one


@contextlib.contextmanager
def judging_together(complain: Callable[[str, EbbtideError], object] | None = None) -> Iterator[JudgeTogether]:
    """A function that judges records in the same Spark jobs and writes their verdicts, as often as it is called.

    A record that cannot be judged stops no other; `complain` hears of it. By default it is told on stderr, and a bug
    with the file of its traceback. The session is as large as the first call asks for.
    """
    with _session_when_asked() as session_for:

        def judge_all(records: Sequence[Path]) -> dict[Path, Verdict | EbbtideError]:
            from analysis.judging.many_records import judge_many
            from harness.cli.analyze import complain as told_on_stderr

            ends: dict[Path, Verdict | EbbtideError] = {}
            for record, end in judge_many(records, session_for(records)) if records else ():
                if isinstance(end, EbbtideError):
                    (complain or told_on_stderr)(str(record), end)
                ends[record] = end
            return ends

        yield judge_all


@contextlib.contextmanager
def _session_when_asked() -> Iterator[Callable[[Sequence[Path]], SparkSession]]:
    """A function that gives the session, large enough for the records that it is first asked for."""
    from ebbtide.signals import unwinding

    with unwinding(), contextlib.ExitStack() as stack:
        started: list[SparkSession] = []

        def session_for(records: Sequence[Path]) -> SparkSession:
            from analysis.reconcile.files import rows_of
            from analysis.reconcile.session import session

            if not started:
                started.append(stack.enter_context(session(rows=rows_of(records))))
            return started[0]

        yield session_for
