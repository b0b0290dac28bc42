"""Turns a schedule of operations into the steps of a scenario file.

Each step fires when what the model says must come before it has happened. A step waits only for
what every variant does at that point, so one file runs on all releases. Where the variants differ,
it waits for time to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from analysis.spec.explore.eager import Operation, PlayedSchedule
from ebbtide.releases.known_releases import ELR_VERSION
from ebbtide.scenario.plain_values import from_plain
from ebbtide.scenario.steps.admin import ElectStep, ReassignStep, SetConfigStep, SetFeatureStep, UnregisterStep
from ebbtide.scenario.steps.disk import PowerLossStep, WipeDiskStep
from ebbtide.scenario.steps.network import HealStep, IsolateStep, PartitionStep
from ebbtide.scenario.steps.process import KillStep, StartStep, StopStep
from ebbtide.scenario.steps.step import StepSpec, WaitStep
from ebbtide.scenario.steps.wire import HoldRequestStep, ReleaseStep
from ebbtide.scenario.triggers import (
    AckedTrigger,
    BrokerTrigger,
    HeldTrigger,
    IsrTrigger,
    LeaderTrigger,
    Trigger,
    after,
)
from ebbtide.scenario.words import ConfigResource, PartitionName, Role, RoleOrNone

FIRST_COUNT = 2000
"""Acknowledged records before the first step."""
_COMMIT_WAIT = after("2s")
"""Time for more records to be sent and committed.

It is less than replica.lag.time.max.ms, after which the ISR changes.
"""
_END_WAIT = after("5s")
"""Time for the effects of the last operation, where no trigger sees them in all releases."""

_ON_A_BROKER: dict[str, Callable[[Role], StepSpec]] = {
    "power-loss": lambda broker: PowerLossStep(target=broker),
    "kill": lambda broker: KillStep(target=broker),
    "stop": lambda broker: StopStep(target=broker),
    "start": lambda broker: StartStep(target=broker),
    "replace-disk": lambda broker: WipeDiskStep(target=broker),
    "isolate": lambda broker: IsolateStep(target=broker),
    "unregister": lambda broker: UnregisterStep(target=broker),
}

_HELD = {"hold-requests": "AlterPartition", "hold-metadata": "Fetch"}
"""The broker's requests that are held on their way to the controllers.

A broker fetches the metadata log from the controllers.
"""


def steps_of(
    schedule: Sequence[Operation],
    plays: Sequence[PlayedSchedule],
    *,
    partition: str,
    brokers: Sequence[int],
    resized: Sequence[int],
) -> tuple[StepSpec, ...]:
    """Return the steps of a schedule.

    `resized` are the brokers for another partition of the topic, in the order they are taken.
    """
    name = PartitionName(partition)
    steps: list[StepSpec] = []
    isolated: set[int] = set()
    held_back: set[int] = set()
    for number, operation in enumerate(schedule):
        # A leader may at once take back what a release lets through: the next step must not wait.
        at_once = number > 0 and schedule[number - 1].kind == "release"
        awaited = [] if at_once else _triggers(number, plays, name)
        done = list(_steps(operation, name, brokers, resized, isolated, held_back))
        steps += [WaitStep(trigger=trigger, deadline_s=60) for trigger in awaited[:-1]]
        if awaited:
            done[0] = done[0].replace(trigger=awaited[-1], deadline_s=60.0)
        steps += done
    # The end heals everything, so it must come after the effects of the last operation.
    steps += [WaitStep(trigger=trigger, deadline_s=60) for trigger in _triggers(len(schedule), plays, name)]
    steps.append(WaitStep(trigger=_END_WAIT))
    return tuple(steps)


def _triggers(phase: int, plays: Sequence[PlayedSchedule], partition: PartitionName) -> list[Trigger]:
    """Return triggers for what every play has done by the end of a phase.

    Before that phase, they are not yet true.
    """
    if phase == 0:
        return [AckedTrigger(records=FIRST_COUNT)]
    now = [played.phases[phase] for played in plays]
    before = [played.phases[phase - 1] for played in plays]
    triggers: list[Trigger] = []
    for event in now[0].events:
        state = {"fence": "fenced", "unfence": "unfenced"}.get(event.kind)
        if state is not None and all(event in one.events for one in now):
            triggers.append(from_plain({"broker": f"broker({event.broker})", "state": state}, BrokerTrigger))
    operation = now[0].operation
    if operation is not None and operation.kind == "hold-metadata":
        triggers.append(HeldTrigger(node=Role.of_broker(operation.brokers[0]), api="Fetch"))
    held = {one.held for one in now}
    if len(held) == 1 and held != {0} and before[0].held == 0:
        triggers.append(HeldTrigger(node=Role.of_broker(held.pop()), api="AlterPartition"))
    sizes = {len(one.isr) for one in now}
    if len(sizes) == 1 and all(len(one.isr) != len(old.isr) for one, old in zip(now, before, strict=True)):
        triggers.append(IsrTrigger(partition=partition, size=sizes.pop()))
    leaders = {one.leader for one in now}
    if len(leaders) == 1 and all(one.leader != old.leader for one, old in zip(now, before, strict=True)):
        leader = leaders.pop()
        role = RoleOrNone(f"broker({leader})" if leader else "none")
        # A batch that fences or unfences a broker also elects. The leader it elects depends on who left the ISR last.
        if not leader or not any(isinstance(one, BrokerTrigger) for one in triggers):
            triggers.append(LeaderTrigger(partition=partition, broker=role))
    if any(one.committed_anew for one in now):
        triggers.append(_COMMIT_WAIT)
    return triggers


def _steps(
    operation: Operation,
    partition: PartitionName,
    brokers: Sequence[int],
    resized: Sequence[int],
    isolated: set[int],
    held_back: set[int],
) -> Iterator[StepSpec]:
    topic = partition.at.topic
    if operation.kind in _ON_A_BROKER:
        if operation.kind == "isolate":
            isolated |= set(operation.brokers)
        for broker in operation.brokers:
            yield _ON_A_BROKER[operation.kind](Role.of_broker(broker))
    elif operation.kind == "hold-back":
        held_back |= set(operation.brokers)
        yield _partition_step(operation.brokers, brokers)
    elif operation.kind == "rejoin":
        isolated -= set(operation.brokers)
        held_back -= set(operation.brokers)
        yield HealStep()
        for broker in sorted(isolated):
            yield IsolateStep(target=Role.of_broker(broker))
        if held_back:
            yield _partition_step(sorted(held_back), brokers)
    elif operation.kind in _HELD:
        yield HoldRequestStep(
            name=f"{operation.kind}-{operation.brokers[0]}",
            target=Role.of_broker(operation.brokers[0]),
            api=_HELD[operation.kind],
            to=(Role("controllers"),),
        )
    elif operation.kind == "release":
        yield ReleaseStep(target=Role.of_step(f"hold-requests-{operation.brokers[0]}"))
    elif operation.kind == "reassign":
        yield ReassignStep(partition=partition, replicas=_roles(operation.brokers))
    elif operation.kind == "cancel-reassignment":
        yield ReassignStep(partition=partition, cancel=True)
    elif operation.kind == "resize-first-partition":
        yield ReassignStep(partition=PartitionName(f"{topic}-0"), replicas=_roles(resized[: operation.value]))
    elif operation.kind == "set-min-isr":
        yield SetConfigStep(
            resource=ConfigResource(f"topic:{topic}"), config="min.insync.replicas", value=str(operation.value)
        )
    elif operation.kind == "set-feature":
        yield SetFeatureStep(feature=ELR_VERSION, level=operation.value)
    elif operation.kind in ("elect-preferred", "elect-unclean"):
        yield ElectStep(partition=partition, type="preferred" if operation.kind == "elect-preferred" else "unclean")
    else:
        raise AssertionError(f"no step for {operation.kind}")


def _partition_step(some: Sequence[int], brokers: Sequence[int]) -> StepSpec:
    others = [broker for broker in brokers if broker not in some]
    return PartitionStep(groups=(_roles(some), _roles(others)))


def _roles(brokers: Sequence[int]) -> tuple[Role, ...]:
    return tuple(map(Role.of_broker, brokers))
