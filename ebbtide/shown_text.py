"""Makes texts safe to show: control characters become visible escapes.

A terminal obeys control characters. A name in somebody else's record could clear the screen, fake a line of the
output, or show its letters in another order.

Writes a count with its noun: `1 record`, `2,000 records`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Controls but tab and newline, marks of writing direction, line separators, and halves of surrogate pairs."""

_SECRET = re.compile(r"(^|\.)(sasl|ssl)\.|credential|jaas|password|secret|token", re.IGNORECASE)

_NAMES: dict[str, str] = {}
"""What is shown instead of a path: that of an archive, for the folder that it was unpacked into."""

HIDDEN = "a value that is not shown, because it may be a secret"


def names_secret(place: str) -> bool:
    """Whether a setting of Kafka belongs to TLS or logins, so that no message may show its value."""
    return _SECRET.search(place) is not None


def escape_controls(text: str) -> str:
    r"""Return the text with every control character but tab and newline as `\u001b`, and with the names of `shown_as`.

    In JSON that is an escape of the same character, so JSON stays the same value.
    """
    text = shown_name(text)
    if text.isascii() and text.isprintable():
        return text
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


@contextlib.contextmanager
def shown_as(path: Path, name: str) -> Iterator[None]:
    """Show a name instead of a path in all output while the block runs. In JSON, too, the name must need no escape."""
    _NAMES[str(path)] = name
    try:
        yield
    finally:
        del _NAMES[str(path)]


def shown_name(text: Path | str) -> str:
    """Return a text with the names of `shown_as`."""
    text = str(text)
    for path, name in _NAMES.items():
        text = text.replace(path, name)
    return text


def has_other_name(path: Path | str) -> bool:
    """Whether a path is in a folder that is shown by another name, and goes with the command."""
    return any(Path(path).is_relative_to(folder) for folder in _NAMES)


def shown_path(path: Path | str) -> str:
    """Return how the terminal names a file or folder: from the current folder where it lies in it.

    An absolute path is seldom narrow enough for a line, and a path that is broken cannot be copied.
    """
    with contextlib.suppress(ValueError, OSError):
        return str(Path(path).relative_to(Path.cwd()))
    return str(path)


def has_controls(text: str, *, lines: bool = False) -> bool:
    """Whether a text has control characters; with `lines` it may have tabs and newlines."""
    return _CONTROLS.search(text) is not None or (not lines and ("\n" in text or "\t" in text))


def without_middle(text: str, longest: int) -> str:
    """Return a text that is longer than `longest` with only its beginning, its end and its length.

    A value in somebody else's file can have megabytes.
    """
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2]} ... {text[-longest // 4 :]} ({len(text):,} characters)"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return the count with the noun in singular or plural.

    `nouns` is an irregular plural.
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def some_of(names: Sequence[str], most: int, count: int | None = None) -> str:
    """Return the first names, and how many more there are, of `count` if that is given: `a, b and 3 more`."""
    left = (len(names) if count is None else count) - most
    return ", ".join(names[:most]) + (f" and {left:,} more" if left > 0 else "")
