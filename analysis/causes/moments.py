"""The moments of a partition in order: states of the metadata log, and what befell the disks of its replicas."""

from __future__ import annotations

from typing import Literal, NamedTuple

from analysis.causes.elections import Elections
from analysis.causes.history import NEVER, History
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
        first, last = disk.gone.first_ns, disk.gone.last_ns
        within = [at for at, state in enumerate(history.states) if first < state.at_ns <= last]
        places = [(_place(history, first), first), *((at + 1, history.states[at].at_ns) for at in within)]
        for number, (place, at_ns) in enumerate(places, 1):
            others.append((place, PartitionMoment(at_ns, "disk", which, number == len(places))))
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


def _place(history: History, at_ns: int) -> int:
    """Return the index of the first state that came at or after a time."""
    found = (at for at, state in enumerate(history.states) if state.at_ns >= at_ns)
    return next(found, len(history.states)) if at_ns < NEVER else len(history.states)
