"""Parts of a schedule that make sense, and where in a recorded schedule the finding probably came from."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from analysis.verdict import Loss, Regression
from harness.replay.recorded import Recorded
from harness.scenario.meaning import meaning
from harness.scenario.model import Scenario, StepSpec, Trigger

_STEP = re.compile(r"steps\[(\d+)\]")
_ACKED_MAX = 500
"""Records to have been acked before a schedule that lost its beginning goes on."""


def with_steps(scenario: Scenario, kept: Sequence[int], acked: int) -> Scenario:
    """The scenario with these of its steps only.

    Where the first steps are gone, the first that is left waits for `acked` records: what it waited for before, such
    as that a fault was over, is true from the start.
    """
    steps = [scenario.steps[at] for at in kept]
    if steps and kept[0] != 0 and not _counts(steps[0].trigger):
        steps[0] = msgspec.structs.replace(steps[0], trigger=Trigger(acked=acked))
    return msgspec.structs.replace(scenario, steps=tuple(steps))


def meaningful(scenario: Scenario, kept: Sequence[int], acked: int) -> tuple[int, ...]:
    """`kept` without the steps that make no sense alone: a heal with nothing cut, a role of a step that is gone."""
    kept = tuple(kept)
    while True:
        problems = list(meaning(with_steps(scenario, kept, acked), lambda _where: False))
        found = {int(match[1]) for problem in problems if (match := _STEP.match(str(problem.where)))}
        if not found:
            return kept
        kept = tuple(at for place, at in enumerate(kept) if place not in found)


def acked_at_first(scenario: Scenario) -> int:
    """How many records a schedule without its beginning waits for: few, and no more than are sent."""
    counts = [one.count for one in scenario.producers]
    sent = _ACKED_MAX if None in counts else sum(count for count in counts if count is not None)
    return max(1, min(_ACKED_MAX, sent))


def guesses(recorded: Recorded) -> list[tuple[int, ...]]:
    """Steps to try before any search, the fewest first: those since the cluster was last whole, and all until then.

    Up to the guilty election, that is: what came after it cannot have caused it.
    """
    fired = [(entry.index, entry.fired_ns) for entry in recorded.steps if entry.fired_ns is not None]
    blamed = _last_blamed_ns(recorded)
    if blamed is None:
        return []
    before = tuple(index for index, at_ns in fired if at_ns <= blamed)
    since = _last_whole_ns(recorded, blamed)
    window = tuple(index for index, at_ns in fired if since < at_ns <= blamed)
    return [part for part in dict.fromkeys((window, before)) if part]


def _counts(trigger: Trigger | None) -> bool:
    """Whether the trigger waits for records by itself."""
    return trigger is not None and (trigger.acked is not None or trigger.hw_at_least is not None)


def _last_blamed_ns(recorded: Recorded) -> int | None:
    """When the last election was that is guilty of the gravest that was found."""
    verdict = recorded.verdict
    if verdict is None:
        return None
    committed = [one for one in verdict.losses if one.committed]
    blamed: list[Loss | Regression] = [*(committed or verdict.losses)] or [*verdict.regressions]
    elections = [(one.topic, one.partition, one.election) for one in blamed if one.election is not None]
    states = [recorded.timeline.at(topic, partition, one.metadata_offset) for topic, partition, one in elections]
    return max((state.at_ns for state in states if state is not None), default=None)


def _last_whole_ns(recorded: Recorded, before_ns: int) -> int:
    """The last moment at which a step fired and every ISR was whole and every broker unfenced; 0: never."""
    moments = [entry.fired_ns for entry in recorded.steps if entry.fired_ns is not None and entry.fired_ns <= before_ns]
    for at_ns in reversed(moments):
        partitions = recorded.partitions_at(at_ns)
        whole = all(state.leader >= 0 and set(state.isr) == set(state.replicas) for state in partitions)
        if partitions and whole and set(recorded.brokers_at(at_ns).values()) == {"unfenced"}:
            # The step itself breaks what is whole: it belongs to what follows.
            return at_ns - 1
    return 0


def described(steps: Sequence[StepSpec]) -> str:
    """Kinds in order, for a line."""
    return ", ".join(step.step for step in steps) or "no steps"
