"""Replaces times in a recorded schedule by triggers on the states they led to.

A random schedule waits 200 ms to 5 s for sessions and lags of the same length, so whether a run shows the finding is
luck. A trigger on the state itself removes the luck, and says what the time was for.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.plain_values import from_plain
from ebbtide.scenario.steps.network import HealStep
from ebbtide.scenario.steps.wire import ReleaseStep
from ebbtide.scenario.triggers import AfterTrigger, BrokerTrigger, IsrTrigger, LeaderTrigger, Trigger
from ebbtide.scenario.words import Duration, PartitionName, RoleOrNone
from harness.replay.recorded_run import LoadedRun

_AWAITABLE = ("fenced", "unfenced", "unregistered")
"""The broker states that a trigger can wait for; brokers only pass through the others."""


class RecordedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step in the record: its index, and when it fired.

    `after` is the time that a state trigger replaced; `needs` are the steps that caused that state.
    """

    index: int
    fired_ns: int | None = None
    after: Duration | None = None
    needs: frozenset[int] = frozenset()

    def since_s(self, before: RecordedStep) -> float | None:
        """Return how many seconds after another step this one fired.

        Returns None if one of the two did not fire.
        """
        if self.fired_ns is None or before.fired_ns is None:
            return None
        return (self.fired_ns - before.fired_ns) / 1e9


class _AwaitedState(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger on a state.

    `of` are the brokers that changed, and those outside the ISR.
    """

    trigger: Trigger
    of: frozenset[int]


def recorded_steps(recorded: LoadedRun) -> tuple[RecordedStep, ...]:
    """Return each step of the scenario as it was in the record."""
    fired = {entry.index: entry.fired_ns for entry in recorded.steps}
    return tuple(RecordedStep(index=at, fired_ns=fired.get(at)) for at in range(len(recorded.scenario.steps)))


def with_state_triggers(
    scenario: Scenario, recorded: LoadedRun, blamed: str | None
) -> tuple[Scenario, tuple[RecordedStep, ...]] | None:
    """Return the scenario with state triggers instead of times, and its steps.

    The steps are those of the record. Returns None if the scenario has no such time. `scenario` has
    the record's steps and brokers. With `blamed`, only states of this partition count.
    """
    was = list(recorded_steps(recorded))
    steps = list(scenario.steps)
    entries = {entry.index: entry for entry in recorded.steps}
    for at in range(1, len(steps)):
        trigger, since, until = steps[at].trigger, was[at - 1].fired_ns, was[at].fired_ns
        if not isinstance(trigger, AfterTrigger) or since is None or until is None:
            continue
        state = _awaited_state(recorded, blamed, since, until)
        if state is None:
            continue
        before = [entries[index] for index in range(at) if index in entries]
        needs = frozenset(entry.index for broker in state.of for entry in _last_step_on(broker, before))
        was[at] = msgspec.structs.replace(was[at], after=trigger.time, needs=needs)
        steps[at] = steps[at].replace(trigger=state.trigger)
    found = msgspec.structs.replace(scenario, steps=tuple(steps))
    return None if found == scenario else (found, tuple(was))


def _awaited_state(recorded: LoadedRun, blamed: str | None, since_ns: int, until_ns: int) -> _AwaitedState | None:
    """Return the rarest state that is true at the end and not at the start, or None.

    From rarest: a partition without a leader, a change of its ISR, of a broker, of its leader.
    """
    then = {f"{state.topic}-{state.partition}": state for state in recorded.partitions_at(since_ns)}
    now = {f"{state.topic}-{state.partition}": state for state in recorded.partitions_at(until_ns)}
    pairs = [(name, then[name], now[name]) for name in now if name in then and blamed in (None, name)]
    changes = [one for one in pairs if (one[1].leader, set(one[1].isr)) != (one[2].leader, set(one[2].isr))]
    for name, before, after in changes:
        if after.leader < 0 <= before.leader:
            none = LeaderTrigger(partition=PartitionName(name), broker=RoleOrNone("none"))
            return _AwaitedState(trigger=none, of=_affected_brokers(before, after))
    for name, before, after in changes:
        if len(before.isr) != len(after.isr):
            size = IsrTrigger(partition=PartitionName(name), size=len(after.isr))
            return _AwaitedState(trigger=size, of=_affected_brokers(before, after))
    stood, stands = _newest_events(recorded, since_ns), _newest_events(recorded, until_ns)
    for broker, event in sorted(stands.items()):
        if event in _AWAITABLE and stood.get(broker) != event:
            awaited = from_plain({"broker": f"broker({broker})", "state": event}, BrokerTrigger)
            return _AwaitedState(trigger=awaited, of=frozenset({broker}))
    for name, before, after in changes:
        if after.leader != before.leader:
            leads = LeaderTrigger(partition=PartitionName(name), broker=RoleOrNone(f"broker({after.leader})"))
            return _AwaitedState(trigger=leads, of=_affected_brokers(before, after))
    return None


def _newest_events(recorded: LoadedRun, at_ns: int) -> dict[int, str]:
    """Return the newest registration event of each broker, in the words of a trigger."""
    return {event.broker: event.event for event in recorded.timeline.brokers if event.at_ns <= at_ns}


def _affected_brokers(before: PartitionState, after: PartitionState) -> frozenset[int]:
    """Return the brokers that joined or left the ISR, led, or are outside the ISR."""
    led = {before.leader, after.leader} if before.leader != after.leader else set()
    return frozenset((set(before.isr) ^ set(after.isr) | led | set(after.replicas) - set(after.isr)) - {-1})


def _last_step_on(broker: int, entries: Sequence[StepEntry]) -> list[StepEntry]:
    """Return the last step that acted on the broker, if any.

    A heal or release acts on all brokers.
    """
    fired = [entry for entry in entries if entry.fired_ns is not None]
    return [entry for entry in fired if entry.is_a(HealStep, ReleaseStep) or broker in entry.nodes][-1:]
