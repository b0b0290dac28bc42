"""Standard output and standard error that outlive their reader: `| head` ends no command, and changes no exit code."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class _Outliving(io.FileIO):
    """Once nobody reads, what is written goes nowhere."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return super().write(data)


def outlive_readers() -> None:
    """Let nothing that is printed from now on fail because its reader has gone away."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # it was closed
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, for as long as the process lives
            continue
        if stream is not getattr(sys, f"__{name}__"):  # somebody else's, such as a test's
            continue
        stream.flush()
        outliving = io.TextIOWrapper(
            io.BufferedWriter(_Outliving(stream.fileno(), "w", closefd=False)),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering or stream.write_through,
        )
        setattr(sys, name, outliving)
