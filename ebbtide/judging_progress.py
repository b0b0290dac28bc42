"""Says every 10 s how far judging is: the stage, the runs that are done, and since when.

Everybody who waits for a verdict gets these lines, also in a pipe and in pytest.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from ebbtide.shown_text import plural

EVERY_S = 10.0

STAGES = (
    "reading",
    "summing up",
    "starting Spark",
    "choosing rows",
    "comparing records",
    "storing",
    "judging",
)
"""The stages of an analysis in their order. Spark starts only where an anomaly can occur."""

_LINE = re.compile(r"^judging for \d+ s: .* done, stage (\d.*)\n", re.MULTILINE)


def place_of(stage: str) -> str:
    """Return a stage with its place among all: `1 of 7: reading`."""
    return f"{STAGES.index(stage) + 1} of {len(STAGES)}: {stage}"


def progress_line(since_s: float, done: int, records: int, place: str) -> str:
    """Return the line for those who wait since `since_s` seconds; `place` is that of the stage."""
    return f"judging for {since_s:.0f} s: {done:,} of {plural(records, 'run')} done, stage {place}"


def last_place(text: str) -> str | None:
    """Return the place of the stage in the last progress line of a text; None if it has none."""
    places = _LINE.findall(text)
    return places[-1] if places else None


def print_line(line: str) -> None:
    """Print a line to stderr at once."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class Heartbeat:
    """Prints the progress of this process to stderr while its block runs, every 10 s.

    With `each_stage`, also whenever a stage begins.
    """

    def __init__(self, records: int = 0, *, each_stage: bool = False) -> None:
        self.records = records
        self._each_stage = each_stage
        self._done = 0
        self._place = place_of(STAGES[0])
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="judging progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def stage(self, doing: str) -> None:
        """Note what is being done now."""
        self._place = place_of(doing)
        if self._each_stage:
            self._print()

    def report_judged(self) -> None:
        """Note that a record has its verdict, or an error."""
        self._done += 1

    def _beat(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._print()

    def _print(self) -> None:
        print_line(progress_line(time.monotonic() - self._began, self._done, self.records, self._place))


class ProgressListener:
    """Passes on the progress lines in the output of another process."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._heard = 0

    def hear(self, output: str) -> None:
        """Pass on the lines that came since the last call; `output` is all that the process has printed."""
        for found in _LINE.finditer(output, self._heard):
            self._heard = found.end()
            self._say(found[0].rstrip("\n"))

    def hear_line(self, line: str) -> None:
        """Pass on a line if it is a progress line."""
        if _LINE.match(f"{line}\n"):
            self._say(line)
