"""Names the election that lost a record or took the HW back, and its cause.

A range of lost records is split where one election may have lost one part, and another election the rest. The search
for the election is in `guilty_election`. Late acks and records that came back are looked at where that search finds no
cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from analysis.judge.causes.came_back import possible_return
from analysis.judge.causes.deposed_leaders import LostRecord
from analysis.judge.causes.guilty_election import attribute, is_known_to_lack
from analysis.judge.causes.late_acks import attribute_as_of_the_send, lost_what_it_had
from analysis.judge.causes.lost_offsets import LostStretch, stretches_between
from analysis.judge.causes.permits import why_it_could_lead
from analysis.judge.history.evidence import Attribution, LostOffset
from analysis.record.elections import ElectionEvent, elections_of
from analysis.record.record import Record

if TYPE_CHECKING:
    from analysis.reconcile.model import HwRegression, LostRange, VanishedRange


class LostPart(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a lost range that one election is guilty of.

    `first_done_ns` is when the first of its records was acked; None: not known.
    """

    first_offset: int
    last_offset: int
    count: int
    attribution: Attribution
    first_done_ns: int | None = None


def attribute_loss(record: Record, lost: LostRange) -> list[LostPart]:
    """Split a lost range into parts of one cause each, by the election that lost them.

    Nearly always the result is one part: several elections seldom share a range.
    """
    cuts = cuts_of(record, lost)
    parts: list[tuple[int, int, Attribution]] = []
    for first, end in zip([lost.first_offset, *cuts], [*cuts, lost.last_offset + 1], strict=True):
        lost_offset = LostOffset(
            topic=lost.topic,
            partition=lost.partition,
            offset=first,
            committed=lost.committed or lost.acks == -1,
            since_ns=lost.first_done_ns,
            since_epoch=_epoch_at(record, lost),
            had_min_isr=lost.acks == -1,
        )
        found = attribute(record, lost_offset)
        if found.cause == "unexplained" and lost.last_sent_ns is not None:
            found = attribute_as_of_the_send(record, lost_offset, lost.last_sent_ns) or found
        if lost.acks != -1:
            found = attribute_after_return(record, lost_offset, found)
        if found.cause == "unexplained":
            found = _acked_by_a_deposed_leader(record, lost_offset) or found
        if parts and parts[-1][2] == found:
            first = parts.pop()[0]
        parts.append((first, end - 1, found))
    return _with_counts(record, lost, parts)


def attribute_after_return(record: Record, lost_offset: LostOffset, found: Attribution) -> Attribution:
    """Return `found`, or the later election that lost the record if it came back in between.

    Asked where no rule explains the election of `found`. Its leader may have lacked the record before it was committed.
    If nothing shows that the record came back, and nothing that it did not, the result has no cause.
    """
    if found.cause != "unexplained" or found.election is None:
        return found
    back = possible_return(record, lost_offset, found.election)
    if back is None:
        return found
    if back.shown_by is not None:
        return _attribute_since(record, lost_offset, back.shown_by)
    for restored in back.elections:
        later = _attribute_since(record, lost_offset, restored)
        if later.cause != "unexplained":
            why = (
                f"broker {found.election.leader} lacked the record under epoch {found.election.epoch}, perhaps before "
                f"it was committed: broker {restored.leader}, elected under epoch {restored.epoch}, may have had it "
                f"again, and then a later election lost it ({later.cause or 'cause not known'}: {later.why})"
            )
            return Attribution(cause=None, election=found.election, why=why)
    return found


def _attribute_since(record: Record, lost_offset: LostOffset, restored: ElectionEvent) -> Attribution:
    """Attribute a record that the leader of an election had."""
    since = {"since_ns": restored.after.at_ns, "since_epoch": restored.epoch}
    return attribute(record, msgspec.structs.replace(lost_offset, **since, exact=True))


def _acked_by_a_deposed_leader(record: Record, lost_offset: LostOffset) -> Attribution | None:
    """Return that no cause is known if a deposed leader may have acked the record, else None.

    If the replicas of its ISR do not learn that another leader was elected uncleanly, they go on committing. That
    election loses what they commit then.
    """
    lost_record = LostRecord(record, lost_offset)
    for one in reversed(elections_of(record.timeline, lost_offset.topic, lost_offset.partition)):
        if one.epoch > lost_offset.since_epoch or not one.is_from_outside:
            continue
        found = why_it_could_lead(record, one, lost_offset)
        if found.cause != "unexplained" and lost_record.may_be_older_than(one):
            why = f"a leader before epoch {one.epoch} may have acked it although it was deposed; and {found.why}"
            return Attribution(cause=None, election=one, why=why)
    return None


def _with_counts(record: Record, lost: LostRange, parts: list[tuple[int, int, Attribution]]) -> list[LostPart]:
    """Count the records of each part.

    Where the counts cannot be read, the attribution of the first offset, which is certainly lost,
    stands for all.
    """
    if len(parts) == 1:
        stretches: list[LostStretch] | None = [LostStretch(lost.count, lost.first_done_ns)]
    else:
        stretches = stretches_between(record, lost, [first for first, _, _ in parts])
    if stretches is None and lost.count == lost.last_offset - lost.first_offset + 1:
        stretches = [LostStretch(last - first + 1, None) for first, last, _ in parts]
    if stretches is None:
        parts = [(lost.first_offset, lost.last_offset, parts[0][2])]
        stretches = [LostStretch(lost.count, lost.first_done_ns)]
    return [
        LostPart(
            first_offset=first,
            last_offset=last,
            count=one.count,
            attribution=found,
            first_done_ns=one.first_done_ns,
        )
        for (first, last, found), one in zip(parts, stretches, strict=True)
        if one.count
    ]


def attribute_regression(record: Record, back: HwRegression, lost: Sequence[LostRange]) -> Attribution:
    """Attribute a HW regression to the election that lost the last offset it covered.

    A HW is observed again and again, so its last observation says little about when the offset was
    written. If the offset is among the `lost`, its acknowledgement says more. A leader that does
    not know of its successor still reports its HW long after. What that HW covered existed when the
    successor was elected, since the deposed leader's followers fetch no more.
    """
    if back.leader_epoch == back.earlier_leader_epoch:
        why = f"the HW of {back.topic}-{back.partition} went back under one leader epoch, with no election in between"
        return Attribution(cause="unexplained", election=None, why=why)
    last_offset = back.from_ - 1
    acked_ns = [
        one.last_done_ns
        for one in lost
        if (one.topic, one.partition) == (back.topic, back.partition)
        and one.first_offset <= last_offset <= one.last_offset
    ]
    deposed_ns = [
        one.after.at_ns
        for one in elections_of(record.timeline, back.topic, back.partition)
        if one.epoch > back.earlier_leader_epoch
    ]
    lost_offset = LostOffset(
        topic=back.topic,
        partition=back.partition,
        offset=last_offset,
        committed=True,
        since_ns=min([back.earlier_at_ns, *acked_ns, *deposed_ns]),
        since_epoch=back.earlier_leader_epoch,
        until_epoch=back.leader_epoch,
    )
    found = attribute(record, lost_offset)
    if found.cause == "unexplained":
        by_disk = attribute(record, msgspec.structs.replace(lost_offset, since_ns=0))
        if by_disk.election is not None and lost_what_it_had(record, by_disk.election.leader, lost_offset):
            why = f"{by_disk.why}; but the higher HW was served after that, perhaps by a leader that still had it"
            return Attribution(cause=None, election=by_disk.election, why=why)
    if found.cause == "unexplained" and found.election and not is_known_to_lack(record, found.election, lost_offset):
        # Unlike a loss, a regression need not be a fault: a new leader may answer with the HW that
        # it had as a follower.
        why = f"nothing shows that a leader of {lost_offset.name} up to epoch {back.leader_epoch} lacked the record"
        return Attribution(cause=None, election=None, why=f"{why}; a leader may have reported a HW that lagged")
    return found


def cuts_of(record: Record, found: LostRange | VanishedRange) -> list[int]:
    """Return the offsets that split a range where a different log may hold the rest."""
    name = f"{found.topic}-{found.partition}"
    ends = {at[name] for loss in record.log_losses or () for at in (loss.starts, loss.ends) if name in at}
    cuts = {*record.epochs.starts(found.topic, found.partition), *ends}
    return sorted(cut for cut in cuts if found.first_offset < cut <= found.last_offset)


def _epoch_at(record: Record, lost: LostRange) -> int:
    """Return the leader epoch in force, by the clock, when the range was acknowledged."""
    if lost.acked_after_epoch is not None:
        return lost.acked_after_epoch
    state = record.timeline.state_at_time(lost.topic, lost.partition, lost.first_done_ns)
    return state.leader_epoch if state is not None else -1
