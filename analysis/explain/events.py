"""Collects what happened to one record, in the order of time, each event with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from analysis.explain.subject import Subject
from analysis.explain.table_rows import TableRow, find_rows
from analysis.record.elections import elections_of
from analysis.record.record import Record
from analysis.sentences.elections import transition
from analysis.sentences.steps import cut_sides
from analysis.sentences.words import acks, members, nodes
from ebbtide.journal.payload import value_in_words
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.manifest import Manifest
from ebbtide.record.steps import STEPS, StepEntry
from ebbtide.scenario.steps.step import WaitStep


class LifeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event; `place` says where its evidence is. `kind` groups events that look alike.

    `at_ns` is nanoseconds since the epoch.
    """

    at_ns: int
    kind: str
    text: str
    place: str


def events_of(record: Record, subject: Subject, reads: Sequence[TableRow], manifest: Manifest) -> list[LifeEvent]:
    """Return all events that concern the record, by time; `reads` are the rows of polls with its value."""
    events = [
        *_client_events(record, subject, reads, manifest.final_consumer),
        *cluster_events(record, subject.at, subject.offset, subject.sent.values["sent_ns"]),
    ]
    return sorted(events, key=lambda event: event.at_ns)


def cluster_events(record: Record, at: TopicPartition, offset: int | None, sent_ns: int) -> list[LifeEvent]:
    """Return what happened to the cluster and the partition since the record was sent.

    The steps are in the order of steps.jsonl. Those of a watch are what people said.
    """
    steps = record.steps or []
    events = [
        *_metadata_events(record, at, sent_ns),
        *(_step_events(record, at, offset, steps) if record.manifest.watch is None else _mark_events(steps)),
    ]
    if offset is not None:
        events += _hw_events(record, at, offset, sent_ns)
    return events


def _client_events(
    record: Record, subject: Subject, reads: Sequence[TableRow], final_consumer: int | None
) -> Iterator[LifeEvent]:
    sent = subject.sent.values
    txn = f", in transaction {sent['txn']}" if sent["txn"] is not None else ""
    yield LifeEvent(
        at_ns=sent["sent_ns"],
        kind="send",
        text=f"producer {sent['producer']} sends it with acks={acks(sent['acks'])}{txn}",
        place=subject.sent.place,
    )
    if sent["done_ns"] is not None:
        yield LifeEvent(at_ns=sent["done_ns"], kind="answer", text=_answer(subject), place=subject.sent.place)
    for row in reads:
        who = _reader(row.values, final_consumer)
        text = f"{who} reads it at offset {row.values['offset']:,}"
        yield LifeEvent(at_ns=row.values["polled_ns"], kind="read", text=text, place=row.place)
    if subject.offset is None:
        return
    for row in find_rows(
        record, "polls", topic=subject.at.topic, partition=subject.at.partition, offset=subject.offset
    ):
        if row.values["value"] != subject.value:
            who = _reader(row.values, final_consumer)
            value = row.values["value"]
            what = "a damaged record" if value is None else f"another record, {value_in_words(value)}"
            text = f"{who} reads {what}, at its offset {subject.offset:,}"
            yield LifeEvent(at_ns=row.values["polled_ns"], kind="read", text=text, place=row.place)


def _answer(subject: Subject) -> str:
    sent = subject.sent.values
    if sent["status"] == "acked":
        return "the producer goes on without an answer" if sent["acks"] == 0 else f"acked at offset {sent['offset']:,}"
    if sent["status"] == "failed":
        return f"the producer reports an error: {sent['error'] or 'not named'}"
    return f"the producer does not know whether it was written: {sent['error'] or 'no answer'}"


def _reader(poll: Mapping[str, Any], final_consumer: int | None) -> str:
    who = "the final read" if poll["consumer"] == final_consumer else f"consumer {poll['consumer']}"
    return f"{who} ({poll['isolation']})"


def _metadata_events(record: Record, at: TopicPartition, sent_ns: int) -> list[LifeEvent]:
    """Return the changes of the partition and of its brokers' registrations since the record was sent.

    They are in the order of the log: many records of one batch have one time.
    """
    found: list[tuple[int, LifeEvent]] = []
    states = record.timeline.states(at.topic, at.partition)
    elections = {one.after.metadata_offset: one for one in elections_of(record.timeline, at.topic, at.partition)}
    first = record.timeline.state_at_time(at.topic, at.partition, sent_ns)
    before = None
    for state in states:
        note = transition(before, state, elections.get(state.metadata_offset), None)[1]
        if state == first or state.at_ns > sent_ns:
            leader = f"leader {state.leader}" if state.leader >= 0 else "no leader"
            sets = f"ISR {members(state.isr)}" + (f", ELR {members(state.elr)}" if state.elr else "")
            text = f"{note}: {leader}, leader epoch {state.leader_epoch}, {sets}"
            place = f"partitions.parquet, metadata offset {state.metadata_offset:,}"
            change = LifeEvent(at_ns=state.at_ns, kind="partition", text=text, place=place)
            found.append((state.metadata_offset, change))
        before = state
    replicas = set(first.replicas) if first is not None else set()
    for event in record.timeline.brokers:
        if event.broker in replicas and event.at_ns > sent_ns and event.event in ("registered", "fenced"):
            change = LifeEvent(
                at_ns=event.at_ns,
                kind="broker",
                text=f"broker {event.broker} {'registers again' if event.event == 'registered' else 'is fenced'}",
                place=f"brokers.parquet, metadata offset {event.metadata_offset:,}",
            )
            found.append((event.metadata_offset, change))
    return [change for _, change in sorted(found, key=itemgetter(0))]


def _step_events(
    record: Record, at: TopicPartition, offset: int | None, steps: Sequence[StepEntry]
) -> Iterator[LifeEvent]:
    """Yield every step that fired and is no wait, and what each disk loss took from the partition's log."""
    for step in steps:
        if step.fired_ns is not None and not step.is_a(WaitStep):
            whom = step.whom or cut_sides(step) or nodes(step.nodes)
            unproven = "" if step.effect_ns is not None else "; nothing proves that it took effect"
            text = f"step {step.index}, {step.step}" + (f": {whom}" if whom != "-" else "") + unproven
            yield LifeEvent(at_ns=step.fired_ns, kind="step", text=text, place=f"{STEPS}, index {step.index}")
    name = str(at)
    for loss in record.log_losses or ():
        if name not in loss.ends:
            continue
        before, after = loss.starts.get(name), loss.ends[name]
        text = f"the log of broker {loss.broker} ends at offset {after:,}"
        text += f", before at {before:,}" if before is not None else ""
        if offset is not None:
            had = before is None or before > offset
            gone = f"it {'has lost' if had else 'never had'} offset {offset:,}"
            text += f": {gone}" if after <= offset else f": it has kept offset {offset:,}"
        by = [step.index for step in steps if step.fired_ns == loss.fired_ns and loss.broker in step.nodes]
        place = f"{STEPS}, index {by[0]}, its proof" if by else f"{STEPS}, the step's proof"
        yield LifeEvent(at_ns=loss.done_ns, kind="disk", text=text, place=place)


def _mark_events(steps: Sequence[StepEntry]) -> Iterator[LifeEvent]:
    """Yield what people said during a watch."""
    for step in steps:
        if step.fired_ns is not None:
            text = f"somebody noted: {step.whom}; nothing proves it"
            yield LifeEvent(at_ns=step.fired_ns, kind="mark", text=text, place=f"{STEPS}, index {step.index}")


def _hw_events(record: Record, at: TopicPartition, offset: int, sent_ns: int) -> Iterator[LifeEvent]:
    """Yield each time that a leader served a HW on the other side of the record than before.

    A deposed leader goes on to answer under its old epoch, for as long as it is cut off. Its HW is
    an event once, and is not compared with that of the new leader.
    """
    seen = find_rows(record, "watermarks", topic=at.topic, partition=at.partition, source="list_offsets")
    rows = [row for row in seen if row.values["at_ns"] > sent_ns]
    passed = False
    newest_epoch = -1
    deposed: set[tuple[int, int, bool]] = set()
    for found in sorted(rows, key=lambda row: row.values["at_ns"]):
        row = found.values
        epoch = row["leader_epoch"]
        is_above = row["high_watermark"] > offset
        serves = f"broker {row['broker']} serves {row['high_watermark']:,}"
        serves += f", leader epoch {epoch}" if epoch is not None else ""
        if epoch is not None and epoch < newest_epoch:
            if is_above == passed or (row["broker"], epoch, is_above) in deposed:
                continue
            deposed.add((row["broker"], epoch, is_above))
            side = "above" if is_above else "not above"
            text = f"a deposed leader still answers, with a HW {side} its offset: {serves}"
        else:
            newest_epoch = max(newest_epoch, epoch if epoch is not None else -1)
            if is_above == passed:
                continue
            passed = is_above
            text = f"the HW {'is seen above its offset' if passed else 'is not above its offset any more'}: {serves}"
        yield LifeEvent(at_ns=row["at_ns"], kind="hw", text=text, place=found.place)
