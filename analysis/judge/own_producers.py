"""Judges the user's own producers by what they sent through published ports (the table `wire`).

A record that was acked at an offset is there if the final read has its digest at that offset, or anywhere else in the
partition beyond the records that are accounted for: one payload may have been sent more than once. Else it is lost. Not
counted are records of transactions that did not surely commit, because nobody was promised them, and sends with acks=0,
because no broker acked them.

To be proven this needs an acked record, and a whole final read of its partition. Where these are missing, or the relay
could not read everything, the run is inconclusive.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from analysis.judge.outcome.prediction import ObservedRun
from analysis.record.record import Record
from ebbtide.record.own_producers import OwnProducer
from ebbtide.record.wire_facts import WireFacts
from ebbtide.shown_text import plural

Place = tuple[str, int]


class WireRow(msgspec.Struct, frozen=True):
    """The columns of a row of `wire` that are judged here."""

    kind: str
    client: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    digest: int | None
    acks: int | None
    status: str | None
    producer_id: int | None
    transactional_id: str | None
    commits: bool | None
    leader_epoch: int | None
    high_watermark: int | None
    asked_ns: int | None
    done_ns: int | None


class _FinalLog:
    """The final read of one partition."""

    def __init__(self) -> None:
        self.start: int | None = None
        self.records: dict[int, tuple[int, int]] = {}
        """Digest and leader epoch by offset."""


class OwnProducersJudged(msgspec.Struct, frozen=True, kw_only=True):
    """The producers, and why a run with published ports proves nothing about them, a sentence each."""

    producers: Sequence[OwnProducer] = ()
    unproven: Sequence[str] = ()

    @property
    def acked(self) -> int:
        """How many records were acked."""
        return sum(one.acked for one in self.producers)

    @property
    def lossy(self) -> Sequence[OwnProducer]:
        """The producers whose acked records are gone."""
        return [one for one in self.producers if one.lost]

    def lost(self, *, committed: bool) -> int:
        """How many acked records are gone that were sent with acks=all, or with less."""
        return sum(one.lost for one in self.producers if (one.acks == -1) == committed)


def with_own_producers(seen: ObservedRun, judged: OwnProducersJudged) -> ObservedRun:
    """Return what the run showed of all clients: a prediction of no loss speaks of own producers too."""
    return msgspec.structs.replace(
        seen,
        committed_lost=seen.committed_lost + judged.lost(committed=True),
        uncommitted_lost=seen.uncommitted_lost + judged.lost(committed=False),
        acked=None if seen.acked is None else seen.acked + judged.acked,
    )


def judge_own_producers(record: Record) -> OwnProducersJudged | None:
    """Return what became of the records of own producers; None if no such traffic was recorded."""
    facts = record.manifest.wire
    if facts is None:
        return None
    by_place, final, ends = _read(record)
    judged: list[OwnProducer] = []
    unproven = list(_unread(facts))
    compacted, transactions = _compacted(record), _TransactionEnds(ends)
    made = Counter(record.manifest.topic_ids.values())
    for place, acked in sorted(by_place.items()):
        log, name = final.get(place), f"{place[0]}-{place[1]}"
        if log is None or log.start is None:
            why = facts.no_final_read.get(name) or facts.no_final_read.get(place[0]) or "the final read lacks it"
            unproven.append(f"{name} was not read at the end: {why}")
        elif place[0] in compacted:
            unproven.append(f"{place[0]} is compacted: which of its records were lost is not known")
        elif made[place[0]] > 1:
            unproven.append(f"{place[0]} was deleted and made again: which of its records were lost is not known")
        else:
            promised = [row for row in acked if transactions.is_promised(row)]
            judged += _judge_partition(record, place, promised, log)
            if below := sum(row.offset is not None and row.offset < log.start for row in promised):
                unproven.append(f"{plural(below, 'acked record')} of {name} below the log start {log.start:,}")
    if not by_place and not unproven:
        unproven.append("no producer got an ack through the published ports: there is nothing of yours to judge")
    return OwnProducersJudged(producers=judged, unproven=[*dict.fromkeys(unproven)])


def _read(record: Record) -> tuple[Mapping[Place, list[WireRow]], Mapping[Place, _FinalLog], list[WireRow]]:
    """Return the acked sends and the final logs by partition, and the ends of transactions."""
    sends: dict[Place, list[WireRow]] = defaultdict(list)
    final: dict[Place, _FinalLog] = defaultdict(_FinalLog)
    ends = []
    for row in record.rows("wire", WireRow):
        if row.kind == "end-txn":
            ends.append(row)
        if row.topic is None or row.partition is None:
            continue
        place = row.topic, row.partition
        if row.kind == "produce" and row.status == "acked" and row.acks != 0:
            sends[place].append(row)
        elif row.kind == "final-log":
            final[place].start = row.offset
        elif row.kind == "final" and row.offset is not None:
            final[place].records[row.offset] = row.digest or 0, row.leader_epoch or 0
    return sends, final, ends


def _unread(facts: WireFacts) -> Iterator[str]:
    if facts.why_incomplete is not None:
        yield f"what your clients sent is not known: {facts.why_incomplete}"
    for what, count in sorted(facts.unread.items()):
        yield f"what your clients sent is not known whole: {count:,} {what} could not be read"


def _compacted(record: Record) -> set[str]:
    """Return the topics whose own policy compacted them at some time."""
    rows = record.timeline.configs
    policies = [row for row in rows if row.name == "cleanup.policy" and "compact" in (row.value or "")]
    return {row.resource.removeprefix("topic:") for row in policies if row.resource.startswith("topic:")}


class _TransactionEnds:
    """The ends of transactions that clients asked for, in their order."""

    def __init__(self, ends: Sequence[WireRow]) -> None:
        self._ends: dict[tuple[str | None, int | None], list[tuple[int, bool]]] = defaultdict(list)
        for end in sorted(ends, key=lambda one: one.asked_ns or 0):
            is_commit = end.commits is True and end.status == "acked"
            self._ends[end.transactional_id, end.producer_id].append((end.asked_ns or 0, is_commit))

    def is_promised(self, row: WireRow) -> bool:
        """Whether a record is in no transaction, or in one whose commit was acked."""
        if row.transactional_id is None:
            return True
        ends = self._ends[row.transactional_id, row.producer_id]
        at = bisect_left(ends, (row.asked_ns or 0, False))
        return at < len(ends) and ends[at][1]


def _judge_partition(record: Record, place: Place, acked: Sequence[WireRow], log: _FinalLog) -> Iterator[OwnProducer]:
    missing = [row for row in acked if row.offset is None or log.records.get(row.offset, (None,))[0] != row.digest]
    if missing:
        found = {row.offset for row in acked if row.offset is not None} - {row.offset for row in missing}
        others = Counter(digest for offset, (digest, _) in log.records.items() if offset not in found)
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


def _is_elsewhere(row: WireRow, others: Counter[int]) -> bool:
    """Whether the final read has the record at another offset; each place there is one record's."""
    digest = row.digest or 0
    if others[digest] <= 0:
        return False
    others[digest] -= 1
    return True


def _why(record: Record, place: Place, acks: int, gone: Sequence[WireRow], final: Mapping[int, tuple[int, int]]) -> str:
    """Return who lacked the lost records, as far as the evidence shows it, and what Kafka promises."""
    promise = (
        "Kafka promises to keep them while one in-sync replica survives"
        if acks == -1
        else "Kafka allows that with acks=1; with acks=all it waits for the in-sync replicas"
    )
    return f"{_who(record, place, gone, final)}; {promise}"


def _who(record: Record, place: Place, gone: Sequence[WireRow], final: Mapping[int, tuple[int, int]]) -> str:
    last_ack_ns = max(row.done_ns or 0 for row in gone)
    first = min((row.offset for row in gone if row.offset is not None), default=None)
    leaders: dict[int, int] = {}
    for state in record.timeline.states(*place):
        if state.leader >= 0:
            leaders.setdefault(state.leader_epoch, state.leader)
    begun = {epoch: record.timeline.epoch_start_ns(*place, epoch) for epoch in leaders}
    later = [epoch for epoch, began_ns in sorted(begun.items()) if began_ns is not None and began_ns > last_ack_ns]
    # A leader that wrote at or below the offset of a lost record did not have that record.
    wrote = {epoch for offset, (_, epoch) in final.items() if first is not None and offset <= first}
    proven = later if len(later) == 1 else [epoch for epoch in later if epoch in wrote]
    if proven:
        return f"the leader of epoch {proven[0]} (broker {leaders[proven[0]]}) did not have them"
    if first is not None and first in final and (epoch := final[first][1]) in leaders:
        # A deposed leader may have acked them after this election.
        return f"the leader of epoch {epoch} (broker {leaders[epoch]}) wrote another record at offset {first:,}"
    if later:
        return f"a leader of the epochs {later[0]} to {later[-1]} did not have them"
    return "the metadata log has no election after their acks"
