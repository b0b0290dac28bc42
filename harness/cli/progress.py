"""Shows the progress of a long analysis on stderr.

It shows a bar on a terminal, else a line every 10 s.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ebbtide.judging_progress import Heartbeat, place_of
from ebbtide.shown_text import plural

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

FIRST_TIME = "the first analysis of this installation can take three minutes"

_LOOK_EVERY_S = 0.5
_NAMED_MAX = 3
"""How many of the records that are about to be judged are named."""


def records_note(records: Sequence[str]) -> str:
    """Return what is about to be judged, and for several records that this changes them.

    A folder may hold more records than its user thinks.
    """
    note = f"judging {plural(len(records), 'record')}"
    if len(records) < 2:
        return note
    more = f" and {len(records) - _NAMED_MAX:,} more" if len(records) > _NAMED_MAX else ""
    return f"{note}, and replacing the verdict and the report in each: {', '.join(records[:_NAMED_MAX])}{more}"


def judging_note() -> str:
    """Return the note that judging begins.

    The first time it warns that judging is slow.
    """
    from analysis.spark.java_start import is_first_session

    return f"judging ({FIRST_TIME})" if is_first_session() else "judging"


def print_saving() -> None:
    """Say why a first analysis does not end once its verdict is printed."""
    sys.stdout.flush()  # into a pipe, the verdict would come only at the end
    print("saving Spark's classes, so that later analyses start sooner", file=sys.stderr, flush=True)


class Progress:
    """Receives the progress of an analysis, and prints lines."""

    def __init__(self, beat: Heartbeat) -> None:
        self._beat = beat

    def report_records(self, records: Sequence[str], *, first: bool = False) -> None:
        """Report the names of the records to judge. `first`: Spark starts for the first time here."""
        self._beat.records = len(records)
        longer = f" ({FIRST_TIME})" if first else ""
        print(f"{records_note(records)}{longer}", file=sys.stderr, flush=True)

    def stage(self, doing: str) -> None:
        """Report what is being done now."""
        self._beat.stage(doing)

    def report_judged(self, name: str) -> None:
        """Report that the record in a folder of this name has its verdict, or an error."""
        self._beat.report_judged()

    def watch(self, spark: SparkSession) -> None:
        """Follow the jobs of this Spark session, on a terminal."""


@contextmanager
def shown_progress(console: Console | None = None) -> Iterator[Progress]:
    """Show the progress of an analysis while the block runs, on stderr or on a console that is a terminal."""
    if console is None and not sys.stderr.isatty():
        with Heartbeat() as beat:
            yield Progress(beat)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    from ebbtide.shown_console import UNROUTED, PlainTextConsole

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console or PlainTextConsole(stderr=True), transient=True, **UNROUTED) as bar:
        shown = _OnTerminal(bar)
        try:
            yield shown
        finally:
            shown.close()


class _OnTerminal(Progress):
    """One bar for records, and one for the stages of Spark's jobs."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._all: TaskID = bar.add_task("records", total=None)
        self._doing: TaskID = bar.add_task("judging", total=None)
        self._ended = threading.Event()
        self._watcher: threading.Thread | None = None

    def report_records(self, records: Sequence[str], *, first: bool = False) -> None:
        self._bar.update(self._all, total=len(records))
        if len(records) > 1:
            self._bar.console.print(records_note(records), soft_wrap=True)
        if first:
            self._bar.console.print(f"judging: {FIRST_TIME}")

    def stage(self, doing: str) -> None:
        self._bar.reset(self._doing, description=f"judging {place_of(doing)}", total=None)

    def report_judged(self, name: str) -> None:
        self._bar.update(self._all, advance=1, description=f"records, the last {name}")

    def watch(self, spark: SparkSession) -> None:
        self._watcher = threading.Thread(target=self._look, args=(spark,), daemon=True)
        self._watcher.start()

    def close(self) -> None:
        self._ended.set()
        if self._watcher is not None:
            self._watcher.join()

    def _look(self, spark: SparkSession) -> None:
        tracker = spark.sparkContext.statusTracker()
        while not self._ended.wait(_LOOK_EVERY_S):
            try:
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            except Exception:  # the session is being closed
                return
            tasks = [stage for stage in stages if stage is not None]
            if tasks:
                total = sum(stage.numTasks for stage in tasks)
                self._bar.update(self._doing, total=total, completed=sum(stage.numCompletedTasks for stage in tasks))
