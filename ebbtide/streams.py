"""Makes output survive a closed pipe and a closed terminal, and keeps control characters out of it.

`| head` neither ends a command nor changes its exit code, and neither does a terminal that is closed under `nohup`.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import sys
from collections.abc import Iterator
from typing import Any

from ebbtide.shown_text import escape_controls


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


class _EscapingStream:
    """A text stream that shows control characters as escapes; all else is that of `stream`.

    `rich_proxied_file` is how rich finds the stream that it writes colours and cursor movements to.
    """

    def __init__(self, stream: Any) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(escape_controls(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextlib.contextmanager
def escape_output() -> Iterator[None]:
    """Show control characters in the output as escapes while the block runs.

    Names in records, stores and scenarios are somebody else's, and a terminal obeys control characters.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _EscapingStream(sys.stdout), _EscapingStream(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
