"""Finds the line of a scenario file that a problem is about.

Python's TOML reader does not report positions. So the finder looks for the shortest beginning of the
file that has the value: its last line is the line.
"""

from __future__ import annotations

import bisect
import contextlib
import re
import tomllib
from collections.abc import Iterable
from typing import Any

from ebbtide.errors import EbbtideError

_LONGEST_CHARS, _MOST_LINES = 20_000, 1_000
"""A longer file gets no line numbers, because finding them would take many seconds."""
_MISSING = object()


def add_lines(text: str, problems: Iterable[EbbtideError]) -> None:
    """Set the line of each problem whose key is in this TOML text."""
    lines = LineFinder(text)
    for problem in problems:
        if problem.where is not None:
            problem.at_line(lines.line_of(problem.where))


class LineFinder:
    """Finds lines of one file. `text` is TOML."""

    def __init__(self, text: str) -> None:
        lines = text.split("\n")
        self._lines = lines if len(text) <= _LONGEST_CHARS and len(lines) <= _MOST_LINES else []
        self._known: dict[int, tuple[int, dict[str, object]]] = {0: (0, {})}

    def line_of(self, where: str) -> int | None:
        """Return the number of the line, from 1, on which the value at `where` begins.

        `where` is a path as `UsageError.where` has it, such as `steps[2].target`. For a missing key it is the line of
        the table that lacks the key. None: the file does not have that table either.
        """
        whole = self._readable(len(self._lines))[1]
        while where and _value_at(whole, where) is _MISSING:
            where = where[: max(where.rfind("."), where.rfind("["), 0)]
        if not where:
            return None
        counts = range(1, len(self._lines) + 1)
        last = bisect.bisect_left(counts, True, key=lambda count: self._has(count, where)) + 1
        return self._readable(last - 1)[0] + 1

    def first_unreadable_line(self) -> int | None:
        """Return the number of the line after the longest beginning that is TOML.

        None: the whole file is TOML, or it is too long to search.
        """
        readable = self._readable(len(self._lines))[0]
        return readable + 1 if readable < len(self._lines) else None

    def _has(self, count: int, where: str) -> bool:
        return _value_at(self._readable(count)[1], where) is not _MISSING

    def _readable(self, count: int) -> tuple[int, dict[str, object]]:
        """Return the longest beginning of at most `count` lines that is TOML, as its length and its content."""
        tried = []
        found: tuple[int, dict[str, object]] | None = None
        while found is None:
            if (found := self._known.get(count)) is None:
                tried.append(count)
                with contextlib.suppress(ValueError, RecursionError):  # it ends within a value of several lines
                    found = count, tomllib.loads("\n".join(self._lines[:count]))
                count -= 1
        self._known.update(dict.fromkeys(tried, found))
        return found


def _value_at(value: Any, where: str) -> Any:
    """Return the value at a path, or `_MISSING`. A key may have dots in it."""
    if not where:
        return value
    if isinstance(value, list):
        if (index := re.match(r"\[(\d{1,6})\]\.?", where)) is None or int(index[1]) >= len(value):
            return _MISSING
        return _value_at(value[int(index[1])], where[index.end() :])
    if not isinstance(value, dict):
        return _MISSING
    for key, inner in value.items():
        rest = where.removeprefix(key)
        if where.startswith(key) and (not rest or rest[0] in ".["):
            found = _value_at(inner, rest.removeprefix("."))
            if found is not _MISSING:
                return found
    return _MISSING
