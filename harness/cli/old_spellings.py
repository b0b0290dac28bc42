"""The spellings of the release before. They still work in this release, and say the new one."""

from __future__ import annotations

import sys
from collections.abc import Sequence

MOVED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("fault",): ("cluster", "fault"),
    ("image",): ("kafka", "image"),
    ("validate",): ("scenarios", "check"),
    ("report",): ("nightly", "site"),
    ("compare",): ("runs", "compare"),
    ("completion",): ("--completion",),
    ("scenarios", "list"): ("scenarios",),
}
"""The first words of an old command line, and the words that replace them."""
_SUBCOMMANDS_OF_RUNS = ("compare", "help")


def respelled(argv: list[str]) -> list[str]:
    """Return a command line in today's spelling; a line on stderr says the new spelling of an old one."""
    if argv[:1] == ["help"]:
        return ["help", *respelled(argv[1:])]
    for old, new in MOVED.items():
        if tuple(argv[: len(old)]) == old:
            _note(old, new)
            return [*new, *argv[len(old) :]]
    if argv[:1] == ["runs"]:
        places = [at for at in range(1, len(argv)) if not argv[at].startswith("-") and argv[at - 1] != "--runs"]
        if len(places) == 1 and argv[places[0]] not in _SUBCOMMANDS_OF_RUNS:
            _note(("runs", "DIR"), ("runs", "--runs", "DIR"))
            return [*argv[: places[0]], "--runs", *argv[places[0] :]]
    return argv


def _note(old: Sequence[str], new: Sequence[str]) -> None:
    print(f"`ebbtide {' '.join(old)}` is now `ebbtide {' '.join(new)}`", file=sys.stderr, flush=True)
