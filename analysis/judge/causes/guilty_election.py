"""Finds the election that lost a record: the first one after the append whose leader lacked it.

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
epoch in force by the clock wrote another record at that offset.

When the table or the step that decides is missing, the cause is None. Missing evidence is never
read as a violation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from analysis.judge.causes.deposed_leaders import LostRecord
from analysis.judge.causes.permits import has_lost_offset, why_it_could_lead
from analysis.judge.causes.uncommitted_losses import why_uncommitted
from analysis.judge.history.evidence import Attribution, LostOffset
from analysis.record.elections import ElectionEvent, elections_of
from analysis.record.record import Record
from analysis.record.timeline import MILLISECOND_NS

_MAY_LACK = "the metadata log is damaged or has a gap, so an election may be missing (evidence.json)"


def attribute(record: Record, lost_offset: LostOffset) -> Attribution:
    """Return the cause of the loss of one offset."""
    if not record.timeline.states(lost_offset.topic, lost_offset.partition):
        why = f"the metadata timeline of {lost_offset.name} is missing (partitions.parquet)"
        return Attribution(cause=None if lost_offset.committed else "uncommitted-at-failover", election=None, why=why)
    guilty = _guilty_election(record, lost_offset)
    if not lost_offset.committed:
        return why_uncommitted(record, lost_offset, guilty)
    if guilty is None:
        if lost_offset.until_epoch is not None:
            elections = elections_of(record.timeline, lost_offset.topic, lost_offset.partition)
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
        if _may_lack_an_election(record, lost_offset, until=None):
            return Attribution(cause=None, election=None, why=_MAY_LACK)
        since = "it was written" if lost_offset.exact else "the acknowledgement"
        why = f"no election of {lost_offset.name} after {since} explains it"
        return Attribution(cause="unexplained", election=None, why=why)
    found = why_it_could_lead(record, guilty, lost_offset)
    if found.cause == "unexplained":
        # What is known to have lacked the record lost it, unless another did before.
        until = guilty if is_known_to_lack(record, guilty, lost_offset) else None
        if _may_lack_an_election(record, lost_offset, until):
            return Attribution(cause=None, election=guilty, why=f"{found.why}; but {_MAY_LACK}")
    return found


def _may_lack_an_election(record: Record, lost_offset: LostOffset, until: ElectionEvent | None) -> bool:
    """Return whether the metadata log may lack an election since the append, and up to `until` if it is given."""
    if record.timeline.torn and until is None:
        return True
    states = record.timeline.states(lost_offset.topic, lost_offset.partition)
    is_late = states[0].partition_epoch > 0 and states[0].at_ns > lost_offset.since_ns
    jumps = (
        after.lacks_record_since(before) and after.at_ns >= lost_offset.since_ns
        for before, after in pairwise(states)
        if until is None or after.partition_epoch <= until.after.partition_epoch
    )
    return record.timeline.gaps and (is_late or any(jumps))


def _guilty_election(record: Record, lost_offset: LostOffset) -> ElectionEvent | None:
    """The first election after the append whose leader did not hold the offset."""
    elections = [
        one
        for one in elections_of(record.timeline, lost_offset.topic, lost_offset.partition)
        if lost_offset.until_epoch is None or one.epoch <= lost_offset.until_epoch
    ]
    later = [one for one in elections if one.epoch > lost_offset.since_epoch and not _has_never_led(record, one)]
    earlier = _elections_before_the_ack(record, lost_offset)
    restored = lost_offset.until_epoch is None and _has_an_older_record(record, lost_offset)
    if (wrote_another := election_that_wrote_another(record, lost_offset)) is not None:
        return wrote_another
    suspects: list[ElectionEvent] = []
    for one in later:
        held = record.epochs.has_held(lost_offset.topic, lost_offset.partition, one.epoch, lost_offset.offset)
        if held is True and not restored:
            suspects.clear()
            continue
        suspects.append(one)
        if held is False or _has_lost_it_by_measure(record, one, lost_offset):
            break
    else:
        if not suspects:
            lacking = (one for one in reversed(earlier) if is_known_to_lack(record, one, lost_offset))
            lost_record = LostRecord(record, lost_offset)
            return next((one for one in lacking if lost_record.may_be_older_than(one)), None)
    explained = (
        one for one in suspects if is_known_to_lack(record, one, lost_offset) or _can_explain(record, one, lost_offset)
    )
    found = next(explained, None)
    at_one_time = [earlier[-1]] if earlier and _is_at_one_time(earlier[-1], lost_offset) else []
    if found is None and at_one_time and _can_explain(record, earlier[-1], lost_offset):
        return earlier[-1]
    return _likeliest_election(record, lost_offset, found or suspects[0], [*suspects, *at_one_time])


def _likeliest_election(
    record: Record, lost_offset: LostOffset, likely: ElectionEvent, suspects: Sequence[ElectionEvent]
) -> ElectionEvent:
    """Return `likely`, unless only another suspect may be explained by a rule.

    If no rule surely explains any of them, an election from outside ISR and ELR is likelier than
    one from inside.
    """
    if not lost_offset.committed or why_it_could_lead(record, likely, lost_offset).cause != "unexplained":
        return likely
    not_known = (one for one in suspects if why_it_could_lead(record, one, lost_offset).cause is None)
    from_outside = (one for one in suspects if one.is_from_outside)
    return next(not_known, None) or next(from_outside, None) or likely


def _has_never_led(record: Record, elected: ElectionEvent) -> bool:
    """Return whether the elected leader was dead for the whole of its epoch.

    A session lasts a while, so a controller may elect a broker that has lost power. If that broker
    registers again only after its epoch, no follower truncates to its log.
    """
    if "brokers" in record.timeline.missing:
        return False
    states = record.timeline.states(elected.after.topic, elected.after.partition)
    ended = next((one.at_ns for one in states if one.leader_epoch > elected.epoch), None)
    died = [
        loss.done_ns
        for loss in record.log_losses or ()
        if loss.broker == elected.leader and loss.ended_broker and loss.done_ns <= elected.after.at_ns
    ]
    has_written = (elected.after.topic, elected.after.partition, elected.epoch) in record.epochs.traces
    if not died or ended is None or has_written:
        return False
    return not any(
        event.event == "registered" and event.broker == elected.leader and died[-1] <= event.at_ns + MILLISECOND_NS
        for event in record.timeline.brokers
        if event.at_ns <= ended
    )


def _is_at_one_time(elected: ElectionEvent, lost_offset: LostOffset) -> bool:
    """Return whether the clocks cannot order the acknowledgement and the election.

    The controller's times are cut to milliseconds.
    """
    return abs(lost_offset.since_ns - elected.after.at_ns) <= MILLISECOND_NS


def _elections_before_the_ack(record: Record, lost_offset: LostOffset) -> list[ElectionEvent]:
    """Return the elections of which one may have lost the record, because its ack came late."""
    if lost_offset.exact or lost_offset.until_epoch is not None:
        return []
    elections = elections_of(record.timeline, lost_offset.topic, lost_offset.partition)
    return [one for one in elections if one.epoch <= lost_offset.since_epoch]


def election_that_wrote_another(record: Record, lost_offset: LostOffset) -> ElectionEvent | None:
    """Return the last election before the ack, if the final leader's log has a record of its epoch at the offset.

    Such a record is not the lost one, so that the lost one is older than the election.
    """
    topic, partition = lost_offset.topic, lost_offset.partition
    earlier = _elections_before_the_ack(record, lost_offset)
    final = record.timeline.states(topic, partition)[-1].leader
    if earlier and record.epochs.covers(topic, partition, final, earlier[-1].epoch, lost_offset.offset):
        return earlier[-1]
    return None


def _has_an_older_record(record: Record, lost_offset: LostOffset) -> bool:
    """Return whether the final leader's log has an older epoch's record at the offset.

    If so, a leader that had some record at the offset need not have had the lost one.
    """
    final = record.timeline.states(lost_offset.topic, lost_offset.partition)[-1].leader
    return any(
        record.epochs.covers(lost_offset.topic, lost_offset.partition, final, epoch, lost_offset.offset)
        for epoch in range(lost_offset.since_epoch)
    )


def is_known_to_lack(record: Record, elected: ElectionEvent, lost_offset: LostOffset) -> bool:
    """Return whether the evidence proves that the elected leader lacked the offset."""
    held = record.epochs.has_held(lost_offset.topic, lost_offset.partition, elected.epoch, lost_offset.offset)
    return held is False or (held is None and _has_lost_it_by_measure(record, elected, lost_offset))


def _has_lost_it_by_measure(record: Record, elected: ElectionEvent, lost_offset: LostOffset) -> bool:
    """Return whether the log end measured after a log loss proves the lack."""
    return any(
        loss.broker == elected.leader
        and loss.done_ns <= elected.after.at_ns + MILLISECOND_NS  # else it may have led before it lost the log
        and lost_offset.name in loss.ends
        and has_lost_offset(record, loss, lost_offset, elected)
        for loss in record.log_losses or ()
    )


def _can_explain(record: Record, elected: ElectionEvent, lost_offset: LostOffset) -> bool:
    """Return whether the election would explain the loss, had its leader lacked it.

    Asked where nothing shows what the leader held.
    """
    if lost_offset.committed:
        return why_it_could_lead(record, elected, lost_offset).cause not in ("unexplained", None)
    acked_by = record.timeline.state_at_time(lost_offset.topic, lost_offset.partition, lost_offset.since_ns)
    return acked_by is None or acked_by.leader != elected.leader
