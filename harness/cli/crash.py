"""Writes the traceback of a bug in Ebbtide to a file, and names that file."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import sys
import tempfile
import traceback
from pathlib import Path

from ebbtide.errors import HarnessError
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
