"""Says in sentences what the worlds of a record agree on."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.causes.answer import CauseAnswer, Trail
from analysis.causes.intervals import states_in
from analysis.causes.partition import EvidentPartition
from analysis.causes.table import Kind
from ebbtide.record.verdict import Cause

_ROADS: Mapping[Kind, str] = {
    "any": "was elected",
    "unclean": "was elected from outside the ISR and the ELR",
    "last-known-leader": "was elected as the last known leader",
    "recovery": "was elected by the unclean recovery that Ebbtide carried out",
}
_WHY: Mapping[Cause, str] = {
    "uncommitted-at-failover": "nothing shows that the record was committed before",
    "unclean-recovery": "an unclean recovery elects the best log among the replies (KIP-966)",
    "unclean-election": "a config allowed that, or an operator asked for it",
    "last-known-leader": "at least min ISR disks took the record, which is beyond the tolerance of KIP-966",
    "stale-isr-join": "its metadata.version is before KIP-903",
    "beyond-tolerance": "the disk of every replica took the record",
    "last-replica-standing": "it was the only member of the ISR, and there was no ELR",
    "unexplained": "the protocol does not allow that",
}
_WITHIN_TOLERANCE = "fewer than min ISR disks took the record, which KIP-966 promises to survive"


def sentence(partition: EvidentPartition, found: CauseAnswer) -> str:
    """Return what a verdict says of an answer."""
    if found.cause is None:
        roads = sorted({_road(partition, one) for one in found.trails if one.causes})
        return f"{found.why} (possible: {'; or '.join(roads)})" if roads else found.why
    fitting = [one for one in found.trails if found.cause == "unexplained" or found.cause in one.causes]
    if not fitting:
        return found.why or _WHY[found.cause]
    roads = list(dict.fromkeys(_road(partition, one) for one in fitting))
    return f"{'; or '.join(roads)}; {_why(found.cause, fitting[0])}"


def ways(partition: EvidentPartition, found: CauseAnswer) -> list[str]:
    """Return each way in which the record may have got lost, from its append to the table that allows it or not."""
    return list(dict.fromkeys(_way(partition, one) for one in found.trails))


def _way(partition: EvidentPartition, trail: Trail) -> str:
    states = partition.elections.states
    append, last = states[trail.writer], states[trail.holder]
    text = f"broker {append.leader} appended it under leader epoch {append.leader_epoch}; "
    if trail.holder != trail.writer:
        text += f"the last leader with it was broker {last.leader} (leader epoch {last.leader_epoch}); "
    text += _road(partition, trail)
    if trail.guilty is not None:
        text += f" (leader epoch {states[trail.guilty].leader_epoch})"
    if trail.is_forbidden:
        return f"{text}; {_WHY['unexplained']}"
    allowed = [f"{one}: {_why(one, trail)}" for one in trail.causes]
    return "; ".join([text, *allowed, *(f"not known: {need}" for need in trail.needs)])


def _why(cause: Cause, trail: Trail) -> str:
    return _WITHIN_TOLERANCE if cause == "unexplained" and not trail.is_forbidden else _WHY[cause]


def _road(partition: EvidentPartition, trail: Trail) -> str:
    reasons = " or ".join(states_in(trail.reasons))
    if trail.guilty is None:
        return f"some leader {reasons}" if reasons else "an election that is missing"
    after, kind = partition.elections.states[trail.guilty], partition.leaders.kind[trail.guilty]
    if kind == "clean":
        is_member = after.leader in partition.elections.states[trail.guilty - 1].isr
        return f"broker {after.leader} was elected from the {'ISR' if is_member else 'ELR'} and {reasons}"
    return f"broker {after.leader} {_ROADS[kind]} and {reasons}"
