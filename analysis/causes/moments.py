"""The moments of a partition in order: states of the metadata log, and what befell the disks of its replicas."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Literal, NamedTuple

from analysis.causes.elections import Elections
from analysis.causes.evidence import SLACK_NS, DiskLoss, PartitionEvidence
from analysis.causes.liveness import Liveness


class PartitionMoment(NamedTuple):
    """A state (its index), a disk loss (its index among the disks), or a restart (the broker) with unknown steps.

    `is_last`: the disk loss has happened by now. Before its last moment it may have happened already.
    """

    at_ns: int
    what: Literal["state", "disk", "restart"]
    which: int
    is_last: bool = True


def moments_of(evidence: PartitionEvidence, elections: Elections, liveness: Liveness) -> tuple[PartitionMoment, ...]:
    """Return the moments in order; states keep the order of the log, whatever their times say.

    A disk loss that took a while has a moment before each state that it may have preceded, and one behind them.
    """
    found = [(at, PartitionMoment(state.at_ns, "state", at)) for at, state in enumerate(evidence.states)]
    for which, disk in enumerate(evidence.disks):
        places = _places_of(disk, elections, liveness) if disk.broker in elections.brokers else []
        for place in places:
            # It came before that state, so it counts as no later: what was committed by then was so in that state.
            at_ns = min([disk.within.first_ns, *(state.at_ns for state in evidence.states[place : place + 1])])
            found.append((place, PartitionMoment(at_ns, "disk", which, place == places[-1])))
    for broker in elections.brokers if not evidence.cluster.steps_known else ():
        times = [event.at_ns for event in liveness.registrations(broker)[1:]]
        if evidence.cluster.broker_events is None:
            times = [state.at_ns for state in evidence.states]
        elif evidence.cluster.log_torn:
            # The event of the last batch may be missing.
            times += [state.at_ns for state in evidence.states[-1:]]
        found += [(_place(elections, at_ns), PartitionMoment(at_ns, "restart", broker)) for at_ns in times]
    # At one place, what befell disks comes before the state.
    ordered = sorted(found, key=lambda one: (one[0], one[1].what == "state", one[1].at_ns))
    return tuple(moment for _, moment in ordered)


def _places_of(disk: DiskLoss, elections: Elections, liveness: Liveness) -> list[int]:
    """Return the indexes of the states that a disk loss may have come right before.

    Two clocks may differ by the slack, so a state that close to the loss may have come before it or after it. But a
    broker that entered the ISR that close did so by the process that the loss ended: the next one is not back so soon.
    That is sure only if no clock was set. Where the registrations of the processes are known, the loss came between
    that of the process that it ended and that of the next one.
    """
    first, last, slack = disk.within.first_ns, disk.within.last_ns, liveness.slack
    places, lowest, isr = {_place(elections, first)}, 0, {disk.broker}
    for at, state in enumerate(elections.states):
        if first - slack < state.at_ns < last + slack:
            places |= {at, at + 1}
        if disk.broker in set(state.isr) - isr and abs(state.at_ns - first) < slack <= SLACK_NS:
            lowest = at + 1
        isr = set(state.isr)
    highest, life = len(elections.states), liveness.life_within(disk.broker, disk.within)
    if life is not None:
        begun = [one.metadata_offset < life.registered.metadata_offset for one in elections.states]
        lowest = max(lowest, sum(begun))
        if life.next_registered is not None:
            highest = sum(liveness.is_before(one, life.next_registered) for one in elections.states)
    return sorted({min(max(lowest, place), highest) for place in places})


def _place(elections: Elections, at_ns: int) -> int:
    """Return the index of the first state that came at or after a time."""
    return bisect_left(list(accumulate((state.at_ns for state in elections.states), max)), at_ns)
