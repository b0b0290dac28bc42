"""A scenario file that a verb writes: whether it can be, asked before a long search, and the error when it cannot."""

from __future__ import annotations

import os
from pathlib import Path

from ebbtide.errors import UsageError


def check_place(out: Path) -> None:
    """Raise `UsageError` where no file can be written, as far as can be told without writing one."""
    folder = out.parent
    if (
        not os.access(folder, os.X_OK)
        or not folder.is_dir()
        or out.is_dir()
        or not os.access(out if out.exists() else folder, os.W_OK)
    ):
        raise _refused(out, None)


def refuse_existing(out: Path) -> None:
    """Raise `UsageError` where a file would be overwritten."""
    if out.is_file():
        raise UsageError("there is a file already", where=str(out), next="--out with another name, or remove it")


def write_scenario(out: Path, text: str) -> None:
    """Write the text of a scenario to the file `out`. Raises `UsageError` saying why it cannot be."""
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _refused(out, error.strerror) from None


def _refused(out: Path, got: str | None) -> UsageError:
    return UsageError(
        "the scenario cannot be written there",
        where=str(out),
        got=got,
        allowed="a file in a folder that exists and can be written to",
        next="name another file with --out",
    )
