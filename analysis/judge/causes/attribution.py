"""Names the election that lost a record or took the HW back, and its cause.

The system: a partition has leaders under rising epochs. A leader never truncates its log while it
leads; followers truncate theirs to match it. So a lost record was absent from the log of some
leader elected after the append. The first such election is the guilty one.

Three sources say what a leader held, in this order:
- the start offset of its leader epoch (`epochs`),
- the log losses that the harness caused (`log_losses`),
- the protocol. A leader elected from ISR or ELR whose log lost nothing held every committed record,
  so an election that left no trace is guilty only if a rule explains it.

A deposed leader may go on answering acks=0 and 1 for a while, and a client notes an answer late. An
election before the acknowledgement is therefore guilty in two cases: no later election is, or the
epoch in force by the clock wrote another record at that offset. With acks=all a deposed leader can
answer late only for what its ISR held before. Then the disks that lost it in the meantime count.

When the table or the step that decides is missing, the cause is None. Missing evidence is never
read as a violation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from analysis.judge.causes.came_back import possible_return
from analysis.judge.causes.lost_offsets import LostStretch, stretches_between
from analysis.judge.causes.permits import has_lost_offset, why_it_could_lead
from analysis.judge.causes.uncommitted_losses import why_uncommitted
from analysis.judge.history.elections import ElectionEvent, elections_of
from analysis.judge.history.evidence import Attribution, Evidence, LostOffset
from analysis.judge.history.timeline import MILLISECOND_NS

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


def attribute_loss(evidence: Evidence, lost: LostRange) -> list[LostPart]:
    """Split a lost range into parts of one cause each, by the election that lost them.

    Nearly always the result is one part: several elections seldom share a range.
    """
    cuts = cuts_of(evidence, lost)
    parts: list[tuple[int, int, Attribution]] = []
    for first, end in zip([lost.first_offset, *cuts], [*cuts, lost.last_offset + 1], strict=True):
        lost_offset = LostOffset(
            topic=lost.topic,
            partition=lost.partition,
            offset=first,
            committed=lost.committed or lost.acks == -1,
            since_ns=lost.first_done_ns,
            since_epoch=_epoch_at(evidence, lost),
        )
        found = attribute(evidence, lost_offset)
        if found.cause == "unexplained" and lost.last_sent_ns is not None:
            found = _acked_by_a_deposed_leader(evidence, lost_offset, lost.last_sent_ns) or found
        if lost.acks != -1:
            found = attribute_after_return(evidence, lost_offset, found)
        if parts and parts[-1][2] == found:
            first = parts.pop()[0]
        parts.append((first, end - 1, found))
    return _with_counts(evidence, lost, parts)


def attribute_after_return(evidence: Evidence, lost_offset: LostOffset, found: Attribution) -> Attribution:
    """Return `found`, or the later election that lost the record if it came back in between.

    Asked where no rule explains the election of `found`. Its leader may have lacked the record before it was committed.
    If nothing shows that the record came back, and nothing that it did not, the result has no cause.
    """
    if found.cause != "unexplained" or found.election is None:
        return found
    back = possible_return(evidence, lost_offset, found.election)
    if back is None:
        return found
    if back.shown_by is not None:
        return _attribute_since(evidence, lost_offset, back.shown_by)
    for restored in back.elections:
        later = _attribute_since(evidence, lost_offset, restored)
        if later.cause != "unexplained":
            why = (
                f"broker {found.election.leader} lacked the record under epoch {found.election.epoch}, perhaps before "
                f"it was committed: broker {restored.leader}, elected under epoch {restored.epoch}, may have had it "
                f"again, and then a later election lost it ({later.cause or 'cause not known'}: {later.why})"
            )
            return Attribution(cause=None, election=found.election, why=why)
    return found


def _attribute_since(evidence: Evidence, lost_offset: LostOffset, restored: ElectionEvent) -> Attribution:
    """Attribute a record that the leader of an election had."""
    since = {"since_ns": restored.after.at_ns, "since_epoch": restored.epoch}
    return attribute(evidence, msgspec.structs.replace(lost_offset, **since, exact=True))


def _acked_by_a_deposed_leader(evidence: Evidence, lost_offset: LostOffset, sent_ns: int) -> Attribution | None:
    """Attribute a record as of its send time; None if that explains nothing.

    A leader that is cut off may receive its followers' last fetches only after the cut is healed:
    they wait on the wire, even those of a broker that died meanwhile. The leader acks then,
    although it was deposed and a follower lost its log. So a record sent in an earlier epoch counts
    as written then, if the disk that lost it is known to have had the offset.
    """
    state = evidence.timeline.state_at_time(lost_offset.topic, lost_offset.partition, sent_ns)
    if state is None or state.leader_epoch >= lost_offset.since_epoch:
        return None
    sent = msgspec.structs.replace(lost_offset, since_ns=sent_ns, since_epoch=state.leader_epoch)
    found = attribute(evidence, sent)
    if found.cause in ("unexplained", None) or found.election is None:
        return None
    # The broker that lost the record did not ack it late, and neither did a leader that it had
    # replaced by then.
    if found.election.leader == state.leader or found.election.epoch <= lost_offset.since_epoch:
        return None
    had = any(
        loss.broker == found.election.leader
        and sent_ns < loss.fired_ns
        and loss.done_ns < lost_offset.since_ns
        and loss.starts.get(lost_offset.name, -1) > lost_offset.offset
        for loss in evidence.log_losses or ()
    )
    return found if had else None


def _with_counts(evidence: Evidence, lost: LostRange, parts: list[tuple[int, int, Attribution]]) -> list[LostPart]:
    """Count the records of each part.

    Where the counts cannot be read, the attribution of the first offset, which is certainly lost,
    stands for all.
    """
    if len(parts) == 1:
        stretches: list[LostStretch] | None = [LostStretch(lost.count, lost.first_done_ns)]
    else:
        stretches = stretches_between(evidence.record, lost, [first for first, _, _ in parts])
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


def attribute_regression(evidence: Evidence, back: HwRegression, lost: Sequence[LostRange]) -> Attribution:
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
        for one in elections_of(evidence.timeline, back.topic, back.partition)
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
    found = attribute(evidence, lost_offset)
    if found.cause == "unexplained" and found.election and not _is_known_to_lack(evidence, found.election, lost_offset):
        # Unlike a loss, a regression need not be a fault: a new leader may answer with the HW that
        # it had as a follower.
        why = f"nothing shows that a leader of {lost_offset.name} up to epoch {back.leader_epoch} lacked the record"
        return Attribution(cause=None, election=None, why=f"{why}; a leader may have reported a HW that lagged")
    return found


def cuts_of(evidence: Evidence, found: LostRange | VanishedRange) -> list[int]:
    """Return the offsets that split a range where a different log may hold the rest."""
    name = f"{found.topic}-{found.partition}"
    ends = {at[name] for loss in evidence.log_losses or () for at in (loss.starts, loss.ends) if name in at}
    cuts = {*evidence.epochs.starts(found.topic, found.partition), *ends}
    return sorted(cut for cut in cuts if found.first_offset < cut <= found.last_offset)


def _epoch_at(evidence: Evidence, lost: LostRange) -> int:
    """Return the leader epoch in force, by the clock, when the range was acknowledged."""
    if lost.acked_after_epoch is not None:
        return lost.acked_after_epoch
    state = evidence.timeline.state_at_time(lost.topic, lost.partition, lost.first_done_ns)
    return state.leader_epoch if state is not None else -1


def attribute(evidence: Evidence, lost_offset: LostOffset) -> Attribution:
    """Return the cause of the loss of one offset."""
    if not evidence.timeline.states(lost_offset.topic, lost_offset.partition):
        why = f"the metadata timeline of {lost_offset.name} is missing (partitions.parquet)"
        return Attribution(cause=None if lost_offset.committed else "uncommitted-at-failover", election=None, why=why)
    guilty = _guilty_election(evidence, lost_offset)
    if not lost_offset.committed:
        return why_uncommitted(evidence, lost_offset, guilty)
    if guilty is None:
        if lost_offset.until_epoch is not None:
            elections = elections_of(evidence.timeline, lost_offset.topic, lost_offset.partition)
            if any(one.epoch == lost_offset.until_epoch for one in elections):
                why = (
                    f"the leaders up to epoch {lost_offset.until_epoch} held the record, "
                    "so no election explains the lower HW"
                )
            else:
                why = (
                    f"the election of {lost_offset.name} under epoch {lost_offset.until_epoch} "
                    "is not in the metadata timeline"
                )
            return Attribution(cause=None, election=None, why=why)
        if evidence.timeline.torn:
            why = "the metadata log is damaged, so an election may be missing (evidence.json)"
            return Attribution(cause=None, election=None, why=why)
        since = "it was written" if lost_offset.exact else "the acknowledgement"
        why = f"no election of {lost_offset.name} after {since} explains it"
        return Attribution(cause="unexplained", election=None, why=why)
    return why_it_could_lead(evidence, guilty, lost_offset)


def _guilty_election(evidence: Evidence, lost_offset: LostOffset) -> ElectionEvent | None:
    """The first election after the append whose leader did not hold the offset."""
    elections = [
        one
        for one in elections_of(evidence.timeline, lost_offset.topic, lost_offset.partition)
        if lost_offset.until_epoch is None or one.epoch <= lost_offset.until_epoch
    ]
    later = [one for one in elections if one.epoch > lost_offset.since_epoch and not _has_never_led(evidence, one)]
    earlier = [] if lost_offset.exact else [one for one in elections if one.epoch <= lost_offset.since_epoch]
    restored = lost_offset.exact and _has_an_older_record(evidence, lost_offset)
    if lost_offset.until_epoch is None and earlier and _has_written_another(evidence, earlier[-1], lost_offset):
        return earlier[-1]
    suspects: list[ElectionEvent] = []
    for one in later:
        held = evidence.epochs.has_held(lost_offset.topic, lost_offset.partition, one.epoch, lost_offset.offset)
        if held is True and not restored:
            suspects.clear()
            continue
        suspects.append(one)
        if held is False or _has_lost_it_by_measure(evidence, one, lost_offset):
            break
    else:
        if not suspects:
            return next((one for one in reversed(earlier) if _is_known_to_lack(evidence, one, lost_offset)), None)
    explained = (
        one
        for one in suspects
        if _is_known_to_lack(evidence, one, lost_offset) or _can_explain(evidence, one, lost_offset)
    )
    found = next(explained, None)
    at_one_time = [earlier[-1]] if earlier and _is_at_one_time(earlier[-1], lost_offset) else []
    if found is None and at_one_time and _can_explain(evidence, earlier[-1], lost_offset):
        return earlier[-1]
    return _likeliest_election(evidence, lost_offset, found or suspects[0], [*suspects, *at_one_time])


def _likeliest_election(
    evidence: Evidence, lost_offset: LostOffset, likely: ElectionEvent, suspects: Sequence[ElectionEvent]
) -> ElectionEvent:
    """Return `likely`, unless only another suspect may be explained by a rule.

    If no rule surely explains any of them, an election from outside ISR and ELR is likelier than
    one from inside.
    """
    if not lost_offset.committed or why_it_could_lead(evidence, likely, lost_offset).cause != "unexplained":
        return likely
    not_known = (one for one in suspects if why_it_could_lead(evidence, one, lost_offset).cause is None)
    from_outside = (one for one in suspects if one.road in ("unclean", "last-known-leader"))
    return next(not_known, None) or next(from_outside, None) or likely


def _has_never_led(evidence: Evidence, elected: ElectionEvent) -> bool:
    """Return whether the elected leader was dead for the whole of its epoch.

    A session lasts a while, so a controller may elect a broker that has lost power. If that broker
    registers again only after its epoch, no follower truncates to its log.
    """
    if "brokers" in evidence.timeline.missing:
        return False
    states = evidence.timeline.states(elected.after.topic, elected.after.partition)
    ended = next((one.at_ns for one in states if one.leader_epoch > elected.epoch), None)
    died = [
        loss.done_ns
        for loss in evidence.log_losses or ()
        if loss.broker == elected.leader and loss.proven and loss.done_ns <= elected.after.at_ns
    ]
    if not died or ended is None:
        return False
    return not any(
        event.event == "registered" and event.broker == elected.leader and died[-1] <= event.at_ns + MILLISECOND_NS
        for event in evidence.timeline.brokers
        if event.at_ns <= ended
    )


def _is_at_one_time(elected: ElectionEvent, lost_offset: LostOffset) -> bool:
    """Return whether the clocks cannot order the acknowledgement and the election.

    The controller's times are cut to milliseconds.
    """
    return abs(lost_offset.since_ns - elected.after.at_ns) <= MILLISECOND_NS


def _has_written_another(evidence: Evidence, elected: ElectionEvent, lost_offset: LostOffset) -> bool:
    """Return whether the final leader's log has this epoch's record at the offset.

    Such a record is not the lost one.
    """
    final = evidence.timeline.states(lost_offset.topic, lost_offset.partition)[-1].leader
    return evidence.epochs.covers(lost_offset.topic, lost_offset.partition, final, elected.epoch, lost_offset.offset)


def _has_an_older_record(evidence: Evidence, lost_offset: LostOffset) -> bool:
    """Return whether the final leader's log has an older epoch's record at the offset.

    If so, a leader that had some record at the offset need not have had the lost one.
    """
    final = evidence.timeline.states(lost_offset.topic, lost_offset.partition)[-1].leader
    return any(
        evidence.epochs.covers(lost_offset.topic, lost_offset.partition, final, epoch, lost_offset.offset)
        for epoch in range(lost_offset.since_epoch)
    )


def _is_known_to_lack(evidence: Evidence, elected: ElectionEvent, lost_offset: LostOffset) -> bool:
    """Return whether the evidence proves that the elected leader lacked the offset."""
    held = evidence.epochs.has_held(lost_offset.topic, lost_offset.partition, elected.epoch, lost_offset.offset)
    return held is False or (held is None and _has_lost_it_by_measure(evidence, elected, lost_offset))


def _has_lost_it_by_measure(evidence: Evidence, elected: ElectionEvent, lost_offset: LostOffset) -> bool:
    """Return whether the log end measured after a log loss proves the lack."""
    return any(
        loss.broker == elected.leader
        and lost_offset.name in loss.ends
        and has_lost_offset(evidence, loss, lost_offset, elected)
        for loss in evidence.log_losses or ()
    )


def _can_explain(evidence: Evidence, elected: ElectionEvent, lost_offset: LostOffset) -> bool:
    """Return whether the election would explain the loss, had its leader lacked it.

    Asked where nothing shows what the leader held.
    """
    if lost_offset.committed:
        return why_it_could_lead(evidence, elected, lost_offset).cause not in ("unexplained", None)
    acked_by = evidence.timeline.state_at_time(lost_offset.topic, lost_offset.partition, lost_offset.since_ns)
    return acked_by is None or acked_by.leader != elected.leader
