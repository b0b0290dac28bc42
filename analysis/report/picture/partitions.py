"""A partition over time: the part of each broker in it, its elections, the time without a leader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from analysis.judge.history.elections import ElectionEvent, elections_of
from analysis.judge.history.timeline import Timeline, TopicPartition
from analysis.report import words
from analysis.report.picture.model import (
    Details,
    ElectionMark,
    LostBand,
    RecordMark,
    RoleState,
    StateSpan,
)
from ebbtide.record.rows import PartitionState
from ebbtide.record.verdict import Cause, Loss, Regression, Verdict

_ROLE_TEXT: Mapping[RoleState, str] = {
    "leader": "leader",
    "recovering": "leader, RECOVERING",
    "isr": "ISR",
    "elr": "ELR",
    "last-known-leader": "last known leader",
    "replica": "out of ISR",
}
_ROAD_TEXT = {
    "isr": "from the ISR",
    "elr": "from the ELR",
    "last-known-leader": "as the last known leader",
    "reassignment": "by the reassignment",
    "unclean": "uncleanly",
}


def role_of(state: PartitionState, broker: int) -> RoleState | None:
    """Return a broker's part in a partition; None if it is no replica."""
    if broker == state.leader:
        return "recovering" if state.recovering else "leader"
    if broker in state.isr:
        return "isr"
    if broker in state.elr:
        return "elr"
    if broker in state.last_known_elr:
        return "last-known-leader"
    return "replica" if broker in state.replicas else None


def roles_of(states: Sequence[PartitionState], zero_ns: int) -> dict[int, tuple[StateSpan, ...]]:
    """Return the spans of each broker that was a replica, by broker."""
    brokers = sorted({broker for state in states for broker in state.replicas})
    return {broker: tuple(_role_spans(states, broker, zero_ns)) for broker in brokers}


def _role_spans(states: Sequence[PartitionState], broker: int, zero_ns: int) -> Iterator[StateSpan]:
    open_: tuple[RoleState, PartitionState] | None = None
    for state in states:
        role = role_of(state, broker)
        if open_ is not None and role == open_[0]:
            continue
        if open_ is not None:
            yield _role_span(open_, state.at_ns, zero_ns)
        open_ = (role, state) if role is not None else None
    if open_ is not None:
        yield _role_span(open_, None, zero_ns)


def _role_span(open_: tuple[RoleState, PartitionState], end_ns: int | None, zero_ns: int) -> StateSpan:
    role, state = open_
    return StateSpan(
        begin_ns=state.at_ns,
        end_ns=end_ns,
        state=role,
        text=_ROLE_TEXT[role],
        details=state_details(state, zero_ns),
    )


def state_details(state: PartitionState, zero_ns: int) -> Details:
    """Return a metadata record as names and values."""
    rows = (
        ("metadata offset", str(state.metadata_offset)),
        ("at", words.offset_s(state.at_ns, zero_ns)),
        ("leader", f"broker {state.leader}" if state.leader >= 0 else "none"),
        ("leader epoch", str(state.leader_epoch)),
        ("partition epoch", str(state.partition_epoch)),
        ("ISR", words.members(state.isr)),
        ("ELR", words.members(state.elr)),
        ("last known leader", words.members(state.last_known_elr, "")),
        ("replicas", words.members(state.replicas)),
        ("adding", words.members(state.adding, "")),
        ("removing", words.members(state.removing, "")),
        ("recovery", "RECOVERING" if state.recovering else ""),
    )
    return tuple((name, value) for name, value in rows if value)


def records_of(
    states: Sequence[PartitionState], elected: Mapping[int, ElectionEvent], guilty: Mapping[int, Cause], zero_ns: int
) -> Iterator[RecordMark]:
    """Yield each metadata record of the partition, with what it changed."""
    before: PartitionState | None = None
    for state in states:
        offset = state.metadata_offset
        _, note = words.transition(before, state, elected.get(offset), guilty.get(offset))
        yield RecordMark(
            at_ns=state.at_ns,
            metadata_offset=offset,
            text=note or _other_change(before, state),
            details=state_details(state, zero_ns),
        )
        before = state


def _other_change(before: PartitionState | None, state: PartitionState) -> str:
    """Return what changed while leader, ISR and ELR stayed."""
    if before is None:
        return "first state in the log"
    changes = []
    if state.adding != before.adding or state.removing != before.removing:
        parts = [
            f"{verb} {words.members(ids)}"
            for verb, ids in (("adding", state.adding), ("removing", state.removing))
            if ids
        ]
        changes.append(f"reassignment: {', '.join(parts)}" if parts else "the reassignment ends")
    if state.last_known_elr != before.last_known_elr:
        changes.append(f"last known leader: {words.members(state.last_known_elr, 'none')}")
    if before.recovering and not state.recovering:
        changes.append("recovered")
    return "; ".join(changes) or "leader, ISR and ELR stay"


def elections_by_offset(timeline: Timeline, key: TopicPartition) -> dict[int, ElectionEvent]:
    """Return the elections of a partition by metadata offset."""
    return {one.after.metadata_offset: one for one in elections_of(timeline, *key)}


def blamed_in(verdict: Verdict) -> list[Loss | Regression]:
    """Return the losses and the HWs that went back."""
    return [*verdict.losses, *verdict.regressions]


def guilty_of(verdict: Verdict, key: TopicPartition) -> dict[int, Cause]:
    """Return the elections that lost something, by metadata offset, with the first cause."""
    guilty: dict[int, Cause] = {}
    for one in blamed_in(verdict):
        if (one.topic, one.partition) == key and one.election is not None:
            guilty.setdefault(one.election.metadata_offset, one.cause)
    return guilty


def election_marks(
    elected: Mapping[int, ElectionEvent],
    guilty: Mapping[int, Cause],
    verdict: Verdict,
    key: TopicPartition,
    zero_ns: int,
) -> Iterator[ElectionMark]:
    """Yield each election that changed the leader, or that is guilty."""
    for offset, one in elected.items():
        cause = guilty.get(offset)
        if not one.changes_leader and cause is None:
            continue
        lost = sum(
            loss.count
            for loss in verdict.losses
            if (loss.topic, loss.partition) == key
            and loss.election is not None
            and loss.election.metadata_offset == offset
        )
        yield ElectionMark(
            at_ns=one.after.at_ns,
            metadata_offset=offset,
            leader=one.leader,
            leader_epoch=one.epoch,
            road=one.road,
            guilty=cause,
            lost=lost,
            text=f"broker {one.leader} elected {_ROAD_TEXT[one.road]}",
            details=(
                *((("guilty of", f"{cause}: {lost:,} records lost" if lost else cause),) if cause else ()),
                *state_details(one.after, zero_ns),
            ),
        )


def leaderless_of(states: Sequence[PartitionState]) -> Iterator[tuple[int, int | None]]:
    """Yield the spans without a leader."""
    begin_ns: int | None = None
    for state in states:
        if state.leader < 0 and begin_ns is None:
            begin_ns = state.at_ns
        elif state.leader >= 0 and begin_ns is not None:
            yield begin_ns, state.at_ns
            begin_ns = None
    if begin_ns is not None:
        yield begin_ns, None


def lost_bands(verdict: Verdict, states: Sequence[PartitionState], key: TopicPartition) -> Iterator[LostBand]:
    """Yield the lost records of a partition; they are gone since the guilty election."""
    at_ns = {state.metadata_offset: state.at_ns for state in states}
    for loss in verdict.losses:
        if (loss.topic, loss.partition) == key:
            yield LostBand(
                first_offset=loss.first_offset,
                last_offset=loss.last_offset,
                count=loss.count,
                committed=loss.committed,
                cause=loss.cause,
                since_ns=at_ns.get(loss.election.metadata_offset) if loss.election is not None else None,
                text=f"{loss.count:,} {'committed' if loss.committed else 'uncommitted'} lost",
            )
