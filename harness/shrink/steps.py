"""Makes valid parts of a schedule, and guesses the steps behind the finding."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import msgspec

from analysis.sentences.elections import is_loss
from ebbtide.record.verdict import Verdict
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import OPTIONAL_KINDS
from ebbtide.scenario.triggers import AckedTrigger, AfterTrigger, OffsetTrigger, after
from ebbtide.scenario.validate import validate
from harness.replay.recorded_run import LoadedRun
from harness.shrink.states import RecordedStep

_STEP = re.compile(r"steps\[(\d+)\]")
_ACKED_MAX = 500
"""A schedule without its first steps waits for at most so many acked records."""
_DEADLINE_SLACK_S = 5.0


def with_steps(
    scenario: Scenario, kept: Sequence[int], acked: int, *, was: Sequence[RecordedStep] = (), patient: bool = False
) -> Scenario:
    """Return the scenario with only the steps `kept`.

    - If the first step is left out, the first one kept waits for `acked` records: the state that it waited for before,
      such as the end of a fault, is true from the start.
    - A trigger on a state that a left-out step caused, according to `was`, becomes the time in which the state came.
    - `patient` makes each time last as long as in the record since the step kept before.
    """
    steps = [scenario.steps[at] for at in kept]
    left = {was[at].index for at in kept} if was else set()
    for place, at in enumerate(kept[: len(was)] if was else ()):
        if not was[at].needs <= left:
            time = was[at].after
            steps[place] = _after(steps[place], 0.0 if time is None else time.seconds)
        gap_s = was[at].since_s(was[kept[place - 1]]) if place else None
        trigger = steps[place].trigger
        if patient and gap_s is not None and isinstance(trigger, AfterTrigger):
            steps[place] = _after(steps[place], max(gap_s, trigger.seconds))
    if steps and kept[0] != 0 and not isinstance(steps[0].trigger, AckedTrigger | OffsetTrigger):
        steps[0] = steps[0].replace(trigger=AckedTrigger(records=acked))
    return msgspec.structs.replace(scenario, steps=tuple(steps))


def _after(step: StepSpec, seconds: float) -> StepSpec:
    deadline_s = max(step.deadline_s, math.ceil(seconds) + _DEADLINE_SLACK_S)
    return step.replace(trigger=after(f"{round(seconds * 1000)}ms"), deadline_s=deadline_s)


def without_invalid_steps(scenario: Scenario, kept: Sequence[int], acked: int) -> tuple[int, ...]:
    """Return `kept` without invalid steps.

    Invalid are a heal with nothing cut, and a role of a step that was left out.
    """
    kept = tuple(kept)
    while True:
        problems = list(validate(with_steps(scenario, kept, acked)))
        found = {int(match[1]) for problem in problems if (match := _STEP.match(str(problem.where)))}
        if not found:
            return kept
        kept = tuple(at for place, at in enumerate(kept) if place not in found)


def acked_at_first(scenario: Scenario) -> int:
    """Return how many acked records a schedule without its first steps waits for.

    The number is never larger than the number of records sent.
    """
    counts = [one.count for one in scenario.producers]
    sent = _ACKED_MAX if None in counts else sum(count for count in counts if count is not None)
    return max(1, min(_ACKED_MAX, sent))


def first_guesses(recorded: LoadedRun) -> list[tuple[int, ...]]:
    """Return the parts of the schedule to try first, with the fewest steps first.

    1. The steps between the last moment when the cluster was healthy and the blamed election or violation.
    2. All steps before the blamed election or violation: later ones cannot have caused it.
    3. All steps.

    None of them has the steps that did nothing in the record.
    """
    # A step of some kinds needs no proof that it took effect.
    carried_out = (entry for entry in recorded.steps if entry.effect_ns is not None or entry.step not in OPTIONAL_KINDS)
    fired = [(entry.index, entry.fired_ns) for entry in carried_out if entry.fired_ns is not None]
    everything = tuple(index for index, _ in fired)
    parts = [everything] if len(everything) < len(recorded.steps) else []
    blamed = _last_blamed_ns(recorded)
    if blamed is not None:
        before = tuple(index for index, at_ns in fired if at_ns <= blamed)
        since = _last_healthy_ns(recorded, blamed)
        window = tuple(index for index, at_ns in fired if since < at_ns <= blamed)
        parts = [window, before, *parts]
    return [part for part in dict.fromkeys(parts) if part]


def _last_blamed_ns(recorded: LoadedRun) -> int | None:
    """Return the time of the last blamed election or violation.

    The election is that of the gravest loss; without one, it is the last violation.
    """
    verdict = recorded.verdict
    if verdict is None:
        return None
    # The election of a lost commit is one of another partition.
    attributed = [one for one in verdict.attributed if one.group is None]
    losses = [one for one in attributed if is_loss(one)]
    blamed = [one for one in losses if one.committed] or losses or attributed
    elections = [(one.topic, one.partition, one.election) for one in blamed if one.election is not None]
    states = [recorded.timeline.state_at(topic, partition, one.metadata_offset) for topic, partition, one in elections]
    times_ns = [state.at_ns for state in states if state is not None]
    return max(times_ns or _violations_ns(recorded, verdict), default=None)


def _violations_ns(recorded: LoadedRun, verdict: Verdict) -> list[int]:
    """Return the times of the metadata records that a violation gives as evidence."""
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


def _last_healthy_ns(recorded: LoadedRun, before_ns: int) -> int:
    """Return the time of the last step that fired in a healthy cluster, else 0.

    Healthy means that every ISR was complete and every broker unfenced.
    """
    moments = [entry.fired_ns for entry in recorded.steps if entry.fired_ns is not None and entry.fired_ns <= before_ns]
    for at_ns in reversed(moments):
        partitions = recorded.partitions_at(at_ns)
        whole = all(state.leader >= 0 and set(state.isr) == set(state.replicas) for state in partitions)
        if partitions and whole and set(recorded.brokers_at(at_ns).values()) == {"unfenced"}:
            # The step itself ends the healthy state, so it belongs to the steps that follow.
            return at_ns - 1
    return 0


def kinds_text(steps: Sequence[StepSpec]) -> str:
    """Return the kinds of the steps, in order, as one line."""
    return ", ".join(step.step for step in steps) or "no steps"
