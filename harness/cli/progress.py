"""Says on stderr what an analysis is about to do, and how far a search is.

`ebbtide.judging_progress` says how far an analysis is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ebbtide.judging_progress import Heartbeat
from ebbtide.shown_text import plural, some_of

FIRST_TIME = "the first analysis of this installation can take three minutes"

_NAMED_MAX = 3
"""How many of the records that are about to be judged are named."""


def records_note(records: Sequence[str]) -> str:
    """Return what is about to be judged, and for several runs that this changes their records.

    A folder may hold more records than its user thinks.
    """
    note = f"judging {plural(len(records), 'run')}"
    if len(records) < 2:
        return note
    return f"{note}, and replacing the verdict and the report in each: {some_of(records, _NAMED_MAX)}"


@contextmanager
def shown_progress() -> Iterator[Callable[[int, int], None]]:
    """Yield what shows on a terminal how far a search is, and leaves nothing there at its end."""
    if not sys.stderr.isatty():
        yield lambda done, of: None
        return
    from ebbtide.shown_console import PlainTextConsole

    with PlainTextConsole(stderr=True).status("searching the model") as status:
        yield lambda done, of: status.update(f"searching the model: {done:,} of {of:,}")


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


def report_records(beat: Heartbeat, records: Sequence[str], *, first: bool) -> None:
    """Print which records are about to be judged. `first`: Spark starts for the first time here."""
    beat.records = len(records)
    longer = f" ({FIRST_TIME})" if first else ""
    print(f"{records_note(records)}{longer}", file=sys.stderr, flush=True)
