"""Prints why a record cannot be judged, and writes the traceback of a bug in Ebbtide to a file."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import sys
import tempfile
import traceback
from pathlib import Path

from ebbtide.errors import EbbtideError, ExitCode, HarnessError
from ebbtide.places import state_dir
from ebbtide.version import version_text


def write_crash_report(error: BaseException) -> str:
    """Write the traceback of `error` to a new file; return the message for stderr."""
    text = (
        f"ebbtide {version_text()}, Python {platform.python_version()}, {platform.platform()}\n"
        f"command: {' '.join(sys.argv)}\n\n{''.join(traceback.format_exception(error))}"
    )
    summary = (
        f"internal error, a bug in ebbtide: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    )
    folders = [Path(tempfile.gettempdir())]
    with contextlib.suppress(HarnessError):  # this user may have no home folder
        folders.insert(0, state_dir() / "crashes")
    for folder in folders:
        moment = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%fZ")
        path = folder / f"ebbtide-crash-{moment}-{os.getpid()}.txt"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        except OSError:
            continue
        return f"error: {summary}\n  where:   {path}"
    return f"error: {summary}\n{text}"


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
