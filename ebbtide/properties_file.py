"""The text of a .properties file: java.util.Properties reads back the names and values that were given.

Every such file that Ebbtide writes is rendered here, whatever checked its content before.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from ebbtide.errors import UsageError

_UNWRITABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of Unicode: controls (line breaks, tab, DEL and C1 among them), lone surrogates, line and paragraph
separators."""
_SPECIAL = re.compile(r"[\\=:#! ]")
"""In a name: what would end it, make it a comment, or be skipped."""
_SPECIAL_IN_VALUE = re.compile(r"\\|^ ")
"""In a value: a backslash, and the blank at its beginning, which would be skipped."""


def is_writable(text: str) -> bool:
    """Whether `text` is free of control characters, line separators and halves of surrogate pairs."""
    return not any(unicodedata.category(character) in _UNWRITABLE for character in text)


def render(properties: Mapping[str, str]) -> str:
    """The file's text, in ASCII: a property a line, in the order of their names.

    Raises `UsageError` for an empty name, and for a name or a value that is not `is_writable`.
    """
    return "".join(_line(name, value) for name, value in sorted(properties.items()))


def _line(name: str, value: str) -> str:
    if not name or not is_writable(name) or not is_writable(value):
        raise UsageError(
            "a properties file cannot hold this property",
            where=repr(name),
            got=repr(value),
            allowed="a name, and no control characters or line breaks in the name or the value",
        )
    return (
        f"{_ascii(_SPECIAL.sub(_behind_backslash, name))}={_ascii(_SPECIAL_IN_VALUE.sub(_behind_backslash, value))}\n"
    )


def _behind_backslash(found: re.Match[str]) -> str:
    return f"\\{found[0]}"


def _ascii(text: str) -> str:
    """Java reads the bytes as Latin-1; other characters are escaped, by their UTF-16 units."""
    if text.isascii():
        return text
    return "".join(one if one.isascii() else _units(one) for one in text)


def _units(character: str) -> str:
    utf_16 = character.encode("utf-16-be")
    return "".join(f"\\u{utf_16[at : at + 2].hex()}" for at in range(0, len(utf_16), 2))
