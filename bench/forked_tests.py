"""Runs unit tests in a fork of this process, which has its modules as they are now, for example with a mutant."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

NOT_ENDED = "the unit tests do not end"
_OPTIONS = ("-q", "-x", "--assert=plain", "-p", "no:cacheprovider")


def failing_test(paths: Sequence[Path], *, ends_s: float) -> str | None:
    """Return the name of the first unit test that fails; None: none does.

    Raises `RuntimeError` when pytest itself fails. After so many seconds, they are taken to go on for ever.
    """
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_run, args=(theirs, paths))
    child.start()
    theirs.close()
    try:
        if not mine.poll(ends_s):
            return NOT_ENDED
        found: str | None = mine.recv()
        return found
    except EOFError as error:
        raise RuntimeError("the unit tests' process died") from error
    finally:
        child.kill()
        child.join()


class _FirstFailure:
    """A plugin of pytest that keeps the first test, or the first file, that failed."""

    def __init__(self) -> None:
        self.name: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the result of a test."""
        self._take(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take the result of a file's import."""
        self._take(report)

    def _take(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and self.name is None:
            self.name = report.nodeid.rpartition("/")[2]


def _run(to: Connection, paths: Sequence[Path]) -> None:
    first, said = _FirstFailure(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main([*_OPTIONS, *map(str, paths)], plugins=[first])
    if code != 0 and first.name is None:
        raise RuntimeError(f"pytest ends with {code}: {said.getvalue()}")
    to.send(first.name)
