"""The schedule that shows an event: what is done to a cluster, and what the model makes of it.

The simplest schedule of an event is tried first. Where it does not do what the line says, the counterexample of
the search becomes a schedule, as `ebbtide spec find` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from analysis.advise.answers import STATES_MAX, EventAnswer
from analysis.advise.events import WORST, AdvisedEvent
from analysis.advise.groups import TopicGroup
from analysis.advise.release import ReleaseFacts
from analysis.spec.explore.eager import Operation, PlayedSchedule, play
from analysis.spec.explore.properties import PROPERTIES
from analysis.spec.explore.question import ask_machine
from analysis.spec.generate_schedule import PlayabilityFilter, ample_machine, schedule_of
from analysis.spec.model.bounds import MAX_BROKERS
from analysis.spec.model.machine import Machine
from analysis.spec.variants import VARIANTS
from ebbtide.errors import UsageError


class ShownSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """The operations, how the model plays them, and the brokers that they need, spares included."""

    operations: tuple[Operation, ...]
    played: PlayedSchedule
    brokers: int


def schedule_for(
    event: AdvisedEvent, answer: EventAnswer, group: TopicGroup, release: ReleaseFacts
) -> ShownSchedule | None:
    """Return the schedule that does with acks=all what the line says; None if there is none."""
    if answer.says not in ("survives", "loses"):
        return None
    loses = answer.says == "loses"
    bounds = event.bounds(group, "all")
    if bounds.size > MAX_BROKERS:
        return None
    machine = ample_machine(release.variant, bounds, elr=release.is_elr_on, cluster=release.cluster())
    if answer.is_by_known_bug:
        # A known bug that the model does not have: the model plays it without a loss.
        operations = _new_disk_schedule(group.settings.rf)
        played = play(machine, operations)
        return ShownSchedule(operations=tuple(operations), played=played, brokers=bounds.size)
    for operations in _simple_schedules(event, group):
        played = play(machine, _as_played(operations, group))
        if played.impossible < 0 and (played.lost_at > 0) == loses:
            return ShownSchedule(operations=tuple(operations), played=played, brokers=bounds.size)
    if not loses:
        return None
    asked, cluster = PROPERTIES["acks-all"], release.cluster()
    found = ask_machine(
        Machine(VARIANTS[release.variant], cluster, bounds, asked.promise),
        asked,
        max_states=STATES_MAX,
        wanted=PlayabilityFilter(release.variant, bounds, cluster),
    )
    if found.trace is None:
        return None
    try:
        operations = schedule_of(release.variant, bounds, found.trace, cluster)
    except UsageError:
        return None
    return ShownSchedule(operations=tuple(operations), played=play(machine, operations), brokers=bounds.size)


def _as_played(operations: Sequence[Operation], group: TopicGroup) -> list[Operation]:
    """Return the operations as the model plays them: a power loss takes nothing that is flushed."""
    if not group.settings.flushes_each_record:
        return list(operations)
    return [one._replace(kind="kill") if one.kind == "power-loss" else one for one in operations]


def _simple_schedules(event: AdvisedEvent, group: TopicGroup) -> Iterator[list[Operation]]:
    """Yield the schedules of an event, the simplest first; broker 1 leads."""
    rf, min_isr = group.settings.rf, group.settings.effective_min_isr
    replicas = range(1, rf + 1)
    kind = event.key.removesuffix("-worst")
    if kind in ("rolling-restart", "power-in-turn"):
        down = "stop" if kind == "rolling-restart" else "power-loss"
        yield [Operation(what, (one,)) for one in replicas for what in (down, "start")]
    elif kind == "kill":
        yield _down_and_up("kill", (1,))
    elif kind == "disk":
        lost = [Operation("kill", (1,)), Operation("replace-disk", (1,)), Operation("start", (1,))]
        yield lost if event.when != WORST else _while_held_back(1, rf, lost)
    elif kind.startswith("disks-") or kind in ("rack-disks", "containers"):
        together = tuple(range(1, event.count + 1))
        yield [Operation(what, together) for what in ("kill", "replace-disk", "start")]
    elif kind == "kills":
        for last in range(1, min(min_isr, rf) + 1):
            yield _while_held_back(last, rf, _down_and_up("kill", range(1, last + 1)))
    elif kind == "network":
        for last in range(1, min(min_isr + 1, rf) + 1):
            members = range(1, last + 1)
            cut = [Operation("isolate", (one,)) for one in members]
            yield _while_held_back(last, rf, [*cut, *(Operation("rejoin", (one,)) for one in members)])
    elif kind == "moves":
        away = (rf + 1, *range(2, rf + 1))
        yield [Operation("reassign", away), Operation("reassign", tuple(replicas))]
    elif kind.startswith("power-") or kind == "rack-power":
        lost = _down_and_up("power-loss", range(1, event.count + 1))
        yield lost if event.when != WORST else _while_held_back(event.count, rf, lost)
    elif kind in ("raise", "raise-power", "first-partition", "elr-off"):
        # The counterexample shows a loss. Without one, the faults alone do.
        yield _while_held_back(1, rf, _down_and_up("power-loss", range(1, event.count + 1)))


def _new_disk_schedule(rf: int) -> list[Operation]:
    """Return the schedule of apache/kafka#20716 (docs/findings/new-disk-wipes-elr.md).

    The followers are eligible and out of reach when the last member of the ISR returns with a new disk.
    """
    others = tuple(range(2, rf + 1))
    lost = [Operation("kill", (1,)), Operation("replace-disk", (1,)), Operation("start", (1,))]
    return [*(Operation("isolate", (one,)) for one in others), *lost, Operation("rejoin", others)]


def _down_and_up(kind: str, brokers: Sequence[int]) -> list[Operation]:
    return [Operation(kind, tuple(brokers)), Operation("start", tuple(brokers))]


def _while_held_back(last: int, rf: int, operations: list[Operation]) -> list[Operation]:
    """Return the operations while only the replicas up to `last` are in sync."""
    others = tuple(range(last + 1, rf + 1))
    if not others:
        return operations
    return [Operation("hold-back", others), *operations, Operation("rejoin", others)]
