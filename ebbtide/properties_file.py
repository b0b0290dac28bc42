"""Writes .properties files that Java reads with the same names and values, and reads them as Java does.

Ebbtide writes every such file here, whatever checked its content before. Reading follows the documentation of
`java.util.Properties.load`, line by line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping

from ebbtide.errors import UsageError

_UNWRITABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories: controls (line breaks, tab, DEL, C1 ...), lone surrogates, line and paragraph separators."""
_SPECIAL = re.compile(r"[\\=:#! ]")
"""Characters that would end a name, make it a comment, or be skipped."""
_SPECIAL_IN_VALUE = re.compile(r"\\|^ ")
"""A backslash in a value, and the space at its beginning, which would be skipped."""

_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\$")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|$)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


def is_writable(text: str) -> bool:
    """Whether a .properties file can hold `text`.

    It cannot hold control characters, line separators and halves of surrogate pairs.
    """
    return not any(unicodedata.category(character) in _UNWRITABLE for character in text)


def render(properties: Mapping[str, str]) -> str:
    """Return the file's text in ASCII: one property a line, sorted by name.

    Raises `UsageError` for an empty name, and for a name or a value that is not `is_writable`.
    """
    return "".join(_line(name, value) for name, value in sorted(properties.items()))


def _line(name: str, value: str) -> str:
    if not name or not is_writable(name) or not is_writable(value):
        raise UsageError(
            "a properties file cannot hold this property",
            where=repr(name),
            got=repr(value),
            allowed="a name that is not empty; no control characters or line breaks in name or value",
        )
    return f"{_ascii(_SPECIAL.sub(_escape, name))}={_ascii(_SPECIAL_IN_VALUE.sub(_escape, value))}\n"


def _escape(found: re.Match[str]) -> str:
    return f"\\{found[0]}"


def _ascii(text: str) -> str:
    """Escape non-ASCII characters by their UTF-16 units: Java reads Latin-1."""
    if text.isascii():
        return text
    return "".join(char if char.isascii() else _unicode_escapes(char) for char in text)


def _unicode_escapes(character: str) -> str:
    utf_16 = character.encode("utf-16-be")
    return "".join(f"\\u{utf_16[at : at + 2].hex()}" for at in range(0, len(utf_16), 2))


def parse(text: str) -> dict[str, str]:
    """Return the properties that Java finds in a file; of equal names the last one counts.

    The characters of `text` are the file's bytes, as Latin-1. Raises `UsageError` for a `\\u` without four hexadecimal
    digits, which Java refuses too.
    """
    return {name: value for name, value, _ in properties_in(text)}


def properties_in(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield the name, the value and the line of each property. Raises `UsageError` with the line, as `parse` does."""
    for number, line in logical_lines(text):
        end = 0
        while end < len(line) and line[end] not in "=:" + _BLANKS:
            end += 2 if line[end] == "\\" else 1
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        try:
            found = _unescape(line[:end]), _unescape(rest), number
        except UsageError as error:
            raise error.at_line(number) from None
        yield found


def logical_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines with their numbers, without comments, blank lines and leading blanks.

    A backslash at the end continues a line.
    """
    lines: list[tuple[int, str]] = []
    is_continued = False
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(_BLANKS)
        if not is_continued and (not line or line[0] in "#!"):
            continue
        begun, before = lines.pop() if is_continued else (number, "")
        is_continued = _CONTINUED.search(before + line) is not None
        lines.append((begun, (before + line)[: -1 if is_continued else None]))
    return lines


def _unescape(text: str) -> str:
    units = _ESCAPE.sub(_character, text)
    # Java's characters are UTF-16 units: two of them make one of Python's.
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")


def _character(found: re.Match[str]) -> str:
    if found[1] is not None:
        return chr(int(found[1], 16))
    if found[2] == "u":
        raise UsageError(
            "a \\u in the properties has no four hexadecimal digits",
            allowed="\\u0041, or \\\\u for a backslash and a u",
        )
    return _LETTERS.get(found[2] or "", found[2] or "")
