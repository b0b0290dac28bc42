"""What a record may hold: files and folders in their places. It is checked before anything else of it is read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from checkout import DATA

from ebbtide.errors import UsageError
from ebbtide.journal.convert import convert_journals
from ebbtide.journal.file import JournalHeader, JournalWriter, frame
from ebbtide.journal.frames import HANDED, POLLED
from ebbtide.record.contents import check_contents
from ebbtide.record.files import JOURNAL_DIR, RecordFolder
from ebbtide.record.manifest import MANIFEST, Manifest, read_manifest

RECORD = DATA / "runs" / "last-replica-standing-3.9.1"


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORD, tmp_path / "run"))


def put_pipe(record: Path, name: str) -> None:
    (record / name).parent.mkdir(exist_ok=True)
    (record / name).unlink(missing_ok=True)
    os.mkfifo(record / name)


def put_folder(record: Path, name: str) -> None:
    (record / name).unlink(missing_ok=True)
    (record / name).mkdir()


def put_file(record: Path, name: str) -> None:
    shutil.rmtree(record / name, ignore_errors=True)
    (record / name).write_text("")


def link_outside(record: Path, name: str) -> None:
    outside = record.parent / "outside"
    outside.write_text("secret")
    (record / name).parent.mkdir(exist_ok=True)
    (record / name).unlink(missing_ok=True)
    (record / name).symlink_to(outside)


@pytest.mark.parametrize(
    ("spoil", "name", "told"),
    [
        (put_pipe, "sends/x.parquet", "neither a file nor a folder"),
        (put_pipe, "logs/broker-1.log", "neither a file nor a folder"),
        (put_pipe, "steps.jsonl", "neither a file nor a folder"),
        (put_folder, "verdict.json", "verdict.json of the record is a folder"),
        (put_folder, "manifest.json", "manifest.json of the record is a folder"),
        (put_file, "raw", "raw of the record is not a folder"),
        (put_file, "anomalies", "anomalies of the record is not a folder"),
        (link_outside, "report.html", "leads out of it"),
        (link_outside, "witness/problem.txt", "leads out of it"),
        (link_outside, "scenario.toml", "leads out of it"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_what_no_run_leaves_is_one_error_that_names_it(
    record: Path, spoil: Callable[[Path, str], None], name: str, told: str
) -> None:
    read_manifest(RecordFolder(record))
    spoil(record, name)
    with pytest.raises(UsageError, match=told) as refused:
        read_manifest(RecordFolder(record))
    assert refused.value.where == str(record / name)
    assert refused.value.next is not None
    assert "secret" not in str(refused.value)


def test_a_link_within_the_record_and_a_link_to_nothing_are_no_error(record: Path) -> None:
    (record / "steps.jsonl").rename(record / "real.jsonl")
    (record / "steps.jsonl").symlink_to("real.jsonl")
    (record / "logs-of-before").symlink_to("gone")
    assert read_manifest(RecordFolder(record)).run_id


def test_the_folder_of_a_cluster_that_is_up_is_not_looked_into(record: Path) -> None:
    put_pipe(record, "cluster/broker-1.gate")
    assert read_manifest(RecordFolder(record)).run_id


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"start_ns": 2**64}, "start_ns"),
        ({"end_ns": -1}, "end_ns"),
        ({"topology": {"controllers": [100], "brokers": [-1]}}, "topology.brokers"),
        ({"topology": {"controllers": [2**31], "brokers": [1]}}, "topology.controllers"),
        ({"topics": {"t": {"partitions": -1, "replication_factor": 3, "min_isr": 2}}}, "topics"),
        ({"torn_journal_bytes": -1}, "torn_journal_bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_number_that_no_manifest_has_is_refused_with_its_place(
    record: Path, change: dict[str, object], place: str
) -> None:
    manifest = json.loads((record / MANIFEST).read_text())
    (record / MANIFEST).write_text(json.dumps(manifest | change))
    with pytest.raises(UsageError) as refused:
        read_manifest(RecordFolder(record))
    assert place in str(refused.value.got)


@pytest.mark.parametrize(
    "bad", [frame(HANDED, b""), frame(POLLED, b"x" * 40), frame(HANDED, b"\xff" * 25)], ids=["empty", "short", "odd"]
)
def test_a_journal_with_a_frame_that_is_none_is_one_error_and_stays(tmp_path: Path, bad: bytes) -> None:
    (tmp_path / JOURNAL_DIR).mkdir()
    table = "polls" if bad[8] == POLLED else "sends"
    journal = JournalWriter(tmp_path / JOURNAL_DIR / "x-1.journal", JournalHeader(table=table, topics=("t",), acks=-1))
    journal.write([bad])
    journal.close()
    with pytest.raises(UsageError, match="a journal of the record is damaged") as refused:
        convert_journals(RecordFolder(tmp_path))
    assert refused.value.where == str(journal.path)
    assert journal.path.is_file()


def test_a_journal_whose_header_is_none_is_one_error(tmp_path: Path) -> None:
    (tmp_path / JOURNAL_DIR).mkdir()
    journal = tmp_path / JOURNAL_DIR / "producer-1.journal"
    journal.write_bytes(b"EBBJRNL1" + frame(0, b'{"table": 1}'))
    with pytest.raises(UsageError, match="a journal of the record is damaged"):
        convert_journals(RecordFolder(tmp_path))


def test_folders_that_nest_without_end_are_refused_with_one_error(tmp_path: Path) -> None:
    at = tmp_path / "run" / "raw"
    for _ in range(25):
        at = at / "d"
    at.mkdir(parents=True)
    with pytest.raises(UsageError, match="nest too deep"):
        check_contents(RecordFolder(tmp_path / "run"))


def test_an_old_record_says_why_its_run_is_incomplete_without_the_advice() -> None:
    error = UsageError("no such setting", where="topics.t.config", allowed="a topic setting", next="correct it")
    manifest = Manifest(run_id="old", status="failed", failure=str(error))
    assert manifest.why_incomplete == "no such setting where: topics.t.config"
    assert Manifest(run_id="new", failure_clause="no such setting (a.b)", failure=str(error)).why_incomplete == (
        "no such setting (a.b)"
    )
    assert Manifest(run_id="whole").why_incomplete is None


def test_a_long_reason_keeps_its_beginning_and_its_end() -> None:
    log = "broker-1 died by itself (" + "a line of its log " * 100 + "FATAL: why)"
    reason = Manifest(run_id="long", failure_clause=log).why_incomplete or ""
    assert reason.startswith("broker-1 died by itself (a line")
    assert reason.endswith(f"FATAL: why) ({len(log):,} characters)")
    assert len(reason) < 700
