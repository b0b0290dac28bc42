"""JSON that somebody else may have written, and files of one JSON value a line that outlive a kill.

Whatever is wrong with JSON is one kind of error. Each line that is added to a file is whole and on the disk before the
next is begun.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ebbtide.errors import UsageError

T = TypeVar("T")


def decoded(content: bytes, kind: type[T], dec_hook: Callable[[type, Any], Any] | None = None) -> T:
    """The value of type `kind`. Raises `msgspec.DecodeError` for all that is no such value.

    `dec_hook` is msgspec's: it reads what is of no type that msgspec knows. msgspec has other exceptions for text
    that is no UTF-8 and for values nested deeper than Python's stack.
    """
    try:
        return msgspec.json.decode(content, type=kind, dec_hook=dec_hook)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from None


def append_line(path: Path, line: bytes) -> None:
    """Add `line`, which ends itself; on the disk when this returns. Raises `OSError`."""
    with path.open("ab") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def read_lines(
    path: Path, kind: type[T], *, what: str, next: str, dec_hook: Callable[[type, Any], Any] | None = None
) -> list[T]:
    """The values, oldest first; none where there is no file.

    A last line without its end was never written: it is cut off, so that the next one is whole. Raises `UsageError`
    for other damage, which speaks of `what` and says what to type `next`. `dec_hook` is that of `decoded`.
    """
    if not path.is_file():
        return []
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        os.truncate(path, len(whole))
    found = []
    for number, line in enumerate(whole.split(b"\n")[:-1], start=1):
        try:
            found.append(decoded(line, kind, dec_hook))
        except msgspec.DecodeError as error:
            raise UsageError(
                f"a line of the {what} cannot be read", where=f"{path}:{number}", got=str(error), next=next
            ) from None
    return found
