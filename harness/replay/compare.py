"""Compares two records: how far they agree, and where they depart.

It compares the states of the partitions up to a renaming of the brokers, the effect of each step, and the verdicts.
docs/replay.md says what each figure counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, zip_longest

import msgspec

from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.step import StepProof
from ebbtide.scenario.steps.table import CUT_KINDS
from harness.replay.finding import facts_of, finding
from harness.replay.recorded_run import LoadedRun
from harness.replay.sequences import Sequences, best_naming, count_common, rename_brokers, sequences_of
from harness.runner.gates import sides_of


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """The first place where the second run differs.

    `at_ns` and `after_step` are of the first run.

    `what` is `states of t-0`, `step 3` or `verdict`. `after_step` is None before the first step.
    """

    what: str
    at_ns: int
    after_step: int | None
    recorded: str
    replayed: str

    def describe(self) -> str:
        """Describe the departure in one line."""
        when = "before the first step" if self.after_step is None else f"after step {self.after_step}"
        return f"{when}, {self.what}: recorded {self.recorded}; replayed {self.replayed}"


class Repetition(msgspec.Struct, frozen=True, kw_only=True):
    """How far one run repeats another; the shares lie between 0 and 1.

    `departures` are in the order of the first run. `same`: the second run has the finding of the first; None if one of
    the two was not judged. `naming` maps the first run's node ids to the second's.
    """

    states: float
    effects: float
    verdict: float | None
    same: bool | None
    naming: dict[int, int]
    departures: tuple[Departure, ...]

    @property
    def fidelity(self) -> float:
        """The mean of the known shares."""
        known = [share for share in (self.states, self.effects, self.verdict) if share is not None]
        return sum(known) / len(known)


def compare(one: LoadedRun, other: LoadedRun, planned: Mapping[int, int] | None = None) -> Repetition:
    """Compare `other` with `one`.

    `planned` is the renaming of brokers that `other` was run with.
    """
    topics = tuple(one.scenario.topics)
    recorded, replayed = sequences_of(one.timeline, topics), sequences_of(other.timeline, topics)
    brokers = one.manifest.topology.brokers
    naming: dict[int, int] = dict(planned or {broker: broker for broker in brokers})
    if sorted(brokers) == sorted(other.manifest.topology.brokers):
        naming = best_naming(recorded, replayed, brokers, naming, lambda named: sum(_steps_agree(one, other, named)))
    naming |= _controller_naming(one, other)
    recorded = rename_brokers(recorded, naming)
    common, total = count_common(recorded, replayed)
    agreed = _steps_agree(one, other, naming)
    departures = [
        *_state_departures(one, recorded, replayed),
        *_step_departures(one, other, naming, agreed),
        *_verdict_departure(one, other),
    ]
    return Repetition(
        states=common / total if total else 1.0,
        effects=sum(agreed) / len(agreed) if agreed else 1.0,
        verdict=_verdicts_agree(one, other),
        same=_has_same_finding(one, other),
        naming=naming,
        departures=tuple(sorted(departures, key=lambda found: found.at_ns)),
    )


def _controller_naming(one: LoadedRun, other: LoadedRun) -> dict[int, int]:
    """Return the renaming of controllers under which most steps agree.

    Two steps agree if they acted on the same controllers.
    """
    ids = one.manifest.topology.controllers
    if sorted(ids) != sorted(other.manifest.topology.controllers):
        return {}
    pairs = [
        (set(left.nodes) & set(ids), set(right.nodes) & set(ids))
        for left, right in zip(one.steps, other.steps, strict=False)
    ]

    def agreement(naming: Mapping[int, int]) -> int:
        return sum({naming[node] for node in left} == right for left, right in pairs)

    return max((dict(zip(ids, order, strict=True)) for order in permutations(ids)), key=agreement)


def _steps_agree(one: LoadedRun, other: LoadedRun, naming: Mapping[int, int]) -> list[bool]:
    """For each step, return whether it had the same effect in both runs."""
    both = zip_longest(one.steps, other.steps)
    return [_describe_step(left, naming, right) == _describe_step(right, {}, left) for left, right in both]


def _describe_step(entry: StepEntry | None, naming: Mapping[int, int], beside: StepEntry | None) -> str:
    """Describe the nodes of a step, its proof, and the logs that lost something.

    Times and figures are left out. A cut is described by its sides if `beside`, the same step of the other run,
    has them too: old records do not.
    """
    if entry is None:
        return "no such step"
    if entry.fired_ns is None:
        return "never fired"
    whom = _sides(entry, naming) if beside is not None and beside.whom and entry.whom else None
    nodes = whom or str(sorted(naming.get(node, node) for node in entry.nodes))
    text = f"{entry.step} on {nodes}" if entry.nodes else entry.step
    if entry.effect_ns is None:
        return f"{text} without proof"
    lost = sorted(_lost_logs(entry, naming))
    return f"{text}, lost of {', '.join(lost)}" if lost else text


def _sides(entry: StepEntry, naming: Mapping[int, int]) -> str | None:
    """Return the sides of a cut, sorted unless the cut is one way.

    Returns None for a step that is not a cut.
    """
    if entry.step not in CUT_KINDS:
        return None
    sides = [str(sorted(naming.get(node, node) for node in side)) for side in sides_of(entry)]
    one_way = entry.parted is not None and entry.parted.one_way
    return " > ".join(sides) if one_way else " | ".join(sorted(sides))


def _lost_logs(entry: StepEntry, naming: Mapping[int, int]) -> Iterator[str]:
    """Yield `t-0 on 1` for each partition's log that lost something to the step."""
    proof = entry.figures(StepProof)
    for node in {*entry.nodes[:1], *(proof.nodes or ())}:
        for name, log in (proof.of(node).logs or {}).items():
            if not name.startswith("__") and log.lost_bytes:
                yield f"{name} on {naming.get(node, node)}"


def _state_departures(one: LoadedRun, recorded: Sequences, replayed: Sequences) -> Iterator[Departure]:
    """Yield the first state of each partition that differs."""
    for name in recorded.keys() | replayed.keys():
        pairs = zip_longest(recorded.get(name, ()), replayed.get(name, ()))
        last_ns = one.manifest.start_ns or 0
        for left, right in pairs:
            if left is None or right is None or left.shape != right.shape:
                at_ns = left.at_ns if left is not None else last_ns
                yield Departure(
                    what=f"states of {name}",
                    at_ns=at_ns,
                    after_step=_step_before(one, at_ns),
                    recorded=left.shape.describe() if left is not None else "no further state",
                    replayed=right.shape.describe() if right is not None else "no further state",
                )
                break
            last_ns = left.at_ns


def _step_departures(
    one: LoadedRun, other: LoadedRun, naming: Mapping[int, int], agreed: Sequence[bool]
) -> Iterator[Departure]:
    for at, same in enumerate(agreed):
        if same:
            continue
        left = one.steps[at] if at < len(one.steps) else None
        right = other.steps[at] if at < len(other.steps) else None
        at_ns = (left.fired_ns if left is not None else None) or one.manifest.end_ns or 0
        yield Departure(
            what=f"step {at}",
            at_ns=at_ns,
            after_step=at - 1 if at else None,
            recorded=_describe_step(left, naming, right),
            replayed=_describe_step(right, {}, left),
        )


def _verdict_departure(one: LoadedRun, other: LoadedRun) -> Iterator[Departure]:
    if one.verdict is not None and other.verdict is not None and not _has_same_finding(one, other):
        at_ns = one.manifest.end_ns or 0
        yield Departure(
            what="verdict",
            at_ns=at_ns,
            after_step=_step_before(one, at_ns),
            recorded=finding(one.verdict).describe(),
            replayed=finding(other.verdict).describe(),
        )


def _step_before(one: LoadedRun, at_ns: int) -> int | None:
    before = [entry.index for entry in one.steps if entry.fired_ns is not None and entry.fired_ns <= at_ns]
    return before[-1] if before else None


def _verdicts_agree(one: LoadedRun, other: LoadedRun) -> float | None:
    if one.verdict is None or other.verdict is None:
        return None
    left, right = facts_of(one.verdict), facts_of(other.verdict)
    return len(left & right) / len(left | right)


def _has_same_finding(one: LoadedRun, other: LoadedRun) -> bool | None:
    if one.verdict is None or other.verdict is None:
        return None
    return finding(one.verdict).is_repeated_in(finding(other.verdict))
