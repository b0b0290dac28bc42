"""Says in sentences what the histories of a record agree on."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.causes.answer import HIDDEN, CauseAnswer, LossHistory
from analysis.causes.intervals import states_in
from analysis.causes.partition import EvidentPartition
from analysis.causes.table import NEEDS, Kind
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
    "last-known-leader": "at least min ISR disks lost the record, which is beyond the tolerance of KIP-966",
    "stale-isr-join": "its metadata.version is before KIP-903",
    "beyond-tolerance": "the disk of every replica lost the record",
    "last-replica-standing": "it was the only member of the ISR, and there was no ELR",
    "unexplained": "fewer than min ISR disks lost the record, which KIP-966 promises to survive",
}
_FORBIDDEN = "the protocol does not allow that"


def sentence(partition: EvidentPartition, found: CauseAnswer) -> str:
    """Return what a verdict says of an answer."""
    if found.cause is None:
        roads = sorted({_road(partition, one) for one in found.histories if one.causes})
        return f"{found.why} (possible: {'; or '.join(roads)})" if roads else found.why
    if not found.histories:
        return found.why
    roads = list(dict.fromkeys(_road(partition, one) for one in found.histories))
    why = _WHY[found.cause] if found.histories[0].permits else _FORBIDDEN
    return f"{'; or '.join(roads)}; {why}"


def tell(partition: EvidentPartition, found: CauseAnswer) -> list[str]:
    """Return each history in a sentence, from the append to the row of the table that allows it or not."""
    return list(dict.fromkeys(_tell(partition, one) for one in found.histories))


def _tell(partition: EvidentPartition, one: LossHistory) -> str:
    states = partition.elections.states
    if one.writer == HIDDEN:
        return f"a leader whose election is missing may have appended it; not known: {NEEDS['gap']}"
    append, last = states[one.writer], states[one.holder]
    text = f"broker {append.leader} appended it under leader epoch {append.leader_epoch}; "
    if one.holder != one.writer:
        text += f"the last leader with it was broker {last.leader} (leader epoch {last.leader_epoch}); "
    text += _road(partition, one)
    if one.guilty is not None:
        text += f" (leader epoch {states[one.guilty].leader_epoch})"
    if not one.permits:
        return f"{text}; {_FORBIDDEN}"
    allowed = [f"{cause}: {_WHY[cause]}" for cause in sorted(one.permits.causes)]
    return "; ".join([text, *allowed, *(f"not known: {need}" for need in sorted(one.permits.needs))])


def _road(partition: EvidentPartition, one: LossHistory) -> str:
    reasons = " or ".join(states_in(one.guilt.reasons))
    if one.guilty is None:
        return f"some leader {reasons}" if reasons else "an election that is missing"
    after, kind = partition.elections.states[one.guilty], partition.leaders.kind[one.guilty]
    if kind == "clean":
        is_member = after.leader in partition.elections.states[one.guilty - 1].isr
        return f"broker {after.leader} was elected from the {'ISR' if is_member else 'ELR'} and {reasons}"
    return f"broker {after.leader} {_ROADS[kind]} and {reasons}"
