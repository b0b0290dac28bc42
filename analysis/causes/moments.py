"""The moments of a partition in order: states of the metadata log, and what befell the disks of its replicas."""

from __future__ import annotations

from typing import Literal, NamedTuple

from analysis.causes.elections import Elections
from analysis.causes.history import NEVER, SLACK_NS, DiskLoss, History
from analysis.causes.liveness import Liveness


class PartitionMoment(NamedTuple):
    """A state (its index), a disk loss (its index among the disks), or a restart (the broker) with unknown steps.

    `is_last`: the disk loss has happened by now. Before its last moment it may have happened already.
    """

    at_ns: int
    what: Literal["state", "disk", "restart"]
    which: int
    is_last: bool = True


def moments_of(history: History, elections: Elections, liveness: Liveness) -> tuple[PartitionMoment, ...]:
    """Return the moments in order; states keep the order of the log, whatever their times say.

    A disk loss that took a while has a moment before each state that it may have preceded, and one behind them.
    """
    others: list[tuple[int, PartitionMoment]] = []
    for which, disk in enumerate(history.disks):
        if disk.broker not in elections.brokers:
            continue
        places = _places_of(history, elections, disk, liveness.slack)
        for place in places:
            at_ns = history.states[place - 1].at_ns if place else disk.gone.first_ns
            at_ns = min(max(at_ns, disk.gone.first_ns), disk.gone.last_ns)
            others.append((place, PartitionMoment(at_ns, "disk", which, place == places[-1])))
    if not history.cluster.steps_known:
        for broker in elections.brokers:
            times = [event.at_ns for event in liveness.registrations(broker)[1:]]
            if history.cluster.broker_events is None:
                times = [state.at_ns for state in history.states]
            others += [(_place(history, at_ns), PartitionMoment(at_ns, "restart", broker)) for at_ns in times]
    states = [(at, PartitionMoment(state.at_ns, "state", at)) for at, state in enumerate(history.states)]
    # At one place, what befell disks comes before the state.
    ordered = sorted([*others, *states], key=lambda one: (one[0], one[1].what == "state", one[1].at_ns))
    return tuple(moment for _, moment in ordered)


def _places_of(history: History, elections: Elections, disk: DiskLoss, slack: int) -> list[int]:
    """Return the indexes of the states that a disk loss may have come right before.

    Two clocks may differ by the slack, so an election that close to the loss may have come before it or after it.
    But a broker that was elected, or entered the ISR, that close did so by the process that the loss ended: the next
    one is not back so soon. That is sure only if no clock was set.
    """
    first, last = disk.gone.first_ns, disk.gone.last_ns
    places, lowest = {_place(history, first)}, 0
    for at, state in enumerate(history.states):
        if first < state.at_ns <= last:
            places.add(at + 1)
        brought_about = _brought_about(disk.broker, at, history, elections)
        if first - slack < state.at_ns < last + slack and (elections.is_election(at) or brought_about):
            places |= {at, at + 1}
        if abs(state.at_ns - first) < slack <= SLACK_NS and brought_about:
            lowest = at + 1
    return sorted({max(lowest, place) for place in places})


def _brought_about(broker: int, at: int, history: History, elections: Elections) -> bool:
    """Whether a state has the broker as a new leader, or as a new member of the ISR."""
    state = history.states[at]
    if state.leader == broker and elections.is_election(at):
        return True
    return at > 0 and broker in state.isr and broker not in history.states[at - 1].isr


def _place(history: History, at_ns: int) -> int:
    """Return the index of the first state that came at or after a time."""
    found = (at for at, state in enumerate(history.states) if state.at_ns >= at_ns)
    return next(found, len(history.states)) if at_ns < NEVER else len(history.states)
