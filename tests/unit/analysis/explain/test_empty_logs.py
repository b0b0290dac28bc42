"""Replicas whose logs are empty: their tables are alike, and each is known to hold nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from judge_records import last_replica_standing, ns
from records import as_record

from analysis.explain.life import explain
from analysis.explain.subject import subject_of_value
from ebbtide.record.folder import RecordFolder
from ebbtide.record.manifest import FinalOffsets
from ebbtide.record.tables import TABLES
from ebbtide.record.verdict import write_verdict


def test_replicas_with_empty_logs_are_known_not_to_have_the_record(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.tables["sends"].append(
        {"topic": "t", "partition": 0, "value": 1, "offset": 1, "producer": 1, "sequence": 1, "acks": -1}
        | {"status": "acked", "error": None, "txn": None, "txn_outcome": None, "sent_ns": ns(4), "done_ns": ns(5)}
    )
    story.change(final_offsets={"t-0": FinalOffsets(log_start=0, high_watermark=0)})
    write_verdict(RecordFolder(story.record), story.judge())
    (tmp_path / "replicas.parquet").unlink(missing_ok=True)
    (tmp_path / "replicas").mkdir()
    for broker in (1, 2, 3):
        pq.write_table(TABLES["replicas"].empty_table(), tmp_path / "replicas" / f"broker-{broker}.parquet")
    record = as_record(tmp_path)
    places = explain(record, subject_of_value(record, 1)).places
    assert [place.text for place in places] == ["does not have it: its log is empty"] * 3
