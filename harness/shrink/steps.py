"""Parts of a schedule that make sense, and where in a recorded schedule the finding probably came from."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import msgspec

from ebbtide.record.steps import StepEntry
from ebbtide.record.verdict import Loss, Regression, Verdict
from ebbtide.scenario.meaning import meaning
from ebbtide.scenario.model import Scenario, StepSpec, Trigger
from ebbtide.scenario.references import nothing_wrong
from ebbtide.scenario.steps.table import OPTIONAL_KINDS
from ebbtide.scenario.words import Duration
from harness.replay.recorded import RecordedRun
from harness.shrink.states import RecordedStep

_STEP = re.compile(r"steps\[(\d+)\]")
_ACKED_MAX = 500
"""Records to have been acked before a schedule that lost its beginning goes on."""
_DEADLINE_SLACK_S = 5.0


def with_steps(
    scenario: Scenario, kept: Sequence[int], acked: int, *, was: Sequence[RecordedStep] = (), patient: bool = False
) -> Scenario:
    """The scenario with these of its steps only.

    Where the first steps are gone, the first that is left waits for `acked` records: what it waited for before, such
    as that a fault was over, is true from the start. A state that a step which is gone brought about, as `was` says,
    gives way to the time in which it came. `patient`: a time counts from the step that is left before, as it
    did in the record.
    """
    steps = [scenario.steps[at] for at in kept]
    left = {was[at].index for at in kept} if was else set()
    for place, at in enumerate(kept[: len(was)] if was else ()):
        if not was[at].needs <= left:
            after = was[at].after
            steps[place] = _after(steps[place], 0.0 if after is None else after.seconds)
        gap_s = was[at].since_s(was[kept[place - 1]]) if place else None
        trigger = steps[place].trigger
        if patient and gap_s is not None and trigger is not None and trigger.after is not None:
            steps[place] = _after(steps[place], max(gap_s, trigger.after.seconds))
    if steps and kept[0] != 0 and not _counts(steps[0].trigger):
        steps[0] = msgspec.structs.replace(steps[0], trigger=Trigger(acked=acked))
    return msgspec.structs.replace(scenario, steps=tuple(steps))


def _after(step: StepSpec, seconds: float) -> StepSpec:
    deadline_s = max(step.deadline_s, math.ceil(seconds) + _DEADLINE_SLACK_S)
    return msgspec.structs.replace(
        step, trigger=Trigger(after=Duration(f"{round(seconds * 1000)}ms")), deadline_s=deadline_s
    )


def meaningful(scenario: Scenario, kept: Sequence[int], acked: int) -> tuple[int, ...]:
    """`kept` without the steps that make no sense alone: a heal with nothing cut, a role of a step that is gone."""
    kept = tuple(kept)
    while True:
        problems = list(meaning(with_steps(scenario, kept, acked), nothing_wrong))
        found = {int(match[1]) for problem in problems if (match := _STEP.match(str(problem.where)))}
        if not found:
            return kept
        kept = tuple(at for place, at in enumerate(kept) if place not in found)


def acked_at_first(scenario: Scenario) -> int:
    """How many records a schedule without its beginning waits for: few, and no more than are sent."""
    counts = [one.count for one in scenario.producers]
    sent = _ACKED_MAX if None in counts else sum(count for count in counts if count is not None)
    return max(1, min(_ACKED_MAX, sent))


def guesses(recorded: RecordedRun) -> list[tuple[int, ...]]:
    """Steps to try before any search, the fewest first: those since the cluster was last whole, and all until then.

    Up to the guilty election, or the violation, that is: what came after it cannot have caused it. Then all; steps
    that did nothing in the record are in none of them.
    """
    fired = [(entry.index, entry.fired_ns) for entry in recorded.steps if entry.fired_ns is not None and _did(entry)]
    everything = tuple(index for index, _ in fired)
    parts = [everything] if len(everything) < len(recorded.steps) else []
    blamed = _last_blamed_ns(recorded)
    if blamed is not None:
        before = tuple(index for index, at_ns in fired if at_ns <= blamed)
        since = _last_whole_ns(recorded, blamed)
        window = tuple(index for index, at_ns in fired if since < at_ns <= blamed)
        parts = [window, before, *parts]
    return [part for part in dict.fromkeys(parts) if part]


def _did(entry: StepEntry) -> bool:
    """Whether the step took effect, or is of a kind of which that is not said by its proof alone."""
    return entry.effect_ns is not None or entry.step not in OPTIONAL_KINDS


def _counts(trigger: Trigger | None) -> bool:
    """Whether the trigger waits for records by itself."""
    return trigger is not None and (trigger.acked is not None or trigger.hw_at_least is not None)


def _last_blamed_ns(recorded: RecordedRun) -> int | None:
    """When the last election was that is guilty of the gravest that was found; else the last violation."""
    verdict = recorded.verdict
    if verdict is None:
        return None
    committed = [one for one in verdict.losses if one.committed]
    blamed: list[Loss | Regression] = [*(committed or verdict.losses)] or [*verdict.regressions]
    elections = [(one.topic, one.partition, one.election) for one in blamed if one.election is not None]
    states = [recorded.timeline.state_at(topic, partition, one.metadata_offset) for topic, partition, one in elections]
    times_ns = [state.at_ns for state in states if state is not None]
    return max(times_ns or _violations_ns(recorded, verdict), default=None)


def _violations_ns(recorded: RecordedRun, verdict: Verdict) -> list[int]:
    """When the metadata records were made that a violation points at."""
    evidence = [one for found in verdict.properties if found.status == "violated" for one in found.evidence]
    offsets = {offset for one in evidence for offset in _metadata_offsets(one)}
    timeline = recorded.timeline
    times = [(one.metadata_offset, one.at_ns) for states in timeline.partitions.values() for one in states]
    times += [(one.metadata_offset, one.at_ns) for one in timeline.brokers]
    times += [(one.metadata_offset, one.at_ns) for one in timeline.configs]
    return [at_ns for offset, at_ns in times if offset in offsets]


def _metadata_offsets(evidence: object) -> Iterator[int]:
    if isinstance(evidence, dict):
        for key, value in evidence.items():
            if key == "metadata_offset" and isinstance(value, int):
                yield value
            else:
                yield from _metadata_offsets(value)
    elif isinstance(evidence, list | tuple):
        for one in evidence:
            yield from _metadata_offsets(one)


def _last_whole_ns(recorded: RecordedRun, before_ns: int) -> int:
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
