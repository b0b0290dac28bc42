"""Tells the life of a record of the user's own clients, by what passed through published ports."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.explain.events import LifeEvent, cluster_events
from analysis.explain.life import Life, Tone
from analysis.explain.reasons import Reason
from analysis.explain.table_rows import find_rows
from analysis.record.record import Record
from analysis.record.traffic import Traffic, WireRow
from analysis.sentences.words import acks, target
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.verdict import VERDICT, read_judgement


def explain_own(record: Record, at: TopicPartition, offset: int) -> Life | None:
    """Return the life of a record at an offset; None: no client of the user's own sent or got one there."""
    traffic = record.traffic
    events = [] if traffic is None else [*_client_events(record, traffic, at, offset)]
    if traffic is None or not (events or offset in traffic.final[at].records):
        return None
    headline, tone, reasons = _fate(record, traffic, at, offset)
    begins_ns = min((event.at_ns for event in events), default=record.manifest.start_ns or 0)
    return Life(
        value=None,
        partition=str(at),
        offset=offset,
        run=f"{record.manifest.run_id}: {record.manifest.scenario} on Kafka {target(record)}",
        start_ns=record.manifest.start_ns,
        headline=f"Your record {at}:{offset:,} {headline}",
        tone=tone,
        events=sorted([*events, *cluster_events(record, at, offset, begins_ns)], key=lambda event: event.at_ns),
        places=[],
        reasons=reasons,
        unknown=[f"the logs of the replicas of {at.topic}: the record has them only for topics of its scenario"],
    )


def _client_events(record: Record, traffic: Traffic, at: TopicPartition, offset: int) -> Iterator[LifeEvent]:
    for row in _sends(traffic, at, offset):
        yield _event(row.since_ns, f"your producer {row.client} sends it with acks={acks(row.acks or 0)}", "send")
        yield _event(row.until_ns, f"acked at offset {offset:,}", "answer")
    for row in traffic.fetched.get(at, ()):
        if (row.offset or 0) <= offset <= (row.last_offset or 0):
            yield _event(row.until_ns, f"client {row.client} gets a batch with it", "read")
    covering = [
        row for row in traffic.commits if row.place == at and row.status == "acked" and (row.offset or 0) > offset
    ]
    for group, row in {row.group: row for row in reversed(covering)}.items():
        yield _event(row.since_ns, f"group {group} commits offset {row.offset:,}, and so this record", "answer")
    for said in find_rows(record, "handled", topic=at.topic, partition=at.partition, offset=offset):
        if said.values["at_ns"] is not None:
            yield LifeEvent(at_ns=said.values["at_ns"], kind="read", text="the test has handled it", place=said.place)


def _event(at_ns: int, text: str, kind: str) -> LifeEvent:
    return LifeEvent(at_ns=at_ns, kind=kind, text=text, place="wire/")


def _sends(traffic: Traffic, at: TopicPartition, offset: int) -> list[WireRow]:
    return [row for row in traffic.sends.get(at, ()) if row.offset == offset]


def _fate(record: Record, traffic: Traffic, at: TopicPartition, offset: int) -> tuple[str, Tone, list[Reason]]:
    """Return what became of a record, as the end of a sentence, and the reasons."""
    if (why := traffic.why_no_final_log(at)) is not None:
        return "may be there or lost", "open", [Reason(text=why, place="manifest.json, wire")]
    log = traffic.final[at]
    there, start = log.records.get(offset), log.start or 0
    read = f"the final read, from offset {start:,} to {log.end:,}, has "
    read += "no record there" if there is None else f"a record of leader epoch {there.leader_epoch} there"
    reasons = [Reason(text=read, place="wire/")]
    if offset < start:
        return "is below the log start", "open", reasons
    for row in _sends(traffic, at, offset):
        if there is None or there.digest != row.digest:
            of = [one for one in read_judgement(record.folder).own_losses if (one.topic, one.partition) == at]
            told = [
                Reason(text=str(one), place=VERDICT) for one in of if (one.client, one.acks) == (row.client, row.acks)
            ]
            return "is lost" if told else "is not where it was acked", "bad" if told else "open", [*reasons, *told]
    fate = "shown" if there is None else log.fate(there)
    if fate != "shown":
        return f"is there, and its transaction {'is open' if fate == 'open' else 'was aborted'}", "open", reasons
    return "is there" if there is not None else "was acked to nobody, and is not there", "good", reasons
