"""A partition over time: the part of each broker in it, its elections, the time without a leader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from analysis.record.elections import ElectionEvent
from analysis.record.timeline import Lasting, TopicPartition, lasting
from analysis.report.picture.model import (
    Details,
    ElectionMark,
    LostBand,
    RecordMark,
    RoleState,
    StateSpan,
)
from analysis.sentences import words
from analysis.sentences.elections import ROAD_TEXT, Blame, transition
from ebbtide.record.rows import PartitionState
from ebbtide.record.verdict import Verdict
from ebbtide.shown_text import plural

_ROLE_TEXT: Mapping[RoleState, str] = {
    "leader": "leader",
    "recovering": "leader, RECOVERING",
    "isr": "ISR",
    "elr": "ELR",
    "last-known-leader": "last known leader",
    "replica": "out of ISR",
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


def roles_of(
    states: Sequence[PartitionState], zero_ns: int, deletions: Sequence[int] = ()
) -> dict[int, tuple[StateSpan, ...]]:
    """Return the spans of each broker that was a replica, by broker.

    `deletions` are the times at which the topic was deleted: no state lasts longer.
    """
    brokers = sorted({broker for state in states for broker in state.replicas})
    return {broker: tuple(_role_spans(states, broker, zero_ns, deletions)) for broker in brokers}


def _role_spans(
    states: Sequence[PartitionState], broker: int, zero_ns: int, deletions: Sequence[int]
) -> Iterator[StateSpan]:
    spans: Iterator[Lasting[RoleState, PartitionState | None]] = lasting(
        with_deletions(states, deletions), lambda state: None if state is None else role_of(state, broker)
    )
    for one in spans:
        assert one.row is not None
        yield StateSpan(
            begin_ns=one.begin_ns,
            end_ns=one.end_ns,
            state=one.state,
            text=_ROLE_TEXT[one.state],
            details=state_details(one.row, zero_ns),
        )


def with_deletions(
    states: Sequence[PartitionState], deletions: Sequence[int]
) -> list[tuple[int, PartitionState | None]]:
    """Return the states with their times, and None at each time at which the topic was deleted."""
    found: list[tuple[int, PartitionState | None]] = [(state.at_ns, state) for state in states]
    return sorted([*found, *((at_ns, None) for at_ns in deletions)], key=lambda one: one[0])


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
    states: Sequence[PartitionState], elected: Mapping[int, ElectionEvent], blames: Mapping[int, Blame], zero_ns: int
) -> Iterator[RecordMark]:
    """Yield each metadata record of the partition, with what it changed."""
    before: PartitionState | None = None
    for state in states:
        offset = state.metadata_offset
        _, note = transition(before, state, elected.get(offset), blames.get(offset))
        yield RecordMark(
            at_ns=state.at_ns,
            metadata_offset=offset,
            text=note,
            details=state_details(state, zero_ns),
        )
        before = state


def election_marks(
    elected: Mapping[int, ElectionEvent], blames: Mapping[int, Blame], zero_ns: int
) -> Iterator[ElectionMark]:
    """Yield each election that changed the leader, or that lost something."""
    for offset, one in elected.items():
        blame = blames.get(offset)
        if not one.changes_leader and blame is None:
            continue
        yield ElectionMark(
            at_ns=one.after.at_ns,
            metadata_offset=offset,
            leader=one.leader,
            leader_epoch=one.epoch,
            road=one.road,
            blame=blame,
            text=f"broker {one.leader} elected {ROAD_TEXT[one.road]}",
            details=(*_blame_details(blame), *state_details(one.after, zero_ns)),
        )


def _blame_details(blame: Blame | None) -> Details:
    if blame is None:
        return ()
    if not blame.is_guilty:
        return (("lost", f"{plural(blame.lost, 'uncommitted record')}: {blame.cause}"),)
    lost = f": {plural(blame.lost, 'record')} lost" if blame.lost else ""
    return (("guilty of", f"{blame.cause}{lost}"),)


def leaderless_of(states: Sequence[PartitionState], deletions: Sequence[int] = ()) -> Iterator[tuple[int, int | None]]:
    """Yield the spans without a leader; a topic that was deleted needs none."""
    for one in lasting(
        with_deletions(states, deletions), lambda state: (state is not None and state.leader < 0) or None
    ):
        yield one.begin_ns, one.end_ns


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
