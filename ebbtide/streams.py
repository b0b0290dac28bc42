"""Makes output survive a closed pipe.

`| head` neither ends a command nor changes its exit code.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class _DiscardingAfterClose(io.FileIO):
    """A file that discards what is written once its reader is gone."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, self.fileno())
            os.close(devnull)
            return super().write(data)


def ignore_closed_pipes() -> None:
    """Keep `print` from failing when the reader of stdout or stderr is gone."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, for as long as the process lives
            continue
        if stream is not getattr(sys, f"__{name}__"):  # replaced, for example by a test
            continue
        stream.flush()
        stream_ = io.TextIOWrapper(
            io.BufferedWriter(_DiscardingAfterClose(stream.fileno(), "w", closefd=False)),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering or stream.write_through,
        )
        setattr(sys, name, stream_)
