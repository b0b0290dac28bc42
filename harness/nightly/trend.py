"""What changed between nights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from harness.nightly.store import Done, Ended

_End = Ended | Literal["known-bug"]
"""A contradiction by the known bug is an end of its own: what else may come up must not hide behind it."""
_TELLING: frozenset[_End] = frozenset({"contradicted", "known-bug", "as-predicted"})
"""Ends that say whether something is there; runs that failed or proved nothing do not."""


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """Groups (scenario, target and runtime) by what became of them since the nights before.

    `new`: contradicted now, and not in the last night whose runs of it say anything, if any; by a known bug alone does
    not count. `gone`: contradicted then, by a known bug or not, and as predicted now. `flaky`: repetitions of one night
    ended differently.
    """

    new: tuple[str, ...]
    gone: tuple[str, ...]
    flaky: tuple[str, ...]


def trend(history: Sequence[Done], night: str) -> Trend:
    """How `night` compares with what was before it. Random schedules have nothing to compare with."""
    by_group: dict[str, dict[str, set[_End]]] = defaultdict(lambda: defaultdict(set))
    for done in history:
        if done.job.origin == "catalogue" and done.night <= night:
            by_group[done.job.group][done.night].add(done.ended if done.known_bug is None else "known-bug")
    now = {group: nights[night] for group, nights in by_group.items() if night in nights}
    then = {group: _last_telling(nights, before=night) for group, nights in by_group.items()}
    new = [group for group, ended in now.items() if "contradicted" in ended - then[group]]
    gone = [group for group, ended in now.items() if ended == {"as-predicted"} and then[group] - {"as-predicted"}]
    return Trend(
        new=tuple(sorted(new)),
        gone=tuple(sorted(gone)),
        flaky=tuple(sorted(group for group, ended in now.items() if len(ended) > 1)),
    )


def _last_telling(nights: Mapping[str, set[_End]], *, before: str) -> set[_End]:
    """What the runs of the last night before say that say anything."""
    telling = [night for night, ended in nights.items() if night < before and ended & _TELLING]
    return nights[max(telling)] & _TELLING if telling else set()
