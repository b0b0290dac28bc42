"""Names the election that lost a record or took the HW back, and its cause.

`analysis.causes` finds both. Here, anomalies become its questions, and its answers become attributions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from analysis.causes.answer import CauseAnswer, answer
from analysis.causes.evidence import Ints
from analysis.causes.from_record import EvidentRecord
from analysis.causes.intervals import CONTRADICTED
from analysis.causes.partition import EvidentPartition, Question
from analysis.causes.ranges import answers_of_sends, questions_of_sends
from analysis.causes.table import NEEDS
from analysis.causes.words import sentence
from analysis.judge.causes.gone_topics import of_gone_topic
from analysis.judge.causes.lost_offsets import values_of
from analysis.judge.history.evidence import Attribution, LostOffset
from analysis.judge.history.log_lines import truncations
from analysis.record.record import Record
from analysis.record.timeline import MILLISECOND_NS
from ebbtide.record.verdict import Cause

if TYPE_CHECKING:
    from analysis.reconcile.model import HwRegression, LostRange


class LostPart(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a lost range that have one cause and one election.

    `first_done_ns` is when the first of them was acked; None: not known. `answer` is that of the first of them.
    """

    first_offset: int
    last_offset: int
    count: int
    attribution: Attribution
    first_done_ns: int | None = None
    answer: CauseAnswer = CauseAnswer(None, None, "")


def attribute_loss(evident: EvidentRecord, lost: LostRange) -> list[LostPart]:
    """Return the parts of a lost range, each with its cause and election."""
    if (gone := of_gone_topic(evident.record, lost.topic)) is not None:
        return [_whole(lost, gone)]
    partition, sends = _lost_sends(evident, lost)
    is_committed = lost.committed or lost.acks == -1
    if not partition.evidence.states:
        why = f"the metadata timeline of {lost.topic}-{lost.partition} is missing (partitions.parquet)"
        cause: Cause | None = None if is_committed else "uncommitted-at-failover"
        return [_whole(lost, Attribution(cause=cause, election=None, why=why))]
    if len(sends) != lost.count:
        why = f"the record has {len(sends)} of the {lost.count} sends that are lost"
        return [_whole(lost, unknown(why))]
    answers, which = answers_of_sends(partition, sends, committed=is_committed)
    table = partition.evidence.sends
    parts: dict[Attribution, tuple[CauseAnswer, list[Ints]]] = {}
    for at, found in enumerate(answers):
        members = sends[which == at]
        attribution = _attribution(evident, partition, found, int(table.offset[members].min()))
        parts.setdefault(attribution, (found, []))[1].append(members)
    return [
        LostPart(
            first_offset=int(table.offset[members].min()),
            last_offset=int(table.offset[members].max()),
            count=len(members),
            attribution=attribution,
            first_done_ns=int(np.minimum(table.done_ns[members], lost.last_done_ns).min()),
            answer=found,
        )
        for attribution, (found, groups) in parts.items()
        for members in [np.concatenate(groups)]
    ]


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
    sends, found = partition.evidence.sends, partition.lost
    offsets = sends.offset[found]
    fits = (sends.acks[found] == lost.acks) & (offsets >= lost.first_offset) & (offsets <= lost.last_offset)
    if int(fits.sum()) != lost.count and (values := values_of(evident.record, lost)) is not None:
        fits &= np.isin(sends.value[found], values)
    return partition, found[fits]


def attribute(evident: EvidentRecord, lost_offset: LostOffset) -> Attribution:
    """Return the cause of the loss of one offset of which it is known under which epoch it stood in the log."""
    partition = evident.partition(lost_offset.topic, lost_offset.partition)
    return _attribution(evident, partition, answer_of_offset(partition, lost_offset), lost_offset.offset)


def answer_of_offset(partition: EvidentPartition, lost_offset: LostOffset) -> CauseAnswer:
    """Return what the histories of that offset agree on."""
    until_epoch = lost_offset.until_epoch
    until = None if until_epoch is None else partition.elections.of_epoch.get(until_epoch)

    def unknown(why: str) -> CauseAnswer:
        return CauseAnswer(None, None, why)

    if not partition.elections.states:
        return unknown(f"the metadata timeline of {lost_offset.name} is missing (partitions.parquet)")
    if until_epoch is not None and until is None:
        return unknown(f"the election of {lost_offset.name} under epoch {until_epoch} is not in the metadata timeline")
    asked = _question(partition, lost_offset, until)
    known = _known_record(partition, lost_offset, until)
    found = answer(partition, known or asked)
    if until is not None and found.may_be_kept and not found.histories:
        return unknown(f"the leaders up to epoch {until_epoch} held the record, so no election explains the lower HW")
    if until is not None and found.may_be_kept and found.cause == "unexplained":
        # Unlike a loss, a regression need not be a fault: a new leader may answer with its HW as a follower.
        leaders = f"a leader of {lost_offset.name} up to epoch {until_epoch}"
        return unknown(f"nothing shows that {leaders} lacked the record; a leader may have reported a HW that lagged")
    return found


def unknown(why: str) -> Attribution:
    """Return that there is no cause, and why."""
    return Attribution(cause=None, election=None, why=why)


def gravest(found: Sequence[Attribution]) -> Attribution:
    """Return the first one that accuses Kafka; without such a one, one without a cause, then any."""
    order: Sequence[Cause | None] = ("unexplained", None)
    return min(found, key=lambda one: order.index(one.cause) if one.cause in order else len(order))


def _question(partition: EvidentPartition, lost_offset: LostOffset, until: int | None) -> Question:
    elections, epoch = partition.elections, lost_offset.since_epoch
    writers = [at for at in elections.all if elections.states[at].leader_epoch == epoch]
    if not writers and not lost_offset.exact:
        earlier = [at for at in elections.all if elections.states[at].leader_epoch <= epoch]
        writers = [at for at in earlier if partition.leaders.led[at] is not False][-1:]
    # Under one leader, what has a higher offset was appended later.
    appended = [partition.epochs.sent_below(at, lost_offset.offset) for at in writers if lost_offset.exact]
    began = [elections.states[at].at_ns for at in writers]
    return Question(
        offset=lost_offset.offset,
        writers=tuple(writers),
        sent_ns=max(min(began, default=0), min(appended, default=0)),
        read_ns=lost_offset.since_ns,
        may_be_older=not lost_offset.exact,
        until=until,
    )


def _known_record(partition: EvidentPartition, lost_offset: LostOffset, until: int | None) -> Question | None:
    """Return the question about the acked record that stood at the offset, if it was of that very epoch."""
    lost = partition.lost
    here = lost[partition.evidence.sends.offset[lost] == lost_offset.offset]
    asked, _ = questions_of_sends(partition, here, committed=True)
    of_epoch = [one for one in asked if one.writers == (partition.elections.of_epoch.get(lost_offset.since_epoch),)]
    if len(of_epoch) != 1:
        return None
    return msgspec.structs.replace(of_epoch[0], until=until)


def attribute_regression(evident: EvidentRecord, back: HwRegression) -> Attribution:
    """Attribute an HW regression to the election that lost the last offset that the HW covered."""
    if back.leader_epoch == back.earlier_leader_epoch:
        why = f"the HW of {back.topic}-{back.partition} went back under one leader epoch, with no election in between"
        return Attribution(cause="unexplained", election=None, why=why)
    lost_offset = LostOffset(
        topic=back.topic,
        partition=back.partition,
        offset=back.from_ - 1,
        since_ns=back.earlier_at_ns,
        since_epoch=back.earlier_leader_epoch,
        until_epoch=back.leader_epoch,
    )
    return attribute(evident, lost_offset)


def _attribution(evident: EvidentRecord, partition: EvidentPartition, found: CauseAnswer, offset: int) -> Attribution:
    """Return an answer as an attribution; `offset` is the lowest one that it is about."""
    elected = None if found.guilty is None else partition.elections.states[found.guilty]
    election = next((one for one in evident.record.elections if one.after == elected), None)
    how, broken = "", False
    is_contradicted = any(one.guilt.reasons & CONTRADICTED for one in found.histories)
    if found.cause == "unexplained" and found.guilty is not None and is_contradicted:
        how, broken = _how_it_lost_it(evident.record, partition, found.guilty, offset)
    unknown_disks = evident.record.why_disks_unknown if NEEDS["steps"] in found.why else ""
    why = "; ".join(filter(None, (unknown_disks, sentence(partition, found), how)))
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
    ends = [one for one in truncations(record, leader) if one.partition == f"{joined.topic}-{joined.partition}"]
    cuts = [one.offset for one in ends if joined.at_ns < one.at_ns <= until_ns and one.offset <= offset]
    if cuts:
        return (
            f"broker {leader} truncated its log to offset {cuts[-1]}, below a committed record, after it {entered}",
            False,
        )
    if not joins or partition.leaders.rules(joins[-1]).kip_903 is not True:
        return "", False
    disks = [one for one in partition.evidence.disks if one.broker == leader and one.within.first_ns <= joined.at_ns]
    registered = [one.at_ns for one in partition.liveness.registrations(leader) if one.at_ns <= joined.at_ns]
    if not any(disk.within.first_ns <= time for disk in disks for time in registered):
        return "", False
    return f"broker {leader} {entered}, after it had lost its log and registered again", True
