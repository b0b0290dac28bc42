"""Files of JSON lines that outlive a kill.

Each line that is added to a file is whole and on the disk before the next one begins.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ebbtide.errors import UsageError
from ebbtide.untrusted.files import read_file
from ebbtide.untrusted.values import decode_json

T = TypeVar("T")


def append_line(path: Path, line: bytes) -> None:
    """Append `line`, which has its own newline, and fsync. Raises `OSError`."""
    with path.open("ab") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def read_lines(
    path: Path, kind: type[T], *, what: str, next: str, dec_hook: Callable[[type, Any], Any] | None = None
) -> list[T]:
    """Return the values, oldest first; empty when the file does not exist.

    A last line without a newline was never written: it is cut off, so that the next line is whole. Raises
    `UsageError` for other damage, and for what is not a file. The error names `what` and says what to type `next`.
    `dec_hook` is that of `decode_json`.
    """
    if not os.path.lexists(path):
        return []
    text = read_file(path, what=f"the {what}")
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        os.truncate(path, len(whole))
    found = []
    for number, line in enumerate(whole.split(b"\n")[:-1], start=1):
        try:
            found.append(decode_json(line, kind, dec_hook))
        except msgspec.DecodeError as error:
            raise UsageError(
                f"a line of the {what} cannot be read", where=f"{path}:{number}", got=str(error), next=next
            ) from None
    return found
