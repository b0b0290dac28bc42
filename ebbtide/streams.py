"""Makes output survive a closed pipe and a closed terminal.

`| head` neither ends a command nor changes its exit code, and neither does a terminal that is closed under `nohup`.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from typing import Any


class _DiscardingAfterClose(io.FileIO):
    """A file that discards what is written once its reader is gone."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            # EIO of a file is a broken disk; EIO of a terminal says that the terminal is closed.
            is_closed = error.errno == errno.EPIPE or (error.errno == errno.EIO and self._is_device())
            if not is_closed:
                raise
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, self.fileno())
            os.close(devnull)
            return super().write(data)

    def _is_device(self) -> bool:
        return stat.S_ISCHR(os.fstat(self.fileno()).st_mode)


def ignore_closed_pipes() -> None:
    """Keep `print` from failing when the reader or the terminal of stdout or stderr is gone."""
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
