"""Prints why a record cannot be judged."""

from __future__ import annotations

import sys

from ebbtide.errors import EbbtideError, ExitCode
from harness.cli.crash import write_crash_report


def print_failure(record: str, failure: str) -> None:
    """Print why a record was not judged, in the words of the process that tried."""
    print(f"error: {'' if record in failure else f'{record}: '}{failure}", file=sys.stderr)


def print_error(record: str, error: EbbtideError) -> ExitCode:
    """Print why a record cannot be judged, and for a bug where its traceback is."""
    from analysis.judging.many_records import Bug
    from ebbtide.record.manifest import NoRecord

    if isinstance(error, NoRecord):
        error.allowed = "a run record (a folder with a manifest.json), or a folder of run records"
    named = error.where is not None and error.where.startswith(record)
    print(f"error: {'' if named else f'{record}: '}{error.render()}", file=sys.stderr)
    if isinstance(error, Bug):
        print(write_crash_report(error.error), file=sys.stderr)
    return error.exit_code
