"""Writes .properties files that Java reads with the same names and values.

Ebbtide writes every such file here, whatever checked its content before.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from ebbtide.errors import UsageError

_UNWRITABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories: controls (line breaks, tab, DEL, C1 ...), lone surrogates, line and paragraph separators."""
_SPECIAL = re.compile(r"[\\=:#! ]")
"""Characters that would end a name, make it a comment, or be skipped."""
_SPECIAL_IN_VALUE = re.compile(r"\\|^ ")
"""A backslash in a value, and the space at its beginning, which would be skipped."""


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
