"""Turns a schedule of deeds into the steps of a scenario file.

Each step fires when what the model says must come before it has happened. A step waits only for
what every variant does at that point, so one file runs on all releases. Where the variants differ,
it waits for time to pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from analysis.spec.explore.eager import Deed, PlayedSchedule
from ebbtide.releases.feature_levels import ELR_VERSION
from ebbtide.scenario.model import BrokerTrigger, HeldTrigger, IsrTrigger, MemberTrigger, StepSpec, Trigger
from ebbtide.scenario.steps.table import StepKind
from ebbtide.scenario.words import Duration

FIRST_COUNT = 2000
"""Acknowledged records before the first step."""
_COMMIT_WAIT = Duration("2s")
"""Time for more records to be sent and committed.

It is less than replica.lag.time.max.ms, after which the ISR changes.
"""
_END_WAIT = Duration("5s")
"""Time for the effects of the last deed, where no trigger sees them in all releases."""

_ON_A_BROKER: dict[str, StepKind] = {
    "power-loss": "power-loss",
    "kill": "kill",
    "stop": "stop",
    "start": "start",
    "replace-disk": "wipe-disk",
    "isolate": "isolate",
    "unregister": "unregister",
}

_HELD = {"hold-requests": "AlterPartition", "hold-metadata": "Fetch"}
"""The broker's requests that are held on their way to the controllers.

A broker fetches the metadata log from the controllers.
"""


def steps_of(
    schedule: Sequence[Deed],
    plays: Sequence[PlayedSchedule],
    *,
    partition: str,
    brokers: Sequence[int],
    resized: Sequence[int],
) -> tuple[StepSpec, ...]:
    """Return the steps of a schedule.

    `resized` are the brokers for another partition of the topic, in the order they are taken.
    """
    steps: list[StepSpec] = []
    isolated: set[int] = set()
    held_back: set[int] = set()
    for number, deed in enumerate(schedule):
        # A leader may at once take back what a release lets through: the next step must not wait.
        at_once = number > 0 and schedule[number - 1].kind == "release"
        after = [] if at_once else _triggers(number, plays, partition)
        done = list(_steps(deed, partition, brokers, resized, isolated, held_back))
        steps += [StepSpec(step="wait", trigger=trigger, deadline_s=60) for trigger in after[:-1]]
        if after:
            done[0] = msgspec.structs.replace(done[0], trigger=after[-1], deadline_s=60.0)
        steps += done
    # The end heals everything, so it must come after the effects of the last deed.
    steps += [
        StepSpec(step="wait", trigger=trigger, deadline_s=60) for trigger in _triggers(len(schedule), plays, partition)
    ]
    steps.append(StepSpec(step="wait", trigger=Trigger(after=_END_WAIT)))
    return tuple(steps)


def _triggers(phase: int, plays: Sequence[PlayedSchedule], partition: str) -> list[Trigger]:
    """Return triggers for what every play has done by the end of a phase.

    Before that phase, they are not yet true.
    """
    if phase == 0:
        return [Trigger(acked=FIRST_COUNT)]
    now = [played.phases[phase] for played in plays]
    before = [played.phases[phase - 1] for played in plays]
    triggers: list[Trigger] = []
    for event in now[0].events:
        state = {"fence": "fenced", "unfence": "unfenced"}.get(event.kind)
        if state is not None and all(event in one.events for one in now):
            triggers.append(_broker_is(event.broker, state))
    deed = now[0].deed
    if deed is not None and deed.kind == "hold-metadata":
        triggers.append(Trigger(held=HeldTrigger(node=f"broker({deed.brokers[0]})", api="Fetch")))
    held = {one.held for one in now}
    if len(held) == 1 and held != {0} and before[0].held == 0:
        role = f"broker({held.pop()})"
        triggers.append(Trigger(held=HeldTrigger(node=role, api="AlterPartition")))
    sizes = {len(one.isr) for one in now}
    if len(sizes) == 1 and all(len(one.isr) != len(old.isr) for one, old in zip(now, before, strict=True)):
        triggers.append(Trigger(isr=IsrTrigger(partition=partition, size=sizes.pop())))
    leaders = {one.leader for one in now}
    if len(leaders) == 1 and all(one.leader != old.leader for one, old in zip(now, before, strict=True)):
        leader = leaders.pop()
        triggers.append(
            Trigger(leader_is=MemberTrigger(partition=partition, broker=f"broker({leader})" if leader else "none"))
        )
    if any(one.committed_anew for one in now):
        triggers.append(Trigger(after=_COMMIT_WAIT))
    return triggers


def _broker_is(broker: int, state: str) -> Trigger:
    return Trigger(broker_is=msgspec.convert({"broker": f"broker({broker})", "state": state}, BrokerTrigger))


def _steps(
    deed: Deed,
    partition: str,
    brokers: Sequence[int],
    resized: Sequence[int],
    isolated: set[int],
    held_back: set[int],
) -> Iterator[StepSpec]:
    topic = partition.rpartition("-")[0]
    if deed.kind in _ON_A_BROKER:
        if deed.kind == "isolate":
            isolated |= set(deed.brokers)
        for broker in deed.brokers:
            yield StepSpec(step=_ON_A_BROKER[deed.kind], target=f"broker({broker})")
    elif deed.kind == "hold-back":
        held_back |= set(deed.brokers)
        yield _apart(deed.brokers, brokers)
    elif deed.kind == "rejoin":
        isolated -= set(deed.brokers)
        held_back -= set(deed.brokers)
        yield StepSpec(step="heal")
        for broker in sorted(isolated):
            yield StepSpec(step="isolate", target=f"broker({broker})")
        if held_back:
            yield _apart(sorted(held_back), brokers)
    elif deed.kind in _HELD:
        yield StepSpec(
            step="hold-request",
            name=f"{deed.kind}-{deed.brokers[0]}",
            target=f"broker({deed.brokers[0]})",
            api=_HELD[deed.kind],
            to=("controllers",),
        )
    elif deed.kind == "release":
        yield StepSpec(step="release", target=f"step(hold-requests-{deed.brokers[0]})")
    elif deed.kind == "reassign":
        yield StepSpec(step="reassign", partition=partition, replicas=_roles(deed.brokers))
    elif deed.kind == "cancel-reassignment":
        yield StepSpec(step="reassign", partition=partition, cancel=True)
    elif deed.kind == "resize-first-partition":
        yield StepSpec(step="reassign", partition=f"{topic}-0", replicas=_roles(resized[: deed.value]))
    elif deed.kind == "set-min-isr":
        yield StepSpec(
            step="set-config", resource=f"topic:{topic}", config="min.insync.replicas", value=str(deed.value)
        )
    elif deed.kind == "set-feature":
        yield StepSpec(step="set-feature", feature=ELR_VERSION, level=deed.value)
    elif deed.kind in ("elect-preferred", "elect-unclean"):
        yield StepSpec(
            step="elect", partition=partition, type="preferred" if deed.kind == "elect-preferred" else "unclean"
        )
    else:
        raise AssertionError(f"no step for {deed.kind}")


def _apart(some: Sequence[int], brokers: Sequence[int]) -> StepSpec:
    others = [broker for broker in brokers if broker not in some]
    return StepSpec(step="partition", groups=(_roles(some), _roles(others)))


def _roles(brokers: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"broker({broker})" for broker in brokers)
