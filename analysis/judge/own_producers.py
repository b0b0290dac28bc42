"""Judges the user's own producers by what they sent through published ports (the table `wire`).

A record that was acked at an offset is there if the final read has its digest at that offset, or anywhere else in the
partition beyond the records that are accounted for: one payload may have been sent more than once. Else it is lost. Not
counted are records of transactions that did not surely commit, because nobody was promised them, and sends with acks=0,
because no broker acked them.

To be proven this needs an acked record, and a whole final read of its partition. Where these are missing, or the relay
could not read everything, the run is inconclusive.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from analysis.judge.outcome.prediction import ObservedRun
from analysis.record.record import Record
from analysis.record.traffic import FinalLog, Place, Traffic, WireRow
from ebbtide.record.own_producers import OwnProducer
from ebbtide.shown_text import plural


class OwnProducersJudged(msgspec.Struct, frozen=True, kw_only=True):
    """The producers, and why a run with published ports proves nothing about them, a sentence each."""

    producers: Sequence[OwnProducer] = ()
    unproven: Sequence[str] = ()

    def lost(self, *, committed: bool) -> int:
        """How many acked records are gone that were sent with acks=all, or with less."""
        return sum(one.lost for one in self.producers if (one.acks == -1) == committed)


def with_own_producers(seen: ObservedRun, judged: OwnProducersJudged) -> ObservedRun:
    """Return what the run showed of all clients: a prediction of no loss speaks of own producers too."""
    return msgspec.structs.replace(
        seen,
        own_acked=sum(one.acked for one in judged.producers),
        own_committed_lost=judged.lost(committed=True),
        own_uncommitted_lost=judged.lost(committed=False),
    )


def judge_own_producers(record: Record) -> OwnProducersJudged | None:
    """Return what became of the records of own producers; None if no such traffic was recorded."""
    traffic = record.traffic
    if traffic is None:
        return None
    judged: list[OwnProducer] = []
    unproven = list(traffic.unread)
    for place, acked in sorted(traffic.sends.items()):
        name = f"{place[0]}-{place[1]}"
        if (why := record.why_gone_unknown(traffic, place)) is not None:
            unproven.append(why)
        else:
            log, start = traffic.final[place], traffic.final[place].start or 0
            promised = [row for row in acked if _is_promised(traffic, row)]
            judged += _judge_partition(record, place, promised, log)
            if below := sum(row.offset is not None and row.offset < start for row in promised):
                unproven.append(f"{plural(below, 'acked record')} of {name} below the log start {start:,}")
    if not (traffic.sends or traffic.commits or record.has("handled") or unproven):
        unproven.append("no producer got an ack through the published ports: there is nothing of yours to judge")
    return OwnProducersJudged(producers=judged, unproven=[*dict.fromkeys(unproven)])


def _is_promised(traffic: Traffic, row: WireRow) -> bool:
    """Whether a record is in no transaction, or in one whose commit was acked."""
    return row.transactional_id is None or ((end := traffic.end_of(row)) is not None and end.commits is True)


def _judge_partition(record: Record, place: Place, acked: Sequence[WireRow], log: FinalLog) -> Iterator[OwnProducer]:
    missing = [row for row in acked if row.offset not in log.records or log.records[row.offset].digest != row.digest]
    if missing:
        found = {row.offset for row in acked if row.offset is not None} - {row.offset for row in missing}
        others = Counter(one.digest for offset, one in log.records.items() if offset not in found)
        missing = [row for row in missing if not _is_elsewhere(row, others)]
    start = log.start or 0
    lost: dict[tuple[str | None, int], list[WireRow]] = defaultdict(list)
    for row in missing:
        if row.offset is None or row.offset >= start:
            lost[row.client, row.acks or 0].append(row)
    for (client, acks), count in Counter((row.client, row.acks or 0) for row in acked).items():
        gone = lost[client, acks]
        offsets = [row.offset for row in gone if row.offset is not None]
        yield OwnProducer(
            client=client,
            acks=acks,
            topic=place[0],
            partition=place[1],
            acked=count,
            lost=len(gone),
            first_offset=min(offsets, default=None),
            last_offset=max(offsets, default=None),
            why=_why(record, place, acks, gone, log.records) if gone else None,
        )


def _is_elsewhere(row: WireRow, others: Counter[int | None]) -> bool:
    """Whether the final read has the record at another offset; each place there is one record's."""
    if others[row.digest] <= 0:
        return False
    others[row.digest] -= 1
    return True


def _why(record: Record, place: Place, acks: int, gone: Sequence[WireRow], final: Mapping[int, WireRow]) -> str:
    """Return who lacked the lost records, as far as the evidence shows it, and what Kafka promises."""
    promise = (
        "Kafka promises to keep them while one in-sync replica survives"
        if acks == -1
        else "Kafka allows that with acks=1; with acks=all it waits for the in-sync replicas"
    )
    return f"{_who(record, place, gone, final)}; {promise}"


def _who(record: Record, place: Place, gone: Sequence[WireRow], final: Mapping[int, WireRow]) -> str:
    last_ack_ns = max(row.done_ns or 0 for row in gone)
    first = min((row.offset for row in gone if row.offset is not None), default=None)
    leaders: dict[int, int] = {}
    for state in record.timeline.states(*place):
        if state.leader >= 0:
            leaders.setdefault(state.leader_epoch, state.leader)
    begun = {epoch: record.timeline.epoch_start_ns(*place, epoch) for epoch in leaders}
    later = [epoch for epoch, began_ns in sorted(begun.items()) if began_ns is not None and began_ns > last_ack_ns]
    # A leader that wrote at or below the offset of a lost record did not have that record.
    wrote = {row.leader_epoch for offset, row in final.items() if first is not None and offset <= first}
    proven = later if len(later) == 1 else [epoch for epoch in later if epoch in wrote]
    if proven:
        return f"the leader of epoch {proven[0]} (broker {leaders[proven[0]]}) did not have them"
    if first is not None and first in final and (epoch := final[first].leader_epoch) in leaders:
        # A deposed leader may have acked them after this election.
        return f"the leader of epoch {epoch} (broker {leaders[epoch]}) wrote another record at offset {first:,}"
    if later:
        return f"a leader of the epochs {later[0]} to {later[-1]} did not have them"
    return "the metadata log has no election after their acks"
