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


_BOUNDS = (
    *("rf", "min-isr", "brokers", "records", "acks", "power-losses", "kills", "disks", "disks-outside", "stops"),
    *("admin", "admin-kinds", "unclean-recovery", "steps"),
)
_SWITCHES = {"late-configs": "late-configs=true", "no-recovery-manager": "recovery-manager=false"}


def respelled(argv: list[str]) -> list[str]:
    """Return a command line in today's spelling; a line on stderr says the new spelling of an old one."""
    if argv[:1] == ["help"]:
        return ["help", *respelled(argv[1:])]
    for old, new in MOVED.items():
        if tuple(argv[: len(old)]) == old:
            _note(old, new)
            return [*new, *argv[len(old) :]]
    if argv[:2] in (["spec", "check"], ["spec", "find"]) and (new_words := _respelled_search(argv)) != argv:
        _note(argv, new_words)
        return new_words
    if argv[:1] == ["runs"]:
        places = [at for at in range(1, len(argv)) if not argv[at].startswith("-") and argv[at - 1] != "--runs"]
        if len(places) == 1 and argv[places[0]] not in _SUBCOMMANDS_OF_RUNS:
            _note(("runs", "DIR"), ("runs", "--runs", "DIR"))
            return [*argv[: places[0]], "--runs", *argv[places[0] :]]
    return argv


def _respelled_search(argv: list[str]) -> list[str]:
    """Return a command line of `spec check` or `find` with one option for all bounds, and a time with its unit."""
    bounds: list[str] = []
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in (*_BOUNDS, *_SWITCHES, "max-time"):
            rest.append(word)
        elif name in _SWITCHES:
            bounds.append(_SWITCHES[name])
        else:
            value = value if equals else next(words, "")
            if name == "max-time":
                rest += ["--budget", f"{value}s"]
            else:
                bounds.append(f"{name}={value.replace(',', '+')}")
    return [*rest, *(["--bounds", ",".join(bounds)] if bounds else [])]


def _note(old: Sequence[str], new: Sequence[str]) -> None:
    print(f"`ebbtide {' '.join(old)}` is now `ebbtide {' '.join(new)}`", file=sys.stderr, flush=True)
