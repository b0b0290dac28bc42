"""The cause of each loss and of each HW that went back: the guilty election, and why its leader could lead.

The system: a partition has leaders under rising epochs. A leader never truncates while it leads; followers
truncate to match it. So an acked record that is gone was absent from the log of some leader elected after its
append, and the first such election is the guilty one. What a leader held is read, in this order, from the
start of its epoch (`epochs`), from the log losses that the harness caused (`log_losses`), and, where neither
speaks, from the protocol: a leader elected from ISR or ELR whose log lost nothing held every committed record,
so an election that left no trace is guilty only if a rule explains it.

A deposed leader may go on answering acks=0/1 for a while, and a client notes an answer late; so when no
election after the acknowledgement is guilty, or the epoch in force by the clock wrote another record at that
offset, the record belongs to an epoch before and that election itself is guilty. With acks=all it may answer late
only for what its ISR had before: then the disks that lost it meanwhile count.

When the table or the step that decides is missing, the cause is None. Wanting evidence is never read as a
violation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from analysis.judge.causes.lost_offsets import counts_between
from analysis.judge.causes.permits import lost_offset, why_it_could_lead
from analysis.judge.causes.uncommitted import why_uncommitted
from analysis.judge.history.elections import Elected, elections_of
from analysis.judge.history.evidence import Attribution, Evidence, Gone
from analysis.judge.history.timeline import MILLISECOND_NS

if TYPE_CHECKING:
    from analysis.reconcile.model import GoneRange, HwRegression, LostRange


class LostPart(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a lost range that one election is guilty of."""

    first_offset: int
    last_offset: int
    count: int
    attribution: Attribution


def attribute_loss(evidence: Evidence, lost: LostRange) -> list[LostPart]:
    """The parts of a lost range, each with its cause; one part unless several elections share the range."""
    cuts = cuts_of(evidence, lost)
    parts: list[tuple[int, int, Attribution]] = []
    for first, end in zip([lost.first_offset, *cuts], [*cuts, lost.last_offset + 1], strict=True):
        gone = Gone(
            topic=lost.topic,
            partition=lost.partition,
            offset=first,
            committed=lost.committed or lost.acks == -1,
            since_ns=lost.first_done_ns,
            since_epoch=_epoch_at(evidence, lost),
        )
        found = attribute(evidence, gone)
        if found.cause == "unexplained" and lost.last_sent_ns is not None:
            found = _acked_by_a_deposed_leader(evidence, gone, lost.last_sent_ns) or found
        if parts and parts[-1][2] == found:
            first = parts.pop()[0]
        parts.append((first, end - 1, found))
    return _counted(evidence, lost, parts)


def _acked_by_a_deposed_leader(evidence: Evidence, gone: Gone, sent_ns: int) -> Attribution | None:
    """The cause if the record stood in logs long before its acknowledgement; None: no such time, or no such cause.

    A leader that is cut off may hear of its followers' last fetches only once the cut is healed: they wait on the wire,
    even those of a broker that died meanwhile. It acks then, though it was deposed and a follower lost its log. So what
    was sent in an epoch before counts as of then, if the disk that lost it is known to have had the offset.
    """
    state = evidence.timeline.at_time(gone.topic, gone.partition, sent_ns)
    if state is None or state.leader_epoch >= gone.since_epoch:
        return None
    sent = msgspec.structs.replace(gone, since_ns=sent_ns, since_epoch=state.leader_epoch)
    found = attribute(evidence, sent)
    if found.cause in ("unexplained", None) or found.election is None:
        return None
    # The one that lost it did not ack it late, nor did anyone whom it had made way for by then.
    if found.election.leader == state.leader or found.election.epoch <= gone.since_epoch:
        return None
    had = any(
        loss.broker == found.election.leader
        and sent_ns < loss.fired_ns
        and loss.done_ns < gone.since_ns
        and loss.starts.get(gone.name, -1) > gone.offset
        for loss in evidence.log_losses or ()
    )
    return found if had else None


def _counted(evidence: Evidence, lost: LostRange, parts: list[tuple[int, int, Attribution]]) -> list[LostPart]:
    """The parts with their counts; where those cannot be had, the first offset, surely lost, decides for all."""
    counts: list[int] | None = [last - first + 1 for first, last, _ in parts]
    if sum(counts or []) != lost.count:
        one_part = len(parts) == 1
        counts = [lost.count] if one_part else counts_between(evidence.record, lost, [first for first, _, _ in parts])
    if counts is None:
        parts, counts = [(lost.first_offset, lost.last_offset, parts[0][2])], [lost.count]
    return [
        LostPart(first_offset=first, last_offset=last, count=count, attribution=found)
        for (first, last, found), count in zip(parts, counts, strict=True)
        if count
    ]


def attribute_regression(evidence: Evidence, back: HwRegression, lost: Sequence[LostRange]) -> Attribution:
    """The cause of one HW regression: that of the loss of the last offset which the earlier HW had covered.

    A HW is observed again and again, so the last time says little about since when the offset was there. Where it
    is among the `lost`, its acknowledgement says more. A leader that does not know of its successor tells of its HW
    long after: what that covered was there when the successor was elected, since its followers fetch no more.
    """
    if back.leader_epoch == back.earlier_leader_epoch:
        why = f"the HW of {back.topic}-{back.partition} went back under one leader epoch, with no election between"
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
    gone = Gone(
        topic=back.topic,
        partition=back.partition,
        offset=last_offset,
        committed=True,
        since_ns=min([back.earlier_at_ns, *acked_ns, *deposed_ns]),
        since_epoch=back.earlier_leader_epoch,
        until_epoch=back.leader_epoch,
    )
    found = attribute(evidence, gone)
    if found.cause == "unexplained" and found.election and not _did_not_hold(evidence, found.election, gone):
        # Unlike a loss this need not be anybody's doing: a new leader may answer with the HW that it had as a follower.
        why = f"nothing shows that a leader of {gone.name} up to epoch {back.leader_epoch} lacked the record"
        return Attribution(cause=None, election=None, why=f"{why}; one may have told of a HW that lagged")
    return found


def cuts_of(evidence: Evidence, found: LostRange | GoneRange) -> list[int]:
    """Offsets that part a range into those in which every answer on who held what is the same."""
    name = f"{found.topic}-{found.partition}"
    ends = {at[name] for loss in evidence.log_losses or () for at in (loss.starts, loss.ends) if name in at}
    cuts = {*evidence.epochs.starts(found.topic, found.partition), *ends}
    return sorted(cut for cut in cuts if found.first_offset < cut <= found.last_offset)


def _epoch_at(evidence: Evidence, lost: LostRange) -> int:
    """The leader epoch by the clock when the range was acknowledged."""
    if lost.acked_after_epoch is not None:
        return lost.acked_after_epoch
    state = evidence.timeline.at_time(lost.topic, lost.partition, lost.first_done_ns)
    return state.leader_epoch if state is not None else -1


def attribute(evidence: Evidence, gone: Gone) -> Attribution:
    """The cause for one offset, by the evidence as it is put."""
    if not evidence.timeline.states(gone.topic, gone.partition):
        why = f"the metadata timeline of {gone.name} is missing (partitions.parquet)"
        return Attribution(cause=None if gone.committed else "uncommitted-at-failover", election=None, why=why)
    guilty = _guilty(evidence, gone)
    if not gone.committed:
        return why_uncommitted(evidence, gone, guilty)
    if guilty is None:
        if gone.until_epoch is not None:
            elections = elections_of(evidence.timeline, gone.topic, gone.partition)
            if any(one.epoch == gone.until_epoch for one in elections):
                why = (
                    f"the leaders up to epoch {gone.until_epoch} held the record, so no election explains the lower HW"
                )
            else:
                why = f"the election of {gone.name} under epoch {gone.until_epoch} is not in the metadata timeline"
            return Attribution(cause=None, election=None, why=why)
        if evidence.timeline.torn:
            why = "the metadata log is damaged, so an election may be missing (evidence.json)"
            return Attribution(cause=None, election=None, why=why)
        since = "it was written" if gone.exact else "the acknowledgement"
        why = f"no election of {gone.name} after {since} explains it"
        return Attribution(cause="unexplained", election=None, why=why)
    return why_it_could_lead(evidence, guilty, gone)


def _guilty(evidence: Evidence, gone: Gone) -> Elected | None:
    """The first election after the append whose leader did not hold the offset."""
    elections = [
        one
        for one in elections_of(evidence.timeline, gone.topic, gone.partition)
        if gone.until_epoch is None or one.epoch <= gone.until_epoch
    ]
    later = [one for one in elections if one.epoch > gone.since_epoch and not _never_led(evidence, one)]
    earlier = [] if gone.exact else [one for one in elections if one.epoch <= gone.since_epoch]
    restored = gone.exact and _has_an_older_record(evidence, gone)
    if gone.until_epoch is None and earlier and _wrote_another(evidence, earlier[-1], gone):
        return earlier[-1]
    suspects: list[Elected] = []
    for one in later:
        held = evidence.epochs.held(gone.topic, gone.partition, one.epoch, gone.offset)
        if held is True and not restored:
            suspects.clear()
            continue
        suspects.append(one)
        if held is False or _lost_it_by_measure(evidence, one, gone):
            break
    else:
        if not suspects:
            return next((one for one in reversed(earlier) if _did_not_hold(evidence, one, gone)), None)
    explained = (one for one in suspects if _did_not_hold(evidence, one, gone) or _could_explain(evidence, one, gone))
    found = next(explained, None)
    at_one_time = [earlier[-1]] if earlier and _at_one_time(earlier[-1], gone) else []
    if found is None and at_one_time and _could_explain(evidence, earlier[-1], gone):
        return earlier[-1]
    return _unless_unexplained(evidence, gone, found or suspects[0], [*suspects, *at_one_time])


def _unless_unexplained(evidence: Evidence, gone: Gone, likely: Elected, suspects: Sequence[Elected]) -> Elected:
    """The `likely` one, unless no rule explains it and it is not known whether one explains another suspect.

    Where none does for certain, one from outside ISR and ELR is likelier than one by the protocol's usual roads.
    """
    if not gone.committed or why_it_could_lead(evidence, likely, gone).cause != "unexplained":
        return likely
    not_known = (one for one in suspects if why_it_could_lead(evidence, one, gone).cause is None)
    from_outside = (one for one in suspects if one.road in ("unclean", "last-known-leader"))
    return next(not_known, None) or next(from_outside, None) or likely


def _never_led(evidence: Evidence, elected: Elected) -> bool:
    """Whether the leader had lost power before it was elected and registered again only after its epoch.

    A session lasts a while, so a controller may elect a broker that is dead; such a leader truncates nobody's log.
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


def _at_one_time(elected: Elected, gone: Gone) -> bool:
    """Whether the clocks cannot tell the acknowledgement from the election: the controller's is cut to milliseconds."""
    return abs(gone.since_ns - elected.after.at_ns) <= MILLISECOND_NS


def _wrote_another(evidence: Evidence, elected: Elected, gone: Gone) -> bool:
    """Whether the final leader's log has, at the offset, a record of this election's epoch: not the lost one."""
    final = evidence.timeline.states(gone.topic, gone.partition)[-1].leader
    return evidence.epochs.covers(gone.topic, gone.partition, final, elected.epoch, gone.offset)


def _has_an_older_record(evidence: Evidence, gone: Gone) -> bool:
    """Whether the final leader's log has, at the offset, one of an older epoch: that a leader had some says nothing."""
    final = evidence.timeline.states(gone.topic, gone.partition)[-1].leader
    return any(
        evidence.epochs.covers(gone.topic, gone.partition, final, epoch, gone.offset)
        for epoch in range(gone.since_epoch)
    )


def _did_not_hold(evidence: Evidence, elected: Elected, gone: Gone) -> bool:
    """Whether it is proven that the leader did not hold the offset when it was elected."""
    held = evidence.epochs.held(gone.topic, gone.partition, elected.epoch, gone.offset)
    return held is False or (held is None and _lost_it_by_measure(evidence, elected, gone))


def _lost_it_by_measure(evidence: Evidence, elected: Elected, gone: Gone) -> bool:
    """Whether the log end measured after a log loss of the leader says so."""
    return any(
        loss.broker == elected.leader and gone.name in loss.ends and lost_offset(evidence, loss, gone, elected)
        for loss in evidence.log_losses or ()
    )


def _could_explain(evidence: Evidence, elected: Elected, gone: Gone) -> bool:
    """Whether the election would explain the loss, though nothing tells what its leader held."""
    if gone.committed:
        return why_it_could_lead(evidence, elected, gone).cause not in ("unexplained", None)
    acked_by = evidence.timeline.at_time(gone.topic, gone.partition, gone.since_ns)
    return acked_by is None or acked_by.leader != elected.leader
