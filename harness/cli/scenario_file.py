"""Writes scenario files, and checks before a long search that a file can be written."""

from __future__ import annotations

import os
from pathlib import Path

from ebbtide.errors import UsageError


def check_writable(out: Path, what: str = "scenario", option: str = "--out") -> None:
    """Raise `UsageError` if the file that `option` names cannot be written, as far as a check can see."""
    folder = out.parent
    if (
        not os.access(folder, os.X_OK)
        or not folder.is_dir()
        or out.is_dir()
        or not os.access(out if out.exists() else folder, os.W_OK)
    ):
        raise _not_writable(out, None, what, option)


def refuse_existing(out: Path) -> None:
    """Raise `UsageError` if the file exists."""
    if out.is_file():
        raise UsageError("the file exists", where=str(out), next="name another file with --out, or remove this one")


def write_scenario(out: Path, text: str) -> None:
    """Write the text of a scenario to the file `out`.

    Raises `UsageError` if that fails.
    """
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _not_writable(out, error.strerror) from None


def _not_writable(out: Path, got: str | None, what: str = "scenario", option: str = "--out") -> UsageError:
    return UsageError(
        f"the {what} cannot be written there",
        where=str(out),
        got=got,
        allowed="a file in a folder that exists and can be written to",
        next=f"name another file with {option}",
    )
