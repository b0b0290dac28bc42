"""What changed between nights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from harness.campaign.store import Done, Ended

_TELLING: frozenset[Ended] = frozenset({"contradicted", "as-predicted"})
"""Ends that say whether something is there; runs that failed or proved nothing do not."""


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """Groups (scenario, target and runtime) by what became of them since the nights before.

    `new`: contradicted now, and not in the last night whose runs of it say anything, if any. `gone`: contradicted
    then, and as predicted now. `flaky`: repetitions of one night ended differently.
    """

    new: tuple[str, ...]
    gone: tuple[str, ...]
    flaky: tuple[str, ...]


def trend(history: Sequence[Done], night: str) -> Trend:
    """How `night` compares with what was before it. Random schedules have nothing to compare with."""
    by_group: dict[str, dict[str, set[Ended]]] = defaultdict(lambda: defaultdict(set))
    for done in history:
        if done.job.origin == "catalogue" and done.night <= night:
            by_group[done.job.group][done.night].add(done.ended)
    now = {group: nights[night] for group, nights in by_group.items() if night in nights}
    once = {group for group, nights in by_group.items() if "contradicted" in _last_telling(nights, before=night)}
    return Trend(
        new=tuple(sorted(group for group, ended in now.items() if "contradicted" in ended and group not in once)),
        gone=tuple(sorted(group for group, ended in now.items() if ended == {"as-predicted"} and group in once)),
        flaky=tuple(sorted(group for group, ended in now.items() if len(ended) > 1)),
    )


def _last_telling(nights: Mapping[str, set[Ended]], *, before: str) -> set[Ended]:
    telling = [night for night, ended in nights.items() if night < before and ended & _TELLING]
    return nights[max(telling)] if telling else set()
