"""Judges the records of a verb in one Spark session, one by one or together.

The session starts with the first record.
"""

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
"""Returns each record with its verdict, or with the error that kept it from being judged."""


@contextlib.contextmanager
def open_judge(records: Sequence[Path]) -> Iterator[Callable[[Path], Verdict]]:
    """Yield a function that judges a record and writes its verdict.

    `records` are all records that will be judged; they set the size of the session.
    """
    with _lazy_session() as session_for:

        def judge_one(record: Path) -> Verdict:
            from analysis.judging.one_record import judge

            return judge(record, session_for(records))

        yield judge_one


@contextlib.contextmanager
def judging_together(on_error: Callable[[str, EbbtideError], object] | None = None) -> Iterator[JudgeTogether]:
    """Yield a function that judges records together and writes their verdicts.

    The records share Spark jobs. It may be called several times; the first call sets the size of the session. A
    record that cannot be judged does not stop the others, and `on_error` gets its error. By default that prints the
    error to stderr, and for a bug also the file with the traceback.
    """
    with _lazy_session() as session_for:

        def judge_all(records: Sequence[Path]) -> dict[Path, Verdict | EbbtideError]:
            from analysis.judging.many_records import judge_many
            from harness.cli.analyze import print_error

            ends: dict[Path, Verdict | EbbtideError] = {}
            for record, end in judge_many(records, session_for(records)) if records else ():
                if isinstance(end, EbbtideError):
                    (on_error or print_error)(str(record), end)
                ends[record] = end
            return ends

        yield judge_all


@contextlib.contextmanager
def _lazy_session() -> Iterator[Callable[[Sequence[Path]], SparkSession]]:
    """Yield a function that returns the session, started for its first records."""
    from ebbtide.signals import unwind_on_signals

    with unwind_on_signals(), contextlib.ExitStack() as stack:
        started: list[SparkSession] = []

        def session_for(records: Sequence[Path]) -> SparkSession:
            from analysis.reconcile.files import rows_of
            from analysis.reconcile.session import session

            if not started:
                started.append(stack.enter_context(session(rows=rows_of(records))))
            return started[0]

        yield session_for
