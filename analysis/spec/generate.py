"""From a counterexample to a scenario file that runs on real Kafka, with predictions from the model itself.

The counterexample is reduced to what someone does to the cluster, and played with everything else happening by
itself, as on a real cluster (`analysis.spec.explore.eager`). Where the loss then does not show, followers are held
back from their leader, which a network can do. Then every deed that the loss does not need is left out. Each
variant plays the same schedule; what it does is its releases' prediction, and what all of them do is what steps wait
for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, permutations

import msgspec

from analysis.spec.explore.eager import Deed, Played, play
from analysis.spec.explore.question import RELEASE_OF
from analysis.spec.explore.trace import Trace
from analysis.spec.generate_steps import FIRST_COUNT, steps_of
from analysis.spec.model import words as w
from analysis.spec.model.bounds import ADMIN_KINDS, MAX_BUDGET, Bounds
from analysis.spec.model.machine import Machine
from analysis.spec.model.words import DATA_BITS, MAX_RECORDS
from analysis.spec.variants import ELR_VERSION, VARIANTS, cluster_for
from harness.errors import UsageError
from harness.scenario.model import (
    ClusterSpec,
    ConsumerSpec,
    LossExpectation,
    Prediction,
    ProducerSpec,
    Scenario,
    TopicSpec,
)

_RANGES: tuple[tuple[str, str, str], ...] = (
    ("kraft", "3.3", "3.5"),
    ("kip903", "3.5", "3.6"),
    ("kip903_36", "3.6", "3.7"),
    ("strict_min_isr", "3.7", "3.8"),
    ("strict_min_isr_38", "3.8", "3.9"),
    ("strict_min_isr_39", "3.9", "4.0"),
    ("elr_40", "4.0", "4.1"),
    ("elr_410", "4.1", "4.1.1"),
    ("elr_41", "4.1.1", "4.3"),
    ("elr_43", "4.3", "4.5"),
)
"""Each variant, the first release that runs it, and the first that no longer does."""

_PERMUTED = 6
"""Longer schedules are not tried in all orders."""

_DIRECT = frozenset(
    {
        "power-loss",
        "kill",
        "stop",
        "start",
        "replace-disk",
        "reassign",
        "cancel-reassignment",
        "set-min-isr",
        "set-feature",
        "unregister",
        "resize-first-partition",
        "elect-preferred",
        "elect-unclean",
    }
)


class _Part(msgspec.Struct, frozen=True):
    """What one variant, ELR on or off, makes of the schedule on the releases from `first` to before `end`."""

    variant: str
    first: str
    end: str
    elr: bool
    played: Played


def scenario_of(name: str, variant: str, bounds: Bounds, found: Trace, kafka: Sequence[str]) -> Scenario:
    """The scenario that shows `found` on the releases of `variant`; `kafka` are the releases to run by default.

    UsageError: the counterexample hangs on a moment that no step can bring about, such as a request in flight.
    """
    schedule = _schedule(variant, bounds, found)
    parts = _parts(variant, bounds, schedule)
    plays = [part.played for part in parts]
    shown = play(_machine(variant, bounds, elr=VARIANTS[variant].has_elr), schedule)
    first = any(deed.kind == "resize-first-partition" for deed in schedule)
    later = any(phase.committed_anew for phase in shown.phases[1 : shown.lost_at + 1])
    assignment = tuple(range(1, bounds.rf + 1))
    unplugged = {broker for deed in schedule if deed.kind in ("power-loss", "kill") for broker in deed.brokers}
    return Scenario(
        name=name,
        title=f"Found by the specification's explorer in {variant.replace('_', '-')}, RF {bounds.rf}, "
        f"min.insync.replicas {bounds.min_isr}",
        description=_description(schedule),
        kafka=tuple(kafka),
        cluster=ClusterSpec(brokers=bounds.size),
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
            resized=[broker for broker in reversed(assignment) if broker not in unplugged] + sorted(unplugged),
        ),
        predictions=tuple(_predictions(parts)),
    )


def _description(schedule: Sequence[Deed]) -> str:
    told = ", then ".join(_told(deed) for deed in schedule)
    return f"The shortest schedule that the explorer found and that steps can bring about: {told}."


def _told(deed: Deed) -> str:
    whom = " ".join(map(str, deed.brokers))
    number = str(deed.value) if deed.kind.startswith(("set-", "resize-")) else ""
    return " ".join(part for part in (deed.kind, whom, number) if part)


def _schedule(variant: str, bounds: Bounds, found: Trace) -> list[Deed]:
    loses = _loses(variant, bounds)
    deeds = list(_deeds(found))
    schedule = next((one for one in _varied(deeds, bounds) if loses(one)), None)
    if schedule is None:
        raise UsageError(
            "no scenario can bring this counterexample about",
            got=", ".join(_told(deed) for deed in deeds),
            allowed="counterexamples that do not hang on a request in flight, or on a config that is read late",
            next="ebbtide spec check with the same options shows it",
        )
    return _needed(schedule, loses)


class Playable:
    """Which counterexamples steps can bring about; each schedule is tried once, and at most `TRIES` of them."""

    TRIES = 200

    def __init__(self, variant: str, bounds: Bounds) -> None:
        self._bounds = bounds
        self._loses = _loses(variant, bounds)
        self._tried: set[tuple[Deed, ...]] = set()

    def __call__(self, found: Trace) -> bool:
        deeds = list(_deeds(found))
        if tuple(deeds) in self._tried:
            return False
        self._tried.add(tuple(deeds))
        # Beyond the last try, any is taken, and `scenario_of` says that it cannot be brought about.
        return len(self._tried) > self.TRIES or any(self._loses(one) for one in _varied(deeds, self._bounds))


def _loses(variant: str, bounds: Bounds) -> Callable[[Sequence[Deed]], bool]:
    machine = _machine(variant, bounds, elr=VARIANTS[variant].has_elr)

    def loses(deeds: Sequence[Deed]) -> bool:
        played = play(machine, deeds)
        return played.impossible < 0 and played.lost_at > 0

    return loses


def _deeds(found: Trace) -> Iterator[Deed]:
    """What someone did in a counterexample: sessions of running brokers expire because they are cut off."""
    words, cut = found.initial, set[int]()
    for number, step in enumerate(found.steps):
        running = bool(step.broker and words[step.broker] >> DATA_BITS & w.UP)
        words = step.words
        if step.kind == "fence" and running and step.broker not in cut:
            cut.add(step.broker)
            yield Deed("isolate", (step.broker,))
        elif step.kind in ("unfence", "ask-expand", "start") and step.broker in cut:
            cut.discard(step.broker)
            yield Deed("rejoin", (step.broker,))
        elif step.kind == "ask-shrink":
            behind = tuple(broker for broker in step.brokers if broker not in cut)
            cut |= set(behind)
            yield Deed("hold-back", behind)
        if step.kind == "reassign":
            order = found.orders.get(number, step.brokers)
            yield Deed("reassign", tuple(broker for broker in order if broker in step.brokers))
        elif step.kind in _DIRECT:
            yield Deed(step.kind, (step.broker,) if step.broker else (), step.detail)


def _varied(deeds: list[Deed], bounds: Bounds) -> Iterator[list[Deed]]:
    """The schedule; with some brokers held back from some point on, fewest brokers first; in another order.

    In the counterexample a session may outlive its broker; where it does not, the same deeds may have to come
    in another order.
    """
    yield deeds
    for count in range(1, bounds.size):
        for brokers in combinations(range(1, bounds.size + 1), count):
            for at in range(len(deeds) + 1):
                yield [*deeds[:at], Deed("hold-back", brokers), *deeds[at:]]
    if len(deeds) <= _PERMUTED:
        yield from (list(order) for order in permutations(deeds))


def _needed(schedule: list[Deed], loses: Callable[[Sequence[Deed]], bool]) -> list[Deed]:
    """Without the deeds that the loss does not need."""
    at = 0
    while at < len(schedule):
        without = schedule[:at] + schedule[at + 1 :]
        if loses(without):
            schedule, at = without, 0
        else:
            at += 1
    return schedule


def _machine(variant: str, bounds: Bounds, *, elr: bool) -> Machine:
    """The variant with budgets for any schedule."""
    unbounded = msgspec.structs.replace(
        bounds,
        records=MAX_RECORDS,
        power_losses=MAX_BUDGET,
        kills=MAX_BUDGET,
        disks=MAX_BUDGET,
        stops=MAX_BUDGET,
        admin=MAX_BUDGET,
        admin_kinds=ADMIN_KINDS,
        late_configs=False,
        acks="all",
    )
    cluster = cluster_for(RELEASE_OF[variant], {ELR_VERSION: int(elr)}, (0,))
    return Machine(VARIANTS[variant], cluster, unbounded)


def _parts(searched: str, bounds: Bounds, schedule: list[Deed]) -> list[_Part]:
    """What each variant does that can do all of it; the searched one first among equals."""
    parts: list[_Part] = []
    for elr in (True, False):
        for variant, first, end in _RANGES:
            if not VARIANTS[variant].has_elr and (elr or any(deed.kind == "set-feature" for deed in schedule)):
                continue
            played = play(_machine(variant, bounds, elr=elr), schedule)
            if played.impossible < 0:
                parts.append(_Part(variant, first, end, elr, played))
    return parts


def _predictions(parts: list[_Part]) -> Iterator[Prediction]:
    """One prediction for neighbouring releases that do the same."""
    at = 0
    while at < len(parts):
        first = last = parts[at]
        at += 1
        while at < len(parts) and _alike(last, parts[at]):
            last = parts[at]
            at += 1
        lost = first.played.lost_at >= 0
        names = first.variant if first == last else f"{first.variant} to {last.variant}"
        elr = "on" if first.elr else "off"
        what = "loses committed records" if lost else "loses no committed record"
        yield Prediction(
            kafka=f">={first.first},<{last.end}",
            features={ELR_VERSION: 1} if first.elr else {},
            clause=f"the model of {names.replace('_', '-')}, ELR {elr}, {what} on this schedule",
            loss=LossExpectation(committed="some" if lost else "none"),
        )


def _alike(one: _Part, other: _Part) -> bool:
    same = (one.played.lost_at < 0) == (other.played.lost_at < 0)
    return same and one.elr == other.elr and one.end == other.first
