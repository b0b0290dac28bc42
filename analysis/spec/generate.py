"""Turns a counterexample into a scenario file that runs on real Kafka.

The model itself makes the predictions. The counterexample is reduced to what is done to the
cluster, and played with everything else happening by itself, as on a real cluster
(`analysis.spec.explore.eager`). Where the loss then does not show, followers are held back from
their leader, which a network can do. Then every operation that the loss does not need is left out. Each
variant plays the same schedule. What a variant does is the prediction for its releases, and what
all variants do is what steps wait for. What a variant of the user does is the prediction for builds
that are newer than every known release, which else are predicted what the newest release does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from analysis.spec.explore.eager import Operation, PlayedSchedule, play
from analysis.spec.explore.trace import Trace
from analysis.spec.generate_schedule import REQUESTS, ample_machine, describe_operation, schedule_of
from analysis.spec.generate_steps import FIRST_COUNT, steps_of
from analysis.spec.model.bounds import Bounds
from analysis.spec.variants import VARIANTS, base_of
from ebbtide.releases.known_releases import ELR_VERSION, KNOWN
from ebbtide.scenario.model import (
    ClusterSpec,
    ConsumerSpec,
    LossExpectation,
    Prediction,
    ProducerSpec,
    Scenario,
    TopicSpec,
)


class _Part(msgspec.Struct, frozen=True):
    """What one variant, ELR on or off, makes of the schedule.

    It holds for the releases from `first` to before `end`; None: for all newer ones.
    """

    variant: str
    first: str
    end: str | None
    elr: bool
    played: PlayedSchedule


def scenario_of(name: str, variant: str, bounds: Bounds, found: Trace, kafka: Sequence[str]) -> Scenario:
    """Return the scenario that shows `found` on the releases of `variant`.

    `kafka` are the releases to run by default. Raises UsageError for a counterexample that depends
    on a moment that no step can bring about, such as a request in flight.
    """
    schedule = schedule_of(variant, bounds, found)
    parts = _parts(variant, bounds, schedule)
    plays = [part.played for part in parts]
    shown = play(ample_machine(variant, bounds, elr=VARIANTS[variant].has_elr), schedule)
    first = any(operation.kind == "resize-first-partition" for operation in schedule)
    later = any(phase.committed_anew for phase in shown.phases[1 : shown.lost_at + 1])
    assignment = tuple(range(1, bounds.rf + 1))
    return Scenario(
        name=name,
        title=f"Found by the specification's explorer in {variant.replace('_', '-')}, RF {bounds.rf}, "
        f"min.insync.replicas {bounds.min_isr}",
        description=_description(schedule),
        kafka=tuple(kafka),
        cluster=ClusterSpec(
            brokers=bounds.size + _is_all_unreachable(schedule, bounds.size),
            features={ELR_VERSION: 1} if _sets_feature(schedule) else {},
        ),
        topics={
            "t": TopicSpec(
                partitions=2 if first else 1,
                replication_factor=bounds.rf,
                min_isr=bounds.min_isr,
                assignment=(assignment,) * (2 if first else 1),
            )
        },
        producers=(
            ProducerSpec(id=1, topic="t", acks="all", rate_per_s=500)
            if later
            else ProducerSpec(id=1, topic="t", acks="all", count=FIRST_COUNT, rate_per_s=4000),
        ),
        consumers=(ConsumerSpec(id=1, topics=("t",)),),
        steps=steps_of(
            schedule,
            plays,
            partition="t-1" if first else "t-0",
            brokers=range(1, bounds.size + 1),
            resized=sorted(assignment, key=lambda broker: _partition_0_troubles(schedule, broker)),
        ),
        predictions=tuple(_predictions(parts, formatted=_sets_feature(schedule))),
    )


def _sets_feature(schedule: Sequence[Operation]) -> bool:
    return any(operation.kind == "set-feature" for operation in schedule)


def _partition_0_troubles(schedule: Sequence[Operation], broker: int) -> tuple[bool, bool]:
    """Return two answers on a broker that gets partition 0.

    The first is whether it is unreachable then, the second whether it then takes records with it.
    """
    kinds = [
        operation.kind if broker in operation.brokers or operation.kind == "resize-first-partition" else ""
        for operation in schedule
    ]
    at = kinds.index("resize-first-partition") if "resize-first-partition" in kinds else 0
    return "isolate" in kinds[:at], any(kind in ("power-loss", "kill", "replace-disk") for kind in kinds)


def _is_all_unreachable(schedule: Sequence[Operation], size: int) -> bool:
    """Return whether an operator's request comes when no broker can be reached.

    The scenario then needs one more broker.
    """
    gone: set[int] = set()
    for operation in schedule:
        if operation.kind in ("isolate", "power-loss", "kill", "stop"):
            gone |= set(operation.brokers)
        elif operation.kind in ("rejoin", "start"):
            gone -= set(operation.brokers)
        elif operation.kind in REQUESTS and len(gone) == size:
            return True
    return False


def _description(schedule: Sequence[Operation]) -> str:
    operations = ", then ".join(describe_operation(operation) for operation in schedule)
    return f"The shortest schedule that the explorer found and that steps can bring about: {operations}."


def _parts(searched: str, bounds: Bounds, schedule: list[Operation]) -> list[_Part]:
    """Return the part of each variant that can do the whole schedule."""
    parts: list[_Part] = []
    for elr in (True, False):
        for variant, first, end in _ranges(searched):
            if (elr and not VARIANTS[variant].has_elr) or (not elr and _sets_feature(schedule)):
                continue
            played = play(ample_machine(variant, bounds, elr=elr), schedule)
            if played.impossible < 0:
                parts.append(_Part(variant, first, end, elr, played))
    return parts


def _ranges(searched: str) -> list[tuple[str, str, str | None]]:
    """Return each variant, the first release that runs it, and the first that no longer does.

    A variant begins with a minor release, unless a patch of that minor release runs an older one. A searched variant of
    the user begins after all known releases: none of them has its change.
    """
    first_of = {known.variant: known for known in reversed(KNOWN)}
    minors: dict[tuple[int, int], str] = {}
    starts = [
        (variant, "{}.{}".format(*first.minor) if minors.setdefault(first.minor, variant) == variant else first.version)
        for variant, first in reversed(first_of.items())
    ]
    if base_of(searched) != searched:
        major, minor = KNOWN[-1].minor
        starts.append((searched, f"{major}.{minor + 1}"))
    ends = [*(start for _, start in starts[1:]), None]
    return [(variant, start, end) for (variant, start), end in zip(starts, ends, strict=True)]


def _predictions(parts: list[_Part], *, formatted: bool) -> Iterator[Prediction]:
    """Yield one prediction for neighbouring releases that do the same; what the user's variant does stands alone.

    `formatted`: all begin with the ELR on.
    """
    at = 0
    while at < len(parts):
        first = last = parts[at]
        at += 1
        while at < len(parts) and _is_alike(last, parts[at]):
            last = parts[at]
            at += 1
        lost = first.played.lost_at >= 0
        names = first.variant if first == last else f"{first.variant} to {last.variant}"
        elr = "on" if first.elr else "off"
        what = "loses committed records" if lost else "loses no committed record"
        yield Prediction(
            kafka=f">={first.first}" + (f",<{last.end}" if last.end else ""),
            # The level that a run ends with says nothing where the schedule sets it.
            features={ELR_VERSION: 1} if first.elr and not formatted else {},
            clause=f"the model of {names.replace('_', '-')}, ELR {elr}, {what} on this schedule",
            loss=LossExpectation(committed="some" if lost else "none"),
        )


def _is_alike(one: _Part, other: _Part) -> bool:
    same = (one.played.lost_at < 0) == (other.played.lost_at < 0)
    is_shipped = base_of(other.variant) == other.variant
    return same and is_shipped and one.elr == other.elr and one.end == other.first
