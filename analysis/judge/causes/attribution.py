"""Names the election that lost a record or took the HW back, and its cause.

`analysis.causes` finds both. Here, anomalies become its questions, and its answers become attributions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from analysis.causes.answer import CauseAnswer, answer
from analysis.causes.from_record import EvidentRecord
from analysis.causes.history import NEVER, Ints
from analysis.causes.intervals import CONTRADICTED
from analysis.causes.partition import EvidentPartition, Question
from analysis.causes.ranges import answers_of_sends, questions_of_sends
from analysis.causes.table import NEEDS
from analysis.causes.words import sentence, ways
from analysis.judge.causes.lost_offsets import values_of
from analysis.judge.history.evidence import Attribution, LostOffset
from analysis.judge.history.log_lines import truncations
from analysis.record.record import Record
from analysis.record.timeline import MILLISECOND_NS

if TYPE_CHECKING:
    from analysis.reconcile.model import HwRegression, LostRange, VanishedRange


class LostPart(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a lost range that have one cause and one election.

    `first_done_ns` is when the first of them was acked; None: not known.
    """

    first_offset: int
    last_offset: int
    count: int
    attribution: Attribution
    first_done_ns: int | None = None


def attribute_loss(evident: EvidentRecord, lost: LostRange) -> list[LostPart]:
    """Return the parts of a lost range, each with its cause and election."""
    partition, sends = _lost_sends(evident, lost)
    if not partition.history.states:
        why = f"the metadata timeline of {lost.topic}-{lost.partition} is missing (partitions.parquet)"
        found = Attribution(cause=None if _is_committed(lost) else "uncommitted-at-failover", election=None, why=why)
        return [_whole(lost, found)]
    if len(sends) != lost.count:
        why = f"the record has {len(sends)} of the {lost.count} sends that are lost"
        return [_whole(lost, Attribution(cause=None, election=None, why=why))]
    answers, which = answers_of_sends(partition, sends, committed=_is_committed(lost))
    parts: dict[Attribution, list[int]] = {}
    offsets = partition.history.sends.offset[sends]
    attributions = [
        _attribution(evident, partition, one, int(offsets[which == at].min())) for at, one in enumerate(answers)
    ]
    for send, at in zip(sends.tolist(), which.tolist(), strict=True):
        parts.setdefault(attributions[at], []).append(send)
    table = partition.history.sends
    return [
        LostPart(
            first_offset=int(table.offset[members].min()),
            last_offset=int(table.offset[members].max()),
            count=len(members),
            attribution=found,
            first_done_ns=int(np.minimum(table.done_ns[members], lost.last_done_ns).min()),
        )
        for found, members in parts.items()
    ]


class LossHistories(NamedTuple):
    """The ways in which a record may have got lost, each in a sentence.

    `holder`: the metadata offset of the election whose leader was the last one with the record, if all agree.
    """

    ways: tuple[str, ...] = ()
    holder: int | None = None


def histories_of_loss(evident: EvidentRecord, lost: LostRange) -> LossHistories:
    """Return how a range of records that share their fate may have got lost."""
    partition, sends = _lost_sends(evident, lost)
    if len(sends) != lost.count:
        return LossHistories()
    answers, _ = answers_of_sends(partition, sends, committed=_is_committed(lost))
    holders = {trail.holder for one in answers for trail in one.trails}
    return LossHistories(
        ways=tuple(way for one in answers for way in ways(partition, one)),
        holder=partition.elections.states[holders.pop()].metadata_offset if len(holders) == 1 else None,
    )


def _is_committed(lost: LostRange) -> bool:
    return lost.committed or lost.acks == -1


def _whole(lost: LostRange, found: Attribution) -> LostPart:
    return LostPart(
        first_offset=lost.first_offset,
        last_offset=lost.last_offset,
        count=lost.count,
        attribution=found,
        first_done_ns=lost.first_done_ns,
    )


def _lost_sends(evident: EvidentRecord, lost: LostRange) -> tuple[EvidentPartition, Ints]:
    """Return the sends of a lost range: those that the final log lacks, by their values where that is not enough."""
    partition = evident.partition(lost.topic, lost.partition)
    sends, found = partition.history.sends, partition.lost
    offsets = sends.offset[found]
    fits = (sends.acks[found] == lost.acks) & (offsets >= lost.first_offset) & (offsets <= lost.last_offset)
    if int(fits.sum()) != lost.count and (values := values_of(evident.record, lost)) is not None:
        fits &= np.isin(sends.value[found], values)
    return partition, found[fits]


def attribute(evident: EvidentRecord, lost_offset: LostOffset) -> Attribution:
    """Return the cause of the loss of one offset of which it is known under which epoch it stood in the log."""
    partition = evident.partition(lost_offset.topic, lost_offset.partition)
    elections = partition.elections
    if not elections.states:
        why = f"the metadata timeline of {lost_offset.name} is missing (partitions.parquet)"
        return Attribution(cause=None, election=None, why=why)
    until = None if lost_offset.until_epoch is None else elections.of_epoch.get(lost_offset.until_epoch)
    if lost_offset.until_epoch is not None and until is None:
        why = (
            f"the election of {lost_offset.name} under epoch {lost_offset.until_epoch} is not in the metadata timeline"
        )
        return Attribution(cause=None, election=None, why=why)
    asked = _known_record(partition, lost_offset, until) or _question(partition, lost_offset, until)
    found = answer(partition, asked)
    if until is not None and found.may_be_kept and not found.trails:
        why = f"the leaders up to epoch {lost_offset.until_epoch} held the record, so no election explains the lower HW"
        return Attribution(cause=None, election=None, why=why)
    if until is not None and found.cause == "unexplained" and found.may_be_kept:
        # Unlike a loss, a regression need not be a fault: a new leader may answer with its HW as a follower.
        leaders = f"a leader of {lost_offset.name} up to epoch {lost_offset.until_epoch}"
        why = f"nothing shows that {leaders} lacked the record; a leader may have reported a HW that lagged"
        return Attribution(cause=None, election=None, why=why)
    return _attribution(evident, partition, found, lost_offset.offset)


def _question(partition: EvidentPartition, lost_offset: LostOffset, until: int | None) -> Question:
    elections, epoch = partition.elections, lost_offset.since_epoch
    writers = [at for at in elections.all if elections.states[at].leader_epoch == epoch]
    if not writers and not lost_offset.exact:
        earlier = [at for at in elections.all if elections.states[at].leader_epoch <= epoch]
        writers = [at for at in earlier if partition.leaders.led[at] is not False][-1:]
    return Question(
        offset=lost_offset.offset,
        writers=tuple(writers),
        sent_ns=min((elections.states[at].at_ns for at in writers), default=0),
        read_ns=lost_offset.since_ns if lost_offset.committed else NEVER,
        committed=lost_offset.committed,
        may_be_older=not lost_offset.exact,
        until=until,
    )


def _known_record(partition: EvidentPartition, lost_offset: LostOffset, until: int | None) -> Question | None:
    """Return the question about the acked record that stood at the offset, if it was of that very epoch."""
    lost = partition.lost
    asked, _ = questions_of_sends(partition, lost[partition.history.sends.offset[lost] == lost_offset.offset])
    of_epoch = [one for one in asked if one.writers == (partition.elections.of_epoch.get(lost_offset.since_epoch),)]
    if len(of_epoch) != 1:
        return None
    return msgspec.structs.replace(of_epoch[0], committed=lost_offset.committed, until=until)


def attribute_regression(evident: EvidentRecord, back: HwRegression) -> Attribution:
    """Attribute an HW regression to the election that lost the last offset that the HW covered."""
    if back.leader_epoch == back.earlier_leader_epoch:
        why = f"the HW of {back.topic}-{back.partition} went back under one leader epoch, with no election in between"
        return Attribution(cause="unexplained", election=None, why=why)
    lost_offset = LostOffset(
        topic=back.topic,
        partition=back.partition,
        offset=back.from_ - 1,
        committed=True,
        since_ns=back.earlier_at_ns,
        since_epoch=back.earlier_leader_epoch,
        until_epoch=back.leader_epoch,
    )
    return attribute(evident, lost_offset)


def cuts_of(evident: EvidentRecord, found: VanishedRange) -> list[int]:
    """Return the offsets that split a range where a different log may hold the rest."""
    cuts = evident.partition(found.topic, found.partition).offset_cuts
    return sorted(cut for cut in cuts if found.first_offset < cut <= found.last_offset)


def _attribution(evident: EvidentRecord, partition: EvidentPartition, found: CauseAnswer, offset: int) -> Attribution:
    """Return an answer as an attribution; `offset` is the lowest one that it is about."""
    elected = None if found.guilty is None else partition.elections.states[found.guilty]
    election = next((one for one in evident.record.elections if one.after == elected), None)
    why, broken = sentence(partition, found), False
    if NEEDS["steps"] in found.why:
        why = f"{evident.record.why_disks_unknown}; {why}"
    if (
        found.cause == "unexplained"
        and found.guilty is not None
        and any(one.reasons & CONTRADICTED for one in found.trails)
    ):
        how, broken = _how_it_lost_it(evident.record, partition, found.guilty, offset)
        why = f"{why}; {how}" if how else why
    return Attribution(
        cause=found.cause, election=election, why=why, is_allowed=found.is_allowed, breaks_kip_903=broken
    )


def _how_it_lost_it(record: Record, partition: EvidentPartition, at: int, offset: int) -> tuple[str, bool]:
    """Return how a leader came to lack what each ISR member has, and whether its join broke KIP-903.

    Its own log may say that it truncated the record after it had joined the ISR. Otherwise it joined without the record
    if its disk had lost records before, and it had registered in between.
    """
    leader, states = partition.elections.states[at].leader, partition.elections.states
    joins = [one for one in range(1, at) if leader in partition.leaders.joins(one)]
    joined = states[joins[-1] if joins else 0]
    entered = f"entered the ISR at metadata offset {joined.metadata_offset}"
    until_ns = states[at].at_ns + MILLISECOND_NS
    ends = truncations(record, leader, f"{joined.topic}-{joined.partition}")
    cuts = [to for at_ns, to in ends if joined.at_ns < at_ns <= until_ns and to <= offset]
    if cuts:
        return (
            f"broker {leader} truncated its log to offset {cuts[-1]}, below a committed record, after it {entered}",
            False,
        )
    if not joins or partition.leaders.rules(joins[-1]).kip_903 is not True:
        return "", False
    disks = [one for one in partition.history.disks if one.broker == leader and one.gone.first_ns <= joined.at_ns]
    registered = [one.at_ns for one in partition.liveness.registrations(leader) if one.at_ns <= joined.at_ns]
    if not any(disk.gone.first_ns <= time for disk in disks for time in registered):
        return "", False
    return f"broker {leader} {entered}, after it had lost its log and registered again", True
