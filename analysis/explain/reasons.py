"""Says what became of one record, and by which steps the verdict comes to that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from analysis.causes.from_record import EvidentRecord
from analysis.causes.words import tell
from analysis.explain.replica_places import ReplicaPlace
from analysis.explain.subject import Subject
from analysis.explain.table_rows import TableRow
from analysis.judge.causes.attribution import attribute_loss
from analysis.judge.history.evidence import Attribution
from analysis.reconcile.model import LostRange
from analysis.record.elections import ElectionEvent, elections_of
from analysis.record.record import Record
from analysis.sentences.elections import transition
from analysis.sentences.words import MEANING, acks
from ebbtide.journal.payload import value_in_words
from ebbtide.record.outcomes import outcome_word
from ebbtide.record.verdict import Loss, Verdict
from ebbtide.rules.table import ABORTED_READ, ANOMALIES, DUPLICATE, LOST
from ebbtide.shown_text import plural
from ebbtide.untrusted.values import decode_json

Name = Literal["lost", "safe", "duplicated", "aborted", "never-acked", "acks-0", "below-start", "not-known"]
_HISTORIES_MAX = 5


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the reasoning; `place` says where its evidence is."""

    text: str
    place: str


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a record.

    `headline` is one sentence. `final_reads` are its rows in the final read. `loss` is the group of
    verdict.json that it belongs to, if it is lost, and `attribution` the cause and election. `histories` are those in
    which it got lost, a sentence each. `holder` is the metadata offset of the election whose leader was the last one
    with it, if all histories agree. `unknown` has sentences.
    """

    name: Name
    headline: str
    tone: Literal["bad", "good", "open"]
    final_reads: list[TableRow]
    details: dict[str, Any] = {}
    loss: Loss | None = None
    attribution: Attribution | None = None
    histories: tuple[str, ...] = ()
    holder: int | None = None
    unknown: tuple[str, ...] = ()


def fate_of(
    evident: EvidentRecord,
    verdict: Verdict,
    subject: Subject,
    anomalies: Sequence[TableRow],
    places: Sequence[ReplicaPlace],
    reads: list[TableRow],
) -> Fate:
    """Return what became of the record, by the verdict's own anomalies and its rows in the final read."""
    sent = subject.sent.values
    kinds = {row.values["kind"]: row for row in anomalies}
    who = f"{value_in_words(subject.value).capitalize()}, in {subject.at},"
    if subject.offset is not None:
        who = f"The record {subject.at}:{subject.offset} ({value_in_words(subject.value)})"
    if LOST in kinds:
        return _lost_fate(evident, verdict, subject, kinds[LOST], who)

    def fate(name: Name, tone: Literal["bad", "good", "open"], text: str, *unknown: str) -> Fate:
        return Fate(name=name, tone=tone, headline=f"{who} {text}", final_reads=reads, unknown=unknown)

    is_open = not reads and evident.record.why_not_whole(("polls",)) is not None
    unread = "whether it is in the final log is not known" if is_open else "it is not in the final log"
    there = "it is in the final log" if reads else unread
    if sent["txn_outcome"] == "aborted":
        read = "; a consumer with read_committed read it, which is a fault" if ABORTED_READ in kinds else ""
        acked = "" if sent["status"] == "acked" else f" was never acked ({_answer(sent)}), and"
        text = f"{acked} belongs to an aborted transaction: it does not count{read}."
        return fate("aborted", "bad" if read else "good", text.lstrip())
    if DUPLICATE in kinds:
        is_fault = decode_json(kinds[DUPLICATE].values["details"].encode(), dict[str, Any]).get("idempotent")
        why = ""
        if is_fault is not None:
            why = " Its producer was idempotent, so this is a fault."
            why = why if is_fault else " Its producer was not idempotent, so a retry may write it again."
        text = f"is duplicated: the partition has it at more than one offset.{why}"
        return fate("duplicated", "open" if is_fault is False else "bad", text)
    if sent["acks"] == 0:
        return fate("acks-0", "good" if reads else "open", f"was sent with acks=0, which no broker acks; {there}.")
    if sent["status"] != "acked":
        return fate("never-acked", "good", f"was never acked ({_answer(sent)}), so it is no loss; {there}.")
    if is_open:
        return fate("not-known", "open", f"was acked, and is in no row that is left of the final read: {there}.")
    if evident.record.manifest.final_consumer is None:
        return fate("not-known", "open", "was acked; whether it is lost is not known, as there was no final read.")
    final = evident.record.manifest.final_offsets.get(str(subject.at))
    if not reads and final is not None and subject.offset is not None and subject.offset < final.log_start:
        return fate("below-start", "open", "was acked; its offset is below the start of the final log (retention).")
    if not reads and not any(place.has_it for place in places):
        elsewhere = "whether it is lost: the judge lists it nowhere; the entries `why` of verdict.json may say why"
        why = next((one for one in verdict.why if "lost" in one and "know" in one), elsewhere)
        return fate(
            "not-known", "open", "was acked and is not in the final read; the judge cannot say that it is lost.", why
        )
    wrong = [ANOMALIES[kind].despite for kind in kinds if kind in ANOMALIES and ANOMALIES[kind].despite]
    text = f"is safe: {', '.join(['it was acked, and it is in the final log', *(f'but {one}' for one in wrong)])}."
    return fate("safe", "open" if wrong else "good", text)


def _answer(sent: Mapping[str, Any]) -> str:
    """Return how the send of a record ended that no broker acked."""
    error = f": {sent['error']}" if sent["error"] else ""
    return f"its send {'failed' if sent['status'] == 'failed' else 'has an unknown outcome'}{error}"


def _lost_fate(evident: EvidentRecord, verdict: Verdict, subject: Subject, row: TableRow, who: str) -> Fate:
    details = decode_json(row.values["details"].encode(), dict[str, Any])
    lost = _lost_range(subject, details)
    part = attribute_loss(evident, lost)[0]
    found, partition = part.attribution, evident.partition(*subject.at)
    holder = part.answer.holder
    same = [
        loss
        for loss in verdict.losses
        if (loss.topic, loss.partition) == subject.at
        and loss.acks == details.get("acks")
        and loss.first_offset <= (subject.offset or 0) <= loss.last_offset
    ]
    loss = next((one for one in same if one.cause == found.cause), None)
    committed = "committed" if details.get("committed") or details.get("acks") == -1 else "not committed"
    text = f"{who} is lost ({committed}); its cause is not known."
    if loss is not None:
        text = f"{who} is lost ({committed}): {loss.cause}, {MEANING[loss.cause].partition(':')[0]}."
    return Fate(
        name="lost",
        tone="bad",
        headline=text,
        final_reads=[],
        details=details,
        loss=loss,
        attribution=None if loss is None else found,
        histories=tuple(tell(partition, part.answer)),
        holder=None if holder is None else partition.elections.states[holder].metadata_offset,
        unknown=(f"the cause of the loss: {found.why}",) if loss is None else (),
    )


def _lost_range(subject: Subject, details: dict[str, Any]) -> LostRange:
    """Return the record as a range of its own."""
    offset = subject.offset if subject.offset is not None else 0
    done_ns = details.get("done_ns") or details["sent_ns"]
    return LostRange(
        kind=LOST,
        topic=subject.at.topic,
        partition=subject.at.partition,
        acks=details["acks"],
        committed=bool(details.get("committed")),
        first_offset=offset,
        last_offset=offset,
        count=1,
        acked_after_epoch=details.get("acked_after_epoch"),
        first_done_ns=done_ns,
        last_done_ns=done_ns,
    )


def reasons_of(
    evident: EvidentRecord,
    verdict: Verdict,
    subject: Subject,
    anomalies: Sequence[TableRow],
    places: Sequence[ReplicaPlace],
    fate: Fate,
) -> list[Reason]:
    """Return the reasoning, a step after the other: promise, commitment, end, elections, clause."""
    reasons = [_promise(subject), *_transaction(subject)]
    reasons += _commitment(anomalies, fate)
    reasons.append(_end(evident.record, subject, fate))
    reasons += _listings(anomalies)
    reasons += _elections(evident, subject, fate, places)
    reasons += _histories(fate, evident.record)
    reasons += _copies(places)
    reasons += _group_commits(verdict, subject)
    if fate.loss is not None and fate.attribution is not None:
        reasons.append(
            Reason(
                text=f"The clause: {MEANING[fate.loss.cause]}. It covers {fate.loss.count:,} records of {subject.at}.",
                place="verdict.json, losses",
            )
        )
    outcome = f"The outcome of the whole run is {outcome_word(verdict)}."
    return [*reasons, Reason(text=outcome, place="verdict.json, outcome")]


def _listings(anomalies: Sequence[TableRow]) -> list[Reason]:
    """Say as which anomalies the reconciliation lists the record, the loss first."""
    places: dict[str, list[str]] = {}
    for row in anomalies:
        places.setdefault(row.values["kind"], []).append(row.place)
    return [
        Reason(
            text=f"The reconciliation lists it as {kind}{f': {ANOMALIES[kind].means}' if kind in ANOMALIES else ''}.",
            place=found[0] + (f", and {len(found) - 1} more" if len(found) > 1 else ""),
        )
        for kind, found in sorted(places.items(), key=lambda item: item[0] != LOST)
    ]


def _group_commits(verdict: Verdict, subject: Subject) -> list[Reason]:
    """Say which groups had committed beyond the record, and did not get that back."""
    offset = subject.offset
    return [
        Reason(
            text=f"The group {one.group} had committed offset {one.offset:,}, and its coordinator served "
            f"{'nothing' if one.served is None else f'{one.served:,}'} later ({one.cause}), "
            "so it may read this record again.",
            place="verdict.json, commits",
        )
        for one in verdict.commits
        if offset is not None
        and (one.topic, one.partition) == (subject.at.topic, subject.at.partition)
        and (one.served or 0) <= offset < one.offset
    ]


def _transaction(subject: Subject) -> list[Reason]:
    """Say how the transaction of the record ended."""
    sent = subject.sent.values
    means = {
        "committed": "was committed, so its records count",
        "aborted": "was aborted, so no consumer with read_committed may return the record, and it is no loss",
        "unknown": "has an unknown outcome, so nobody can say whether the record counts",
    }.get(sent["txn_outcome"])
    return [Reason(text=f"Its transaction {sent['txn']} {means}.", place=subject.sent.place)] if means else []


def _promise(subject: Subject) -> Reason:
    sent = subject.sent.values
    if sent["status"] == "acked" and sent["acks"] != 0:
        who = "every member of the ISR had it" if sent["acks"] == -1 else "only the leader had to have it"
        text = f"A broker acked it with acks={acks(sent['acks'])} at offset {sent['offset']:,}: {who} at that time."
    elif sent["status"] == "acked":
        text = "It was sent with acks=0: no broker promised anything."
    else:
        text = f"No broker acked it ({sent['status']}): Kafka promised nothing."
    return Reason(text=text, place=subject.sent.place)


def _commitment(anomalies: Sequence[TableRow], fate: Fate) -> list[Reason]:
    if fate.name != "lost":
        return []
    facts = [
        text
        for key, text in (("read_by_consumer", "a consumer had read it"), ("passed_by_hw", "the HW had passed it"))
        if fate.details.get(key)
    ]
    if fate.details.get("acks") == -1:
        facts.insert(0, "it was acked with acks=all")
    text = f"It was committed: {', and '.join(facts)}." if facts else "Nothing shows that it was committed."
    return [Reason(text=text, place=next(row.place for row in anomalies if row.values["kind"] == LOST))]


def _end(record: Record, subject: Subject, fate: Fate) -> Reason:
    manifest = record.manifest
    final = manifest.final_offsets.get(str(subject.at))
    if manifest.final_consumer is None or final is None:
        return Reason(text="No final read of its partition exists.", place="manifest.json, final_offsets")
    when = "After everything was healed" if manifest.watch is None else "At the end of the watch"
    log = f"offsets {final.log_start:,} to {final.high_watermark - 1:,}"
    if final.log_start == final.high_watermark:
        log = "the log had no records"
    if fate.final_reads:
        offsets = ", ".join(f"{row.values['offset']:,}" for row in fate.final_reads)
        text = f"{when}, the final read ({log}) returned it at offset {offsets}."
        return Reason(text=text, place=fate.final_reads[0].place)
    if record.why_not_whole(("polls",)) is not None:
        text = f"{when}, the final read saw {log}. Some of its rows are missing, perhaps that of this record."
        return Reason(text=text, place="manifest.json, final_offsets")
    return Reason(
        text=f"{when}, the final read ({log}) did not return it.",
        place=f"manifest.json, final_offsets; no row of the final read in polls/ (consumer {manifest.final_consumer})",
    )


def _copies(places: Sequence[ReplicaPlace]) -> list[Reason]:
    known = [one for one in places if one.has_it is not None]
    if not known:
        return []
    holders = [str(one.broker) for one in known if one.has_it]
    who = f"broker{'' if len(holders) == 1 else 's'} {', '.join(holders)}" if holders else "none"
    text = f"Of the {plural(len(known), 'replica')} whose logs were read in the end, {who} had it."
    return [Reason(text=text, place="; ".join(dict.fromkeys(one.place for one in known)))]


def _elections(evident: EvidentRecord, subject: Subject, fate: Fate, places: Sequence[ReplicaPlace]) -> list[Reason]:
    """Say of each election since the record was sent whether the new leader had it."""
    if not _may_be_lost_by_election(subject):
        return []
    if "partitions" in evident.record.timeline.missing:
        text = "Which leaders were elected since it was sent is not known: the record has no metadata log."
        return [Reason(text=text, place="no partitions.parquet")]
    at_end = {one.broker: one for one in places}
    guilty = fate.attribution.election if fate.attribution is not None else None
    found, is_lost = list[Reason](), False
    for one in _elections_since(evident.record, subject):
        is_guilty = guilty is not None and one.after.metadata_offset == guilty.after.metadata_offset
        is_lost = is_lost or is_guilty
        is_holder = one.after.metadata_offset == fate.holder
        finding = _election_finding(evident, subject, one, is_guilty, is_lost, is_holder, at_end.get(one.leader))
        found.append(
            Reason(
                text=f"Leader epoch {one.epoch}, {transition(one.before, one.after, one, None)[1]}: {finding}",
                place=f"partitions.parquet, metadata offset {one.after.metadata_offset:,}",
            )
        )
    if not found:
        text = "No leader was elected since it was sent."
        found = [Reason(text=text, place=f"partitions.parquet, no later leader epoch of {subject.at}")]
    return found


def undecided_elections(evident: EvidentRecord, subject: Subject, fate: Fate) -> list[str]:
    """Return a sentence that names the leaders which may or may not have had the record; empty if there are none."""
    is_decided = fate.attribution is not None and fate.attribution.election is not None
    if not _may_be_lost_by_election(subject) or is_decided or subject.offset is None:
        return []
    epochs = [
        f"{one.epoch}" for one in _elections_since(evident.record, subject) if _had(evident, subject, one) is None
    ]
    if not epochs:
        return []
    who = f"leader of epoch {epochs[0]}" if len(epochs) == 1 else f"leaders of epochs {', '.join(epochs)}"
    return [f"whether the {who} had it at the election: the run left no log of that moment"]


def _may_be_lost_by_election(subject: Subject) -> bool:
    """Return False for a record that nobody acked and no log has: no election could lose it."""
    return subject.offset is not None or bool(subject.sent.values["status"] == "acked")


def _elections_since(record: Record, subject: Subject) -> list[ElectionEvent]:
    sent_ns = subject.sent.values["sent_ns"]
    elections = elections_of(record.timeline, subject.at.topic, subject.at.partition)
    return [one for one in elections if one.after.at_ns >= sent_ns]


def _election_finding(
    evident: EvidentRecord,
    subject: Subject,
    one: ElectionEvent,
    is_guilty: bool,
    is_lost: bool,
    is_holder: bool,
    at_end: ReplicaPlace | None,
) -> str:
    if is_guilty:
        return "this leader did not have the record. This is the election that lost it."
    if is_lost:
        return "the record was lost already."
    if is_holder:
        return "this leader had the record when it was elected. It was the last one with it."
    if subject.offset is None:
        return "whether this leader had the record is not known."
    had = _had(evident, subject, one)
    if had is None:
        later = f" In the end it {at_end.text}." if at_end is not None and at_end.has_it is not None else ""
        return f"the run left no log of that moment, which would say whether this leader had it.{later}"
    return f"this leader {'had' if had else 'did not have'} the record when it was elected."


def _had(evident: EvidentRecord, subject: Subject, election: ElectionEvent) -> bool | None:
    """Return whether the new leader had the record; None: nothing says."""
    partition = evident.partition(subject.at.topic, subject.at.partition)
    at = partition.elections.of_epoch.get(election.epoch)
    assert subject.offset is not None
    if at is None:
        return None
    had = partition.epochs.had(at, subject.value, subject.offset)
    return False if had is None and partition.has_lost_on_disk(at, subject.offset) else had


def _histories(fate: Fate, record: Record) -> list[Reason]:
    """Tell the histories that fit the evidence and in which the record got lost."""
    tables = (f"{table}/" for table in ("replicas", "watermarks") if record.has(table))
    place = ", ".join(["partitions.parquet", "steps.jsonl", *tables])
    if len(fate.histories) == 1:
        return [Reason(text=f"How it got lost: {fate.histories[0]}.", place=place)]
    shown = [Reason(text=f"A history that fits: {one}.", place=place) for one in fate.histories[:_HISTORIES_MAX]]
    if more := len(fate.histories) - len(shown):
        shown.append(Reason(text=f"And {plural(more, 'more history', 'more histories')} fit.", place=place))
    return shown
