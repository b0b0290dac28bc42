"""One Spark session for the records that a verb judges one after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.verdict import Verdict


@contextlib.contextmanager
def judging(records: Sequence[Path]) -> Iterator[Callable[[Path], Verdict]]:
    """A function that judges a record and writes its verdict; `records` say how much there is to come."""
    from analysis.judge.judging import judge
    from analysis.reconcile.files import rows_of
    from analysis.reconcile.session import session
    from harness.signals import unwinding

    with unwinding(), session(rows=rows_of(records)) as spark:
        yield lambda record: judge(record, spark)
