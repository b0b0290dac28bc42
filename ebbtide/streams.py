"""Makes output survive a closed pipe and a closed terminal, and decides how it looks.

Each line fits the terminal's width, or 80 columns elsewhere, and control characters in it are shown as escapes.

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

from ebbtide.folding import fold_line, shown_width
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


class _ShownStream:
    """A text stream that folds lines between words, and shows control characters as escapes.

    All else is that of `stream`. `rich_proxied_file` is how rich finds the stream that it writes colours and cursor
    movements to.
    """

    def __init__(self, stream: Any) -> None:
        self.rich_proxied_file = stream
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._put(line, "\n")
        return len(text)

    def write_verbatim(self, text: str) -> None:
        """Write lines that a program reads, as wide as they are."""
        self._put_begun()
        self.rich_proxied_file.write(escape_controls(text))

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self._put_begun()
        self.rich_proxied_file.flush()

    def _put_begun(self) -> None:
        if self._begun:
            self._put(self._begun)
            self._begun = ""

    def _put(self, line: str, end: str = "") -> None:
        self.rich_proxied_file.write("\n".join(fold_line(escape_controls(line), shown_width())) + end)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextlib.contextmanager
def shown_output() -> Iterator[None]:
    """Fold wide lines of the output, and show control characters in it as escapes, while the block runs.

    Names in records, stores and scenarios are somebody else's, and a terminal obeys control characters.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _ShownStream(sys.stdout), _ShownStream(sys.stderr)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, _ShownStream):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
        sys.stdout, sys.stderr = before


def print_verbatim(text: str) -> None:
    """Print lines that a program reads or that are code, without folding them."""
    if isinstance(sys.stdout, _ShownStream):
        sys.stdout.write_verbatim(f"{text}\n")
    else:
        sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
