"""Tells the life of a record of the user's own clients, by what passed through published ports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from analysis.explain.events import LifeEvent, cluster_events
from analysis.explain.life import Life, Tone
from analysis.explain.reasons import Reason
from analysis.explain.subject import Subject
from analysis.explain.table_rows import TableRow, find_rows
from analysis.record.record import Record
from analysis.record.traffic import Traffic
from analysis.sentences.words import acks, target
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.verdict import VERDICT, read_judgement


class _Fate(NamedTuple):
    """What became of a record: the end of a sentence, and the reasons."""

    says: str
    tone: Tone
    reasons: list[Reason]


def explain_own(record: Record, at: TopicPartition, offset: int) -> Life | None:
    """Return the life of a record at an offset; None: no client of the user's own sent or got one there."""
    traffic = record.traffic
    if traffic is None:
        return None
    here: dict[str, int | str] = {"topic": at.topic, "partition": at.partition}
    sent = list(find_rows(record, "wire", kind="produce", **here, offset=offset))
    final = list(find_rows(record, "wire", kind="final", **here, offset=offset))
    batches = find_rows(record, "wire", kind="fetch", **here)
    got = [row for row in batches if row.values["offset"] <= offset <= row.values["last_offset"]]
    handled = list(find_rows(record, "handled", **here, offset=offset))
    if not (sent or got or final):
        return None
    begins_ns = min((row.values["asked_ns"] or 0 for row in (*sent, *got)), default=record.manifest.start_ns or 0)
    subject = Subject(value=0, at=at, sent=(sent or got or final)[0], offset=offset)
    events = [
        *(event for row in sent for event in _sends(row)),
        *(_event(row, f"client {row.values['client']} gets a batch with it", "read", "done_ns") for row in got),
        *(
            _event(row, "the test has handled it", "read", "at_ns")
            for row in handled
            if row.values["at_ns"] is not None
        ),
        *_commits(record, here, offset),
        *cluster_events(record, subject, begins_ns),
    ]
    fate = _fate_of(record, traffic, subject, sent, final)
    if record.has("handled") and not handled:
        fate.reasons.append(Reason(text="nobody said that the record was handled", place="handled/"))
    return Life(
        value=None,
        partition=str(at),
        offset=offset,
        run=f"{record.manifest.run_id}: {record.manifest.scenario} on Kafka {target(record)}",
        start_ns=record.manifest.start_ns,
        headline=f"Your record {at}:{offset:,} {fate.says}",
        tone=fate.tone,
        events=sorted(events, key=lambda event: event.at_ns),
        places=[],
        reasons=fate.reasons,
        unknown=[f"the logs of the replicas of {at.topic}: the record has them only for topics of its scenario"],
    )


def _fate_of(
    record: Record, traffic: Traffic, subject: Subject, sent: Sequence[TableRow], final: Sequence[TableRow]
) -> _Fate:
    at, offset = subject.at, subject.offset or 0
    why, log = traffic.why_no_final_log(at), traffic.final.get(at)
    reasons = [Reason(text=_told(row), place=row.place) for row in sent]
    if why is not None or log is None:
        return _Fate("may be there or lost", "open", [*reasons, Reason(text=str(why), place="manifest.json, wire")])
    there = final[0].values if final else None
    place = final[0].place if final else "wire, the final read"
    if there is None:
        text = f"the final read, from offset {log.start or 0:,} to {log.end:,}, has no record at offset {offset:,}"
    else:
        text = f"the final read has a record of leader epoch {there['leader_epoch']} at offset {offset:,}"
    reasons.append(Reason(text=text, place=place))
    promised = [row for row in sent if row.values["status"] == "acked"]
    missing = [row for row in promised if there is None or there["digest"] != row.values["digest"]]
    if offset < (log.start or 0):
        return _Fate("is below the log start", "open", reasons)
    for row in missing:
        elsewhere = [one.offset or 0 for one in log.records.values() if one.digest == row.values["digest"]]
        if elsewhere:
            text = f"the same payload is at offset {elsewhere[0]:,}, perhaps by another send"
            return _Fate(
                "is not where it was acked", "open", [*reasons, Reason(text=text, place="wire, the final read")]
            )
        return _Fate("is lost", "bad", [*reasons, *_loss(record, subject, row)])
    if there is not None and (fate := log.fate(log.records[offset])) != "shown":
        return _Fate(f"is there, and its transaction {'is open' if fate == 'open' else 'was aborted'}", "open", reasons)
    return _Fate("is there" if there is not None else "was acked to nobody, and is not there", "good", reasons)


def _loss(record: Record, subject: Subject, sent: TableRow) -> Iterator[Reason]:
    """Yield what the verdict says of the losses of its producer."""
    for one in read_judgement(record.folder).own_losses:
        if (one.topic, one.partition) == subject.at and (one.client, one.acks) == (
            sent.values["client"],
            sent.values["acks"],
        ):
            yield Reason(text=str(one), place=f"{VERDICT}, own_producers")


def _told(row: TableRow) -> str:
    sent = row.values
    txn = f", in a transaction of {sent['transactional_id']}" if sent["transactional_id"] else ""
    answer = "got an ack" if sent["status"] == "acked" else f"does not know: {sent['error']}"
    return f"your producer {sent['client']} sent it with acks={acks(sent['acks'])}{txn}, and {answer}"


def _sends(row: TableRow) -> Iterator[LifeEvent]:
    yield _event(row, f"your producer {row.values['client']} sends it with acks={acks(row.values['acks'])}", "send")
    if row.values["done_ns"] is not None:
        yield _event(row, f"acked at offset {row.values['offset']:,}", "answer", "done_ns")


def _commits(record: Record, here: dict[str, int | str], offset: int) -> Iterator[LifeEvent]:
    """Yield the first commit of each group that covers the record."""
    covering: dict[str, TableRow] = {}
    for kind in ("commit", "txn-commit"):
        for row in find_rows(record, "wire", kind=kind, **here, status="acked"):
            group, before = row.values["group"], covering.get(row.values["group"])
            if row.values["offset"] > offset and (before is None or row.values["asked_ns"] < before.values["asked_ns"]):
                covering[group] = row
    for group, row in covering.items():
        yield _event(row, f"group {group} commits offset {row.values['offset']:,}, and so this record", "answer")


def _event(row: TableRow, text: str, kind: str, time: str = "asked_ns") -> LifeEvent:
    return LifeEvent(at_ns=row.values[time] or 0, kind=kind, text=text, place=row.place)
