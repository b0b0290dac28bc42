"""Folds the cells of a table between words, so that names stay whole where they fit."""

from __future__ import annotations

from collections.abc import Sequence


def fold_words(text: str, width: int, *, cuts: bool = True) -> list[str]:
    """Return the lines of a text, folded between words to `width` columns.

    With `cuts` a word that is longer than a line is folded behind its hyphens; if that is not enough, anywhere. Else it
    is a line of its own, so that a path can be copied.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        folded = [""]
        for word in line.split():
            before = f"{folded[-1]} " if folded[-1] else ""
            if len(before) + len(word) <= width:
                folded[-1] = f"{before}{word}"
            else:
                pieces = _pieces_of(word, width) if cuts else [word]
                folded = [*folded, *pieces] if folded[-1] else pieces
        lines += folded
    return lines


def _pieces_of(word: str, width: int) -> list[str]:
    """Return a word in pieces of at most `width` columns."""
    pieces = [""]
    for part in word.replace("-", "-\n").split("\n"):
        rest = part
        if pieces[-1] and len(pieces[-1]) + len(rest) > width:
            pieces.append("")
        while len(pieces[-1]) + len(rest) > width:
            pieces[-1:] = [rest[:width], ""]
            rest = rest[width:]
        pieces[-1] += rest
    return [piece for piece in pieces if piece]


def column_widths(wanted: Sequence[int], available: int) -> list[int]:
    """Return the width of each column: what it wants, or an equal share of what the narrower ones leave."""
    widths = [0] * len(wanted)
    left = available
    for done, at in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        widths[at] = max(1, min(wanted[at], left // (len(wanted) - done)))
        left -= widths[at]
    return widths
