"""Writes a count with its noun: `1 record`, `2,000 records`."""

from __future__ import annotations


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return the count with the noun in singular or plural.

    `nouns` is an irregular plural.
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"
