"""Puts the life of one record together: its fate, the events, the reasons, and what is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from analysis.causes.from_record import EvidentRecord
from analysis.explain.events import LifeEvent, events_of
from analysis.explain.reasons import Reason, fate_of, reasons_of, undecided_elections
from analysis.explain.replica_places import ReplicaPlace, replica_places
from analysis.explain.subject import Subject, anomalies_of
from analysis.explain.table_rows import find_rows
from analysis.record.record import Record
from analysis.sentences.words import target
from ebbtide.record.manifest import Manifest
from ebbtide.record.verdict import read_judgement

Tone = Literal["bad", "good", "open"]


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """All that the run record says about one record of the run.

    `headline` is one sentence. `tone`: bad if the record was lost, good if it is safe, else open.
    `value` null: it is a record of the user's own clients. `places` say what each replica has in the
    end. `start_ns` is the start of the run; `run` names the run and its release.
    """

    value: int | None
    partition: str
    offset: int | None
    run: str
    start_ns: int | None
    headline: str
    tone: Tone
    events: list[LifeEvent]
    places: list[ReplicaPlace]
    reasons: list[Reason]
    unknown: list[str]
    others: tuple[int, ...] = ()


def explain(record: Record, subject: Subject) -> Life:
    """Return the life of the record.

    Raises `UsageError` when the run was not judged yet, or a file is damaged.
    """
    manifest = record.manifest
    verdict = read_judgement(record.folder)
    states = record.timeline.states(subject.at.topic, subject.at.partition)
    brokers = sorted({broker for state in states for broker in state.replicas}) or list(manifest.topology.brokers)
    record.explained = subject.value
    evident = EvidentRecord(record)
    partition = evident.partition(subject.at.topic, subject.at.partition)
    places = replica_places(record, subject, brokers, partition.evidence.replicas, manifest.raw_omitted)
    anomalies = anomalies_of(record, subject.value)
    reads = list(find_rows(record, "polls", value=subject.value))
    final_reads = [row for row in reads if row.values["consumer"] == manifest.final_consumer]
    fate = fate_of(evident, verdict, subject, anomalies, places, final_reads)
    return Life(
        value=subject.value,
        partition=str(subject.at),
        offset=subject.offset,
        run=f"{manifest.run_id}: {manifest.scenario} on Kafka {target(record)}",
        start_ns=manifest.start_ns,
        headline=fate.headline,
        tone=fate.tone,
        events=events_of(record, subject, reads, manifest),
        places=places,
        reasons=reasons_of(evident, verdict, subject, anomalies, places, fate),
        unknown=_unknown(manifest, record, places, [*fate.unknown, *undecided_elections(evident, subject, fate)]),
        others=subject.others,
    )


def _unknown(manifest: Manifest, record: Record, places: Sequence[ReplicaPlace], more: Sequence[str]) -> list[str]:
    """Return what the record cannot say about this record, in sentences."""
    found = [*more, *(gap.why for gap in record.gaps)]
    others = record.timeline.missing - {gap.part for gap in record.gaps}
    found += [f"the record has no table {name}" for name in sorted(others)]
    if record.log_losses is None:
        found.append(record.why_disks_unknown)
    if manifest.final_consumer is None:
        found.append("there was no final read, so nobody knows what consumers can still read")
    found += [f"the log of broker {one.broker} after the run" for one in places if one.has_it is None]
    return found
