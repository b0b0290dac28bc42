"""A run that ended before anything was sent: no record can be explained, and the error of the run says why."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from judge_records import Story, healthy_story, last_replica_standing, ns
from records import as_record
from replay_records import RUNS

from analysis.explain.life import explain
from analysis.explain.subject import nothing_to_explain, subject_of_value
from ebbtide.errors import ExitCode, UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import FinalOffsets, failure_keys
from ebbtide.record.own_producers import OwnProducer
from ebbtide.record.sums import write_sums
from ebbtide.record.tables import TABLES
from ebbtide.record.verdict import Counts, read_judgement, unfinished_verdict, write_verdict
from harness.cli.main import main


def finish(story: Story) -> Path:
    """Judge the record."""
    write_verdict(RecordFolder(story.record), story.judge())
    return story.record


@pytest.fixture
def begun(tmp_path: Path) -> Story:
    """A run whose topic Kafka refused, so that nothing was sent."""
    story = Story(tmp_path)
    story.counts = Counts()
    error = UsageError("Kafka does not know flush.message", where="topics.t.config", next="correct it")
    story.change(status="failed", **failure_keys(error))
    return story


def test_a_run_that_ended_before_anything_was_sent_has_nothing_to_explain(
    begun: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    record = finish(begun)
    assert main(["explain", str(record)]) == 2
    assert capsys.readouterr().out.splitlines() == [
        f"{record}: there is nothing to explain: the run ended before anything was sent",
        "  the status of the run is failed: Kafka does not know flush.message (topics.t.config)",
        "next: correct it",
    ]
    assert main(["explain", str(record), "--json"]) == 2
    out, error = capsys.readouterr()
    assert out == "null\n"
    assert "next: correct it\n" in error
    for words in (["t-0:1"], ["--value", "1"]):
        assert main(["explain", str(record), *words]) == 4
        assert "error: there is nothing to explain" in capsys.readouterr().err
    write_verdict(RecordFolder(record), unfinished_verdict("run-1"))
    assert main(["explain", str(record)]) == 4
    assert "next:    correct it\n" in capsys.readouterr().err


@pytest.mark.parametrize("may_have", ["a row", "a journal", "all but its tables", "counts", "sums of lost tables"])
def test_a_run_that_may_have_sent_something_is_not_said_to_have_nothing(may_have: str, begun: Story) -> None:
    if may_have == "a row":
        row = {"topic": "t", "partition": 0, "offset": None, "value": 1, "producer": 1, "sequence": 1, "acks": -1}
        row |= {"status": "unknown", "error": None, "txn": None, "txn_outcome": None, "sent_ns": ns(4), "done_ns": None}
        begun.tables["sends"].append(row)
    if may_have == "all but its tables":
        begun.change(status="complete")
    if may_have == "counts":
        begun.counts = Counts(sends=3)
    record = finish(begun)
    if may_have == "sums of lost tables":
        (record / "SHA256SUMS").write_text(f"{'0' * 64}  sends/producer-1.parquet\n")
    if may_have == "a journal":
        (record / "journal").mkdir(exist_ok=True)
        (record / "journal" / "producer-1.journal").touch()
    assert nothing_to_explain(as_record(record), read_judgement(RecordFolder(record))) is None


# Replicas whose logs are empty: their tables are alike, and each is known to hold nothing.


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


def test_where_only_own_producers_lost_records_their_losses_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = healthy_story(tmp_path)
    lost = OwnProducer(client="orders-1", acks=1, topic="orders", partition=0, acked=600, lost=500, why="broker 2 led")
    verdict = msgspec.structs.replace(story.judge(), own_producers=[lost], why=[str(lost)])
    write_verdict(RecordFolder(story.record), verdict)
    assert main(["explain", str(story.record)]) == ExitCode.AS_PREDICTED
    out = capsys.readouterr().out
    assert "no acked record is lost" not in out
    assert str(lost) in out


def test_a_record_without_its_anomalies_is_judged_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = finish(last_replica_standing(tmp_path))
    for words in ([], ["t-0:1"]):
        assert main(["explain", str(record), *words]) == 4
        said = capsys.readouterr().err
        assert "verdict.json counts anomalies, and anomalies/ is missing" in said
        assert f"next:    ebbtide analyze {record}\n" in said


@pytest.mark.parametrize("gone", ["polls", "sends"])
def test_what_missing_rows_would_say_of_a_record_is_not_known(
    gone: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "record"
    shutil.copytree(RUNS / "last-replica-standing-4.3.1", record)
    write_sums(RecordFolder(record))
    assert main(["explain", str(record), "t-0:5"]) == 0
    assert "is safe" in capsys.readouterr().out
    for path in (record / gone).iterdir():
        path.unlink()
    code, said = main(["explain", str(record), "t-0:5"]), capsys.readouterr()
    if gone == "polls":
        assert code == 0
        assert "was acked, and is in no row that is left of the final read: whether" in said.out
        assert "polls/consumer-0.parquet is missing, but the run left it (SHA256SUMS)" in " ".join(said.out.split())
        assert "Some of its rows are missing, perhaps that of this record." in said.out
    else:
        assert code == 4
        assert "no row that is left says who sent this" in said.err
        assert f"next:    ebbtide analyze {record} " in said.err
