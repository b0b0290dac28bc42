"""Reads a file as java.util.Properties does.

It follows the documentation of `load`, line by line.
"""

from __future__ import annotations

import re

_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\$")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|$)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


def read_back(text: str) -> dict[str, str]:
    """Return the properties that Java finds in `text`.

    The characters of `text` are the file's bytes, as Latin-1.
    """
    found = {}
    for line in _logical_lines(text):
        end = 0
        while end < len(line) and line[end] not in "=:" + _BLANKS:
            end += 2 if line[end] == "\\" else 1
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] and rest[0] in "=:":
            rest = rest[1:].lstrip(_BLANKS)
        found[_unescape(line[:end])] = _unescape(rest)
    return found


def _logical_lines(text: str) -> list[str]:
    """Return lines without comments, blank lines and leading blanks.

    A backslash at the end continues a line.
    """
    lines: list[str] = []
    continued = False
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANKS)
        if not continued and (not line or line[0] in "#!"):
            continue
        if continued:
            lines[-1] += line
        else:
            lines.append(line)
        continued = _CONTINUED.search(lines[-1]) is not None
        if continued:
            lines[-1] = lines[-1][:-1]
    return lines


def _unescape(text: str) -> str:
    units = _ESCAPE.sub(_character, text)
    # Java's characters are UTF-16 units: two of them make one of Python's.
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def _character(found: re.Match[str]) -> str:
    if found[1] is not None:
        return chr(int(found[1], 16))
    return _LETTERS.get(found[2] or "", found[2] or "")
