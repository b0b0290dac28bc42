"""Compares a night with the nights before it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from harness.nightly.store import FinishedJob, JobEnd

_End = JobEnd | Literal["known-bug"]
"""A contradiction by a known bug is its own end, so that it cannot hide another contradiction."""
_CONCLUSIVE: frozenset[_End] = frozenset({"contradicted", "known-bug", "as-predicted"})
"""Ends that say whether a contradiction is there; failed and inconclusive runs do not."""


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of runs whose outcome changed since the last conclusive night.

    - `new`: contradicted now and not then; a contradiction by a known bug does not count.
    - `gone`: contradicted then, by a known bug or not, and as predicted now.
    - `flaky`: repetitions of this night ended differently.
    """

    new: tuple[str, ...]
    gone: tuple[str, ...]
    flaky: tuple[str, ...]


def trend(history: Sequence[FinishedJob], night: str) -> Trend:
    """Compare `night` with the nights before it.

    Random schedules are left out: each runs once.
    """
    by_group: dict[str, dict[str, set[_End]]] = defaultdict(lambda: defaultdict(set))
    for done in history:
        if done.job.origin == "catalogue" and done.night <= night:
            by_group[done.job.group][done.night].add(done.ended if done.known_bug is None else "known-bug")
    now = {group: nights[night] for group, nights in by_group.items() if night in nights}
    then = {group: _last_conclusive(nights, before=night) for group, nights in by_group.items()}
    new = [group for group, ended in now.items() if "contradicted" in ended - then[group]]
    gone = [group for group, ended in now.items() if ended == {"as-predicted"} and then[group] - {"as-predicted"}]
    return Trend(
        new=tuple(sorted(new)),
        gone=tuple(sorted(gone)),
        flaky=tuple(sorted(group for group, ended in now.items() if len(ended) > 1)),
    )


def _last_conclusive(nights: Mapping[str, set[_End]], *, before: str) -> set[_End]:
    """Return a group's conclusive ends in the last conclusive night before `before`."""
    conclusive = [night for night, ended in nights.items() if night < before and ended & _CONCLUSIVE]
    return nights[max(conclusive)] & _CONCLUSIVE if conclusive else set()
