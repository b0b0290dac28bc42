"""Folds lines and the cells of tables between words, so that each line fits and names stay whole.

All that the command prints is as wide as the terminal, and 80 columns elsewhere: see `ebbtide.streams`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Sequence

_HEAD = re.compile(r"\s*(?:(?:- |[0-9]+\. |[^\s:]{1,10}: +))*")
"""What stands before the text of a line: spaces, the mark of a list's element, a label."""
_BELOW = 2
"""How far the rest of a line without a head is indented."""
_ATOM = re.compile(r"(?:`[^`]*`|\S)+")
"""A word, or what stands in backquotes, such as a command within a sentence."""
_COMMAND = re.compile(rf"(?:ebbtide|sudo|apt-get|docker|export|modprobe|sysctl) .*?(?=  |$)|{_ATOM.pattern}")
"""A command, with its arguments and up to two spaces; else an atom."""
_NEXT = ("next:", "reach:", "break:", "end:")
"""The labels before commands. A command that fits in no line is continued as a shell does it: it can be copied."""
_SHELL_WORD = re.compile(r"(?:'[^']*'|\"[^\"]*\"|\S)+")


def shown_width() -> int:
    """Return how wide lines may be: COLUMNS, else the terminal's width, else 80."""
    return shutil.get_terminal_size((80, 24)).columns


def unfolded_environment() -> dict[str, str]:
    """Return the environment of a process whose output a program reads: its lines are whole."""
    return {**os.environ, "COLUMNS": "100000"}


def fold_line(line: str, width: int, *, below: int | None = None) -> list[str]:
    """Return a line, folded between words to `width` columns if it is wider.

    The rest of it stands below its text: `  - a long element`, `  next:    a long text`; or from column `below` on.
    Words that are wider, such as paths, are lines of their own. So are commands behind `next:` and in backquotes; one
    that is wider is folded between its words, with a backslash before each break. A remark behind a command that does
    not fit beside it begins a line, so that the command's lines are nothing else.
    """
    line = line.rstrip() if len(line) > width else line
    if len(line) <= width:
        return [line]
    head = _HEAD.match(line)
    begins = head.end() if head is not None else 0
    if below is None:
        below = begins if line[:begins].strip() else begins + _BELOW
    indent = min(below, width // 3)
    folded = [line[:begins]]
    is_empty, is_remark, end = True, False, begins
    atoms = _COMMAND if "; next: " in line or line.split(maxsplit=1)[0] in _NEXT else _ATOM
    for atom in atoms.finditer(line, begins):
        gap = "" if is_empty else line[end : atom.start()]
        text = line[end:] if is_remark else gap + atom.group()
        if not is_empty and len(folded[-1]) + len(text) > width:
            folded.append(" " * indent)
            gap = ""
        folded[-1] += gap
        is_wide = len(folded[-1]) + len(atom.group()) > width
        for number, word in enumerate(_SHELL_WORD.findall(atom.group())):
            breaks = len(folded[-1]) + len(word) + len("  \\") > width >= indent + _BELOW + len(word)
            if number and is_wide and breaks:
                folded[-1:] = [f"{folded[-1]} \\", " " * (indent + _BELOW) + word]
            else:
                folded[-1] += f" {word}" if number else word
        is_empty, is_remark, end = False, " " in atom.group() and "`" not in atom.group(), atom.end()
    return folded


def folded_lines(lines: Iterable[str]) -> list[str]:
    """Return all lines, folded to the width of the output."""
    return [part for line in lines for part in fold_line(line, shown_width())]


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
