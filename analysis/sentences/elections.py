"""Says of an election how its leader came to lead, and what it lost."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from analysis.record.elections import ElectionEvent, Road, elections_of
from analysis.record.timeline import Timeline, TopicPartition
from analysis.sentences.words import members
from ebbtide.record.rows import PartitionState
from ebbtide.record.verdict import Blamed, Cause, Loss, Verdict
from ebbtide.rules.table import ANOMALIES

ROAD_TEXT: Mapping[Road, str] = {
    "isr": "from the ISR",
    "elr": "from the ELR",
    "last-known-leader": "as the last known leader",
    "reassignment": "by the reassignment",
    "unclean": "uncleanly",
}
"""How a leader came to lead, to follow `broker 2 elected` or `broker 2 leads`."""


class Blame(msgspec.Struct, frozen=True, kw_only=True):
    """What one election lost: the first cause, and how many records.

    `is_guilty`: it lost a record that was committed, or one that nothing explains, or the HW went
    back. Otherwise it lost only records that nobody promised to keep.
    """

    cause: Cause
    lost: int
    is_guilty: bool


def is_broken_promise(one: Loss | Blamed) -> bool:
    """Return whether what was lost was committed, or nothing explains it."""
    return one.committed or one.cause == "unexplained"


def blamed_in(verdict: Verdict) -> list[Blamed]:
    """Return what partitions lost by their own elections, and the HWs that went back."""
    return [one for one in verdict.attributed if one.group is None and (one.committed or is_loss(one))]


def is_loss(one: Blamed) -> bool:
    """Whether the kind is among the gravest facts of a run."""
    return one.kind in ANOMALIES and ANOMALIES[one.kind].is_loss


def blames_of(verdict: Verdict, key: TopicPartition) -> dict[int, Blame]:
    """Return what the elections of a partition lost, by metadata offset."""
    found: dict[int, Blame] = {}
    for one in blamed_in(verdict):
        if (one.topic, one.partition) != key or one.election is None or one.cause is None:
            continue
        offset = one.election.metadata_offset
        is_guilty = is_broken_promise(one)
        before = found.get(offset)
        first = before is None or (is_guilty and not before.is_guilty)
        found[offset] = Blame(
            cause=one.cause if before is None or first else before.cause,
            lost=(one.count if is_loss(one) else 0) + (before.lost if before is not None else 0),
            is_guilty=is_guilty or (before is not None and before.is_guilty),
        )
    return found


def elections_by_offset(timeline: Timeline, key: TopicPartition) -> dict[int, ElectionEvent]:
    """Return the elections of a partition by metadata offset."""
    return {one.after.metadata_offset: one for one in elections_of(timeline, *key)}


def transition(
    before: PartitionState | None, state: PartitionState, elected: ElectionEvent | None, blame: Blame | None
) -> tuple[str, str]:
    """Return the mark and the note of one state: what the record did, which is never empty."""
    notes: list[str] = []
    if elected is not None and elected.changes_leader:
        notes.append(f"broker {state.leader} elected {ROAD_TEXT[elected.road]}")
    elif before is None:
        notes.append("created" if state.leader_epoch == 0 else "first state in the log")
    elif before.leader >= 0 > state.leader:
        notes.append(f"broker {before.leader} no longer leads, the partition has no leader")
    if before is not None:
        joined, left = set(state.isr) - set(before.isr), set(before.isr) - set(state.isr)
        if joined and not (elected is not None and joined == {state.leader}):
            notes.append(_moves(joined, "enter", "ISR"))
        if left:
            notes.append(_moves(left, "leave", "ISR"))
        dropped = set(before.elr) - set(state.elr) - set(state.isr)
        if dropped:
            notes.append(_moves(dropped, "leave", "ELR"))
    if state.recovering:
        notes.append("RECOVERING")
    if before is not None and not notes:
        notes = list(_other_changes(before, state)) or ["leader, ISR and ELR stay"]
    if blame is not None:
        said = "guilty election" if blame.is_guilty else "lost uncommitted records"
        return "guilty" if blame.is_guilty else "election", "; ".join([f"{said}, {blame.cause}", *notes])
    mark = "election" if elected is not None and elected.changes_leader else ("empty" if state.leader < 0 else "")
    return mark, "; ".join(notes)


def _other_changes(before: PartitionState, state: PartitionState) -> Iterator[str]:
    """Yield what changed while no broker began to lead, and none entered or left the ISR or left the ELR."""
    if state.leader_epoch != before.leader_epoch:
        yield f"broker {state.leader} leads on" if state.leader >= 0 else "the partition still has no leader"
    if entered := set(state.elr) - set(before.elr):
        yield _moves(entered, "enter", "ELR")
    if state.adding != before.adding or state.removing != before.removing:
        moves = [
            f"{verb} {members(ids)}" for verb, ids in (("adding", state.adding), ("removing", state.removing)) if ids
        ]
        yield f"reassignment: {', '.join(moves)}" if moves else "the reassignment ends"
    if state.last_known_elr != before.last_known_elr:
        yield f"last known leader: {members(state.last_known_elr, 'none')}"
    if before.recovering and not state.recovering:
        yield "recovered"


def _moves(brokers: Collection[int], verb: str, list_: str) -> str:
    """Return such as `broker 3 leaves the ISR`, or `brokers 2, 3 leave the ISR`."""
    one = len(brokers) == 1
    who = f"broker{'' if one else 's'} {', '.join(map(str, sorted(brokers)))}"
    return f"{who} {verb}{'s' if one else ''} the {list_}"
