"""The judge of a whole run: a history is written as a record, and its losses are attributed here, without Spark.

The reconciliation is made from the truth, as `analysis.reconcile` groups lost records.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.causes.from_record import EvidentRecord
from analysis.judge.causes.blame import attributed_losses
from analysis.judge.doubts import without_doubtful_causes
from analysis.reconcile.model import LostRange
from analysis.record.record import Record
from ebbtide.record.files import ANOMALIES_DIR, RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.tables import ANOMALY_SCHEMA
from simulator.causes_judge import is_shown_committed
from simulator.compare import Answers, Judged
from simulator.controller import TOPIC
from simulator.history import LOST, Key, LostRecord, TrueHistory
from simulator.writing import write_record

Group = tuple[int, int, bool, int | None]


def judge_as_runs(history: TrueHistory) -> Answers:
    """Return the causes that the judge of a run names."""
    if not history.lost:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        return _answers(history, write_record(history, Path(folder) / "run"))


def _answers(history: TrueHistory, folder: Path) -> Answers:
    groups: dict[Group, list[LostRecord]] = defaultdict(list)
    for lost in (one for one in history.lost if one.kind == LOST):
        groups[lost.partition, lost.acks, is_shown_committed(history, lost), _era(history, lost)].append(lost)
    _write_anomalies(folder, groups)
    record = Record(RecordFolder(folder), read_manifest(RecordFolder(folder)))
    record.gaps = ()  # what it lacks is part of the question
    found: dict[Key, Judged] = {}
    for (partition, acks, committed, era), group in groups.items():
        group.sort(key=lambda one: one.offset)
        lost_range = LostRange(
            kind="lost",
            topic=TOPIC,
            partition=partition,
            acks=acks,
            committed=committed,
            first_offset=group[0].offset,
            last_offset=group[-1].offset,
            count=len(group),
            acked_after_epoch=era,
            first_done_ns=min(one.done_ns for one in group),
            last_done_ns=max(one.done_ns for one in group),
        )
        blamed = attributed_losses(EvidentRecord(record), [lost_range])
        for part in without_doubtful_causes(blamed, record):
            election = part.attribution.election
            named = None if election is None else election.after.metadata_offset
            for one in group:
                if part.items.first_offset <= one.offset <= part.items.last_offset:
                    found[one.key] = Judged(part.attribution.cause, named, part.attribution.is_allowed)
    return found


def _era(history: TrueHistory, lost: LostRecord) -> int | None:
    epochs = [
        row["leader_epoch"]
        for row in history.tables["partitions"]
        if row["partition"] == lost.partition and row["at_ns"] <= lost.done_ns
    ]
    return max(epochs, default=None)


def _write_anomalies(folder: Path, groups: dict[Group, list[LostRecord]]) -> None:
    rows = [
        {
            "kind": "lost",
            "topic": TOPIC,
            "partition": partition,
            "offset": one.offset,
            "value": one.value,
            "details": json.dumps(
                {
                    "acks": acks,
                    "committed": committed,
                    "acked_after_epoch": era,
                    "sent_ns": one.sent_ns,
                    "done_ns": one.done_ns,
                }
            ),
        }
        for (partition, acks, committed, era), group in groups.items()
        for one in group
    ]
    (folder / ANOMALIES_DIR).mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=ANOMALY_SCHEMA), folder / ANOMALIES_DIR / "part-0.parquet")
