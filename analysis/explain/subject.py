"""Chooses the record to explain: by its value, by its place, or the first lost one."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from analysis.explain.table_rows import TableRow, find_rows
from analysis.record.record import Record
from analysis.record.whole import ended_before_sending
from ebbtide.errors import UsageError
from ebbtide.journal.payload import PRODUCER_SHIFT
from ebbtide.logs.segments import INTERNAL_PREFIX, TopicPartition
from ebbtide.record.files import ANOMALIES_DIR
from ebbtide.record.manifest import list_records
from ebbtide.record.verdict import Verdict, read_judgement
from ebbtide.rules.table import LOST
from ebbtide.scenario.write import SCENARIO
from ebbtide.shown_text import some_of
from ebbtide.suggestions import bracketed_suggestion

_NAMED_MAX = 5


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A record of a run: its value, which is unique in the run, and its partition.

    `sent` is its row of sends/. `offset` is where a broker acked it, or else where the record was
    found; null: nowhere. `others` are the other values known at that offset.
    """

    value: int
    at: TopicPartition
    sent: TableRow
    offset: int | None
    others: tuple[int, ...] = ()


def nothing_to_explain(record: Record, verdict: Verdict) -> UsageError | None:
    """Return the error for a run that ended before a producer sent anything; None: it may have a record."""
    manifest = record.manifest
    if not ended_before_sending(record, verdict.counts):
        return None
    command = f"ebbtide run {shlex.quote(str(record.folder / SCENARIO))}"
    again = manifest.status == "failed" and manifest.watch is None and record.folder.has(SCENARIO)
    return UsageError(
        "there is nothing to explain: the run ended before anything was sent",
        where=str(record),
        got=f"the status of the run is {manifest.status}: {manifest.why_incomplete or 'no reason given'}",
        next=manifest.failure_next or (command if again else list_records(record.folder.path)),
    )


def subject_of_value(record: Record, value: int) -> Subject:
    """Return the record with this value. Raises `UsageError` when no producer sent it."""
    sent = next(find_rows(record, "sends", value=value), None)
    if sent is None:
        _require_rows(record, str(value))
        raise UsageError(
            "no producer of this run sent a record with this value",
            where=str(record),
            got=str(value),
            allowed=f"a value of the table sends: record 5 of producer 1 has {(1 << PRODUCER_SHIFT) + 5}",
            next=f"ebbtide explain {shlex.quote(str(record))}    (explains the first lost record, if there is one)",
        )
    at = TopicPartition(sent.values["topic"], sent.values["partition"])
    offset = sent.values["offset"]
    if offset is None:
        found = [row for table in ("polls", "replicas") for row in find_rows(record, table, value=value)]
        offset = found[0].values["offset"] if found else None
    others = tuple(one for one in _values_at(record, at, offset) if one != value) if offset is not None else ()
    return Subject(value=value, at=at, sent=sent, offset=offset, others=others)


def subject_at(record: Record, at: TopicPartition, offset: int) -> Subject:
    """Return the record at an offset: the lost one, else the first that was acked there.

    Raises `UsageError` when the record knows no record at this offset, or no such partition.
    """
    values = _values_at(record, at, offset)
    if not values:
        _require_partition(record, at, f"{at}:{offset}")
        _require_rows(record, f"{at}:{offset}")
        raise UsageError(
            "nobody sent, acked or read a record at this offset",
            where=str(record),
            got=f"{at}:{offset}",
            allowed=_known_offsets(record, at),
            next=f"ebbtide explain {shlex.quote(str(record))}    (explains the first lost record, if there is one)",
        )
    anomalies = find_rows(record, ANOMALIES_DIR, topic=at.topic, partition=at.partition, offset=offset)
    lost = {row.values["value"] for row in anomalies if row.values["kind"] == LOST}
    chosen = next((one for one in values if one in lost), values[0])
    return subject_of_value(record, chosen)


def first_lost_subject(record: Record) -> Subject | None:
    """Return the lost record with the lowest offset, a committed one if there is any.

    None: the judge found no lost record. Raises `UsageError` when the record was not judged.
    """
    verdict = read_judgement(record.folder)
    lost = [(one.committed, one.topic, one.partition, one.first_offset) for one in verdict.losses]
    # Losses without a cause are only here.
    blamed = (one for one in verdict.blamed if one.kind == LOST and one.first is not None)
    lost += [(one.committed, one.topic, one.partition, one.first or 0) for one in blamed]
    worst = next((one for one in lost if one[0]), lost[0] if lost else None)
    if worst is None:
        return None
    _, topic, partition, offset = worst
    return subject_at(record, TopicPartition(topic, partition), offset)


def anomalies_of(record: Record, value: int) -> list[TableRow]:
    """Return the rows of anomalies/ on the record with this value."""
    return list(find_rows(record, ANOMALIES_DIR, value=value))


def _values_at(record: Record, at: TopicPartition, offset: int) -> list[int]:
    """Return the values known at an offset: acked ones first, then read ones, then those in logs."""
    place: dict[str, Any] = {"topic": at.topic, "partition": at.partition, "offset": offset}
    rows = (row for table in ("sends", "polls", "replicas") for row in find_rows(record, table, **place))
    return list(dict.fromkeys(row.values["value"] for row in rows if row.values["value"] is not None))


def _require_rows(record: Record, got: str) -> None:
    """Raise `UsageError` if rows on records are missing: then nobody knows what was sent."""
    if (why := record.why_not_whole(("sends", "polls"))) is not None:
        what, next_ = "no row that is left says who sent this", f"ebbtide analyze {shlex.quote(str(record))}"
        raise UsageError(what, where=str(record), got=f"{got}; {why}", next=f"{next_}    (says what is unknown then)")


def _require_partition(record: Record, at: TopicPartition, got: str) -> None:
    """Raise `UsageError` if neither the manifest nor the metadata log has this partition.

    Steps create topics and add partitions, which only the metadata log has. Without it the error asserts nothing.
    """
    topics = record.manifest.topics
    planned = {TopicPartition(name, number) for name, topic in topics.items() for number in range(topic.partitions)}
    timeline = record.timeline
    known = sorted({*planned, *(TopicPartition(*key) for key in timeline.partitions)})
    if at in known:
        return
    has_topic = any(one.topic == at.topic for one in known)
    # Kafka's own topics have many partitions, and no producer of the run sends to them.
    shown = [str(one) for one in known if not one.topic.startswith(INTERNAL_PREFIX)]
    of_topic = [str(one) for one in known if one.topic == at.topic] or shown
    near = "" if has_topic else bracketed_suggestion(at.topic, {one.topic for one in known})
    if "partitions" in timeline.missing:
        what = f"it is not known whether this run had the partition {at}: the record has no metadata log"
    elif has_topic:
        what = f"the topic {at.topic} of this run has no partition {at.partition}"
    else:
        what = f"this run has no topic {at.topic}"
    raise UsageError(
        what,
        where=str(record),
        got=got,
        allowed=f"{some_of(of_topic, _NAMED_MAX)}{near}" if of_topic else "none: the run created no topic",
        next=f"ebbtide explain {shlex.quote(str(record))}    (explains the first lost record, if there is one)",
    )


def _known_offsets(record: Record, at: TopicPartition) -> str:
    """Say which offsets of the partition have records."""
    rows = (row.values["offset"] for row in find_rows(record, "sends", topic=at.topic, partition=at.partition))
    acked = [offset for offset in rows if offset is not None]
    return f"{at}:{min(acked)} to {at}:{max(acked)}, where brokers acked records" if acked else "no offset was acked"
