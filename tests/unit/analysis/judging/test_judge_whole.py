"""A whole record through `ebbtide analyze`: tables in, verdict, report and anomalies out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from judge_records import Story, last_replica_standing, ns
from pyspark.sql import SparkSession

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import FinalOffsets
from ebbtide.record.verdict import read_verdict
from harness.cli.main import main

# PySpark leaves the sockets of its results to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed <socket:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

FINAL = 999


def send(value: int, *, offset: int, at_s: float = 5) -> dict[str, Any]:
    return {
        "topic": "t",
        "partition": 0,
        "value": value,
        "producer": 1,
        "sequence": value,
        "acks": -1,
        "status": "acked",
        "offset": offset,
        "sent_ns": ns(at_s - 1),
        "done_ns": ns(at_s),
    }


def poll(value: int, *, offset: int, consumer: int, at_s: float) -> dict[str, Any]:
    return {
        "topic": "t",
        "partition": 0,
        "offset": offset,
        "value": value,
        "consumer": consumer,
        "session": 1,
        "prev_offset": offset - 1 if offset else None,
        "isolation": "read_uncommitted",
        "polled_ns": ns(at_s),
    }


def told_whole(record: Path) -> Story:
    """Last replica standing with its sends and polls: values 0 to 19 lost, 100 to 104 sent after the loss."""
    story = last_replica_standing(record)
    story.keep_all()
    story.tables["sends"] = [send(value, offset=value) for value in range(20)]
    story.tables["sends"] += [send(100 + at, offset=at, at_s=40) for at in range(5)]
    story.tables["polls"] = [poll(100 + at, offset=at, consumer=FINAL, at_s=50) for at in range(5)]
    story.hw(9, 1, 0, 20)
    story.hw(25, 1, 2, 0)
    story.log(1, (2, 0, 4))
    for row in story.tables["replicas"]:
        row["value"] = 100 + row["offset"]
    story.change(final_consumer=FINAL, final_offsets={"t-0": FinalOffsets(log_start=0, high_watermark=5)})
    story.predict('loss = { committed = "some", cause = "last-replica-standing" }\nhw_regression = "some"')
    return story


@pytest.mark.spark
def test_a_record_is_judged_from_its_tables_alone(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "run"
    record.mkdir()
    told_whole(record).write()
    assert main(["analyze", "--json", str(record)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    verdict = json.loads(line)
    assert verdict == json.loads((record / "verdict.json").read_text())
    (loss,) = verdict["losses"]
    assert (loss["cause"], loss["count"], loss["first_offset"], loss["last_offset"]) == (
        "last-replica-standing",
        20,
        0,
        19,
    )
    assert loss["election"]["leader_epoch"] == 2
    (regression,) = verdict["regressions"]
    assert (regression["from"], regression["to"], regression["cause"]) == (20, 0, "last-replica-standing")
    # The values sent after the loss stand at offsets of lost ones.
    assert {one["kind"]: one["count"] for one in verdict["anomalies"]} == {
        "lost": 20,
        "hw-regression": 1,
        "inconsistent-offset": 5,
    }
    assert "guilty election, last-replica-standing" in (record / "report.html").read_text()
    assert list((record / "anomalies").glob("*.parquet"))


@pytest.mark.spark
def test_a_record_of_nothing_but_its_manifest_is_inconclusive(tmp_path: Path, spark: SparkSession) -> None:
    story = Story(tmp_path)
    story.steps = None
    story.write()
    assert main(["analyze", str(tmp_path)]) == 2
    verdict = read_verdict(RecordFolder(tmp_path))
    assert verdict is not None
    assert {one.status for one in verdict.properties} <= {"unknown", "not-exercised"}
    assert (tmp_path / "report.html").is_file()


def _spoil_sends(record: Path) -> Path:
    """A record whose sends are damaged behind a footer that says nothing of it."""
    story = told_whole(record)
    story.write()
    (path,) = RecordFolder(record).files("sends")
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(196)
    path.write_bytes(data)
    return record


def _split_polls(record: Path) -> None:
    table = pq.read_table(record / "polls.parquet")
    (record / "polls.parquet").unlink()
    (record / "polls").mkdir()
    for part, at in enumerate((0, 2)):
        pq.write_table(table.slice(at, 2 if at == 0 else None), record / "polls" / f"consumer-{part}.parquet")


@pytest.mark.spark
def test_records_judged_together_get_the_verdicts_that_they_get_singly(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also below a folder with blanks and a backslash, and where a table has several files."""
    runs = tmp_path / "a b\\c"
    folders = [runs / name for name in ("loses", "spoilt", "reads-all", "empty")]
    for folder in folders:
        folder.mkdir(parents=True)
    told_whole(folders[0]).write()
    _split_polls(folders[0])
    _spoil_sends(folders[1])
    whole = told_whole(folders[2])
    whole.tables["polls"] += [poll(value, offset=value, consumer=1, at_s=6) for value in range(20)]
    whole.change(run_id="run-2", final_consumer=1)
    whole.write()
    Story(folders[3]).write()

    def read_judgements() -> list[tuple[bytes, list[dict[str, Any]]]]:
        good = (folders[0], *folders[2:])
        rows = (pq.read_table(folder / "anomalies", partitioning=None).to_pylist() for folder in good)
        return [
            ((folder / "verdict.json").read_bytes(), sorted(items, key=str))
            for folder, items in zip(good, rows, strict=True)
        ]

    for folder in folders:
        main(["analyze", str(folder)])
    singly = read_judgements()
    for folder in folders:
        (folder / "verdict.json").unlink(missing_ok=True)
    capsys.readouterr()
    assert main(["analyze", str(runs)]) == 4
    assert [path.name for path in tmp_path.iterdir()] == [runs.name]
    said = capsys.readouterr().err
    assert "a table's file is damaged" in said
    assert str(folders[1]) in said
    assert not (folders[1] / "verdict.json").exists()
    assert read_judgements() == singly
    assert len({verdict for verdict, _ in singly}) == 3
