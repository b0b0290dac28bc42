"""Tells the life of a record of the user's own clients, by what passed through published ports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from analysis.explain.events import LifeEvent, cluster_events
from analysis.explain.life import Life, Tone
from analysis.explain.reasons import Reason
from analysis.explain.replica_places import ReplicaPlace
from analysis.explain.table_rows import TableRow, find_rows
from analysis.record.record import Record
from analysis.record.traffic import Traffic, WireRow
from analysis.sentences.words import acks, target
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.verdict import VERDICT, read_judgement

_PLACE = "wire/"


def explain_own(record: Record, at: TopicPartition, offset: int) -> Life | None:
    """Return the life of a record at an offset; None: no client of the user's own sent or got one there."""
    if record.traffic is None:
        return None
    own = _OwnRecord(record, record.traffic, at, offset)
    events = [*own.client_events()]
    if not events and own.there is None:
        return None
    headline, tone, reasons = own.fate()
    begins_ns = min((event.at_ns for event in events), default=record.manifest.start_ns or 0)
    places = [*own.replica_places()]
    return Life(
        value=None,
        partition=str(at),
        offset=offset,
        run=f"{record.manifest.run_id}: {record.manifest.scenario} on Kafka {target(record)}",
        start_ns=record.manifest.start_ns,
        headline=f"Your record {at}:{offset:,} {headline}",
        tone=tone,
        events=sorted([*events, *cluster_events(record, at, offset, begins_ns)], key=lambda event: event.at_ns),
        places=places,
        reasons=reasons,
        unknown=[f"whether the copy of broker {one.broker} is this record" for one in places if one.has_it is None]
        + ([] if places else ["the logs of the replicas"]),
    )


class _OwnRecord:
    """A record at an offset: the lost one of those that were acked there, else the first one.

    `sent` None: no producer got an ack there. `there` is the record that the final read has at the offset.
    """

    def __init__(self, record: Record, traffic: Traffic, at: TopicPartition, offset: int) -> None:
        self._record, self._traffic, self._at, self._offset = record, traffic, at, offset
        self.there = traffic.final[at].records.get(offset)
        sends = sorted((row for row in traffic.sends.get(at, ()) if row.offset == offset), key=self._is_there)
        self.sent: WireRow | None = sends[0] if sends else None
        self._others = sends[1:]

    def client_events(self) -> Iterator[LifeEvent]:
        """Yield what clients did with the record, and what the test said of it."""
        offset = self._offset
        if self.sent is not None:
            text = f"your producer {self.sent.client} sends it with acks={acks(self.sent.acks or 0)}"
            yield _event(self.sent.since_ns, text, "send")
            yield _event(self.sent.until_ns, f"acked at offset {offset:,}", "answer")
        for row in self._batches:
            yield _event(row.until_ns, f"client {row.client} gets a batch with it", "read")
        for group, row in self._commits.items():
            yield _event(row.since_ns, f"group {group} commits offset {row.offset:,}, and so this record", "answer")
        for said in self._handled:
            if said.values["offset"] == offset and (at_ns := said.values["at_ns"]) is not None:
                yield LifeEvent(at_ns=at_ns, kind="read", text="the test has handled this offset", place=said.place)

    def fate(self) -> tuple[str, Tone, list[Reason]]:
        """Return what became of the record, as the end of a sentence, and the reasons."""
        at, offset, there = self._at, self._offset, self.there
        if (why := self._traffic.why_no_final_log(at)) is not None:
            return "may be there or lost", "open", [Reason(text=why, place="manifest.json, wire")]
        log = self._traffic.final[at]
        start = log.start or 0
        read = f"the final read, from offset {start:,} to {log.end:,}, has "
        read += "no record there" if there is None else f"a record of leader epoch {there.leader_epoch} there"
        reasons = [Reason(text=read, place=_PLACE)]
        for row in self._others:
            another = f"your producer {row.client} got an ack for another record at this offset"
            reasons.append(Reason(text=f"{another}: it is {'' if self._is_there(row) else 'not '}there", place=_PLACE))
        if offset < start:
            return "is below the log start", "open", reasons
        if (sent := self.sent) is not None and not self._is_there(sent):
            of = [one for one in read_judgement(self._record.folder).own_losses if (one.topic, one.partition) == at]
            told = [one for one in of if (one.client, one.acks) == (sent.client, sent.acks)]
            reasons += [Reason(text=str(one), place=VERDICT) for one in told]
            return ("is lost", "bad", reasons) if told else ("is not where it was acked", "open", reasons)
        if there is None:
            return "was acked to nobody, and is not there", "good", reasons
        if (shown := log.fate(there)) != "shown":
            return f"is there, and its transaction {'is open' if shown == 'open' else 'was aborted'}", "open", reasons
        for group in self._commits if self._batches else ():
            offsets = {one.values["offset"] for one in self._handled if one.values["group"] in (None, group)}
            if offsets and min(offsets) < offset and offset not in offsets:
                begins = f"records of group {group} were handled from offset {min(offsets):,} on, but not this one"
                reasons.append(Reason(text=begins, place="handled/"))
                return f"is there; group {group} committed it, and nobody handled it", "bad", reasons
        return "is there", "good", reasons

    def replica_places(self) -> Iterator[ReplicaPlace]:
        """Yield what each replica's log has at the offset: one offset and leader epoch is one record in all logs."""
        there, sent = self.there, self.sent
        for broker, rows in sorted(self._traffic.replicas[self._at].items()):
            epochs = [row.leader_epoch for row in rows if row.kind == "replica" and self._is_in(row)]
            text = f"does not have it: its log is from offset {rows[-1].offset:,} to {rows[-1].last_offset:,}"
            has_it: bool | None = False
            if epochs:
                text = f"has a record of leader epoch {epochs[0]} at this offset"
                is_sent = there is not None and (sent is None or self._is_there(sent))
                is_final = there is not None and epochs[0] == there.leader_epoch
                has_it = (is_final and is_sent) if is_final or is_sent else None
            yield ReplicaPlace(broker=broker, has_it=has_it, text=text, place=_PLACE)

    def _is_there(self, row: WireRow) -> bool:
        return self.there is not None and self.there.digest == row.digest

    def _is_in(self, row: WireRow) -> bool:
        return (row.offset or 0) <= self._offset <= (row.last_offset or 0)

    @cached_property
    def _batches(self) -> Sequence[WireRow]:
        """The fetched batches with the record, as far as leader epochs keep it apart from another one there."""
        there, sent = self.there, self.sent
        rows = [row for row in self._traffic.fetched.get(self._at, ()) if self._is_in(row)]
        if there is None or sent is None:
            return rows
        return [row for row in rows if (row.leader_epoch == there.leader_epoch) == self._is_there(sent)]

    @cached_property
    def _commits(self) -> dict[str | None, WireRow]:
        """By group, the first commit in force that covers the offset."""
        of = [row for row in self._traffic.commits if row.place == self._at and (row.offset or 0) > self._offset]
        return {row.group: row for row in reversed(of) if self._traffic.is_in_force(row)}

    @cached_property
    def _handled(self) -> Sequence[TableRow]:
        return [*find_rows(self._record, "handled", topic=self._at.topic, partition=self._at.partition)]


def _event(at_ns: int, text: str, kind: str) -> LifeEvent:
    return LifeEvent(at_ns=at_ns, kind=kind, text=text, place=_PLACE)
