"""What changed between nights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from harness.campaign.store import Done, Ended


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """Groups (scenario, target and runtime) by what became of them since the nights before.

    `new`: contradicted now, and not in the last night that ran it, if any. `gone`: the other way round.
    `flaky`: repetitions of one night ended differently.
    """

    new: tuple[str, ...]
    gone: tuple[str, ...]
    flaky: tuple[str, ...]


def trend(history: Sequence[Done], night: str) -> Trend:
    """How `night` compares with what was before it. Random schedules have nothing to compare with."""
    now, before = _by_group(done for done in history if done.night == night), {}
    for earlier in history:
        if earlier.night < night:
            before[earlier.job.group] = earlier.night
    was = {
        group: {done.ended for done in history if done.night == last and done.job.group == group}
        for group, last in before.items()
    }
    contradicted = {group for group, ended in now.items() if "contradicted" in ended}
    once = {group for group, ended in was.items() if "contradicted" in ended}
    return Trend(
        new=tuple(sorted(contradicted - once)),
        gone=tuple(sorted(group for group in once & now.keys() if "contradicted" not in now[group])),
        flaky=tuple(sorted(group for group, ended in now.items() if len(ended) > 1)),
    )


def _by_group(dones: Iterable[Done]) -> dict[str, set[Ended]]:
    found: dict[str, set[Ended]] = defaultdict(set)
    for done in dones:
        if done.job.origin == "catalogue":
            found[done.job.group].add(done.ended)
    return found
