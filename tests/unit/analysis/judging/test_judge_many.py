"""What one record of many brings out stops no other, and what a judging process does before its first record."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest
from pyspark.sql import SparkSession
from real_records import unpack_record
from records import as_record

from analysis import items
from analysis.items import on_spark
from analysis.items.summary import AnomalySummary
from analysis.judging import many_records as many
from analysis.judging import warm_up
from analysis.record.record import Record
from analysis.report import html
from analysis.rows.summing import SummedRun
from analysis.spark.session import Jvm
from ebbtide.errors import ExitCode, UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.sums import write_sums
from ebbtide.record.verdict import Counts, Verdict
from harness.cli import analyze_stdin, crash
from harness.cli.analyze_stdin import JudgingSession

VERDICT = Verdict(run_id="r", outcome="inconclusive", why=[], counts=Counts(sends=0, acked=0, polls=0))


@pytest.mark.parametrize("broken", ["prepare_record", "conclude"])
def test_a_bug_that_one_record_brings_out_stops_no_other(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def finish(what: str, record: Path, result: object) -> object:
        if what == broken and record.name == "bad":
            raise KeyError("a column")
        return result

    records = [tmp_path / name for name in ("good", "bad", "better")]
    monkeypatch.setattr(
        many, "prepare_record", lambda folder: finish("prepare_record", folder.path, as_record(folder.path))
    )
    monkeypatch.setattr(many, "conclude", lambda record, *_, **__: finish("conclude", record.folder.path, VERDICT))
    monkeypatch.setattr(html, "write_report", lambda *_, **__: None)
    monkeypatch.setattr(items, "check_record", lambda _: None)
    monkeypatch.setattr(many, "_reconcile", lambda runs, *_: {run.folder.path: None for run in runs})
    monkeypatch.setattr(crash, "state_dir", lambda: tmp_path / "state")
    (_, good), (_, bad), (_, better) = many.judge_many(records, None)  # type: ignore[arg-type]
    assert good is better is VERDICT
    assert isinstance(bad, many.Bug)
    assert crash.print_error(str(records[1]), bad) == ExitCode.HARNESS_FAILED
    told = capsys.readouterr().err
    assert str(records[1]) in told
    (traceback,) = (tmp_path / "state" / "crashes").iterdir()
    assert str(traceback) in told
    assert "KeyError: 'a column'" in traceback.read_text()


def test_a_record_with_rows_that_cannot_be_read_runs_no_job_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[list[str]] = []

    def find_items(_: object, asked: list[SummedRun], runs: list[Record], __: object) -> list[AnomalySummary]:
        assert [one.facts.run for one in asked] == [*range(len(runs))]
        jobs.append([run.folder.path.name for run in runs])
        return [AnomalySummary() for _ in runs]

    records = []
    for name in ("good", "bad", "better"):
        record = unpack_record("unclean-election-4.4.0", tmp_path / name)
        records.append(record.rename(tmp_path / name / name))
        write_sums(RecordFolder(records[-1]))
    path = records[1] / "polls" / "consumer-1.parquet"
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    monkeypatch.setattr(on_spark, "find_items", find_items)
    monkeypatch.setattr(many, "conclude", lambda *_, **__: VERDICT)
    monkeypatch.setattr(html, "write_report", lambda *_, **__: None)
    found = dict(many.judge_many(records, None))  # type: ignore[arg-type]
    assert jobs == [["good", "better"]]
    assert isinstance(found[records[1]], UsageError)
    assert found[records[0]] is found[records[2]] is VERDICT


# What a judging process does before its first record comes.


@pytest.mark.spark
def test_the_made_record_loses_acknowledged_records_so_that_the_common_plans_run(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Jvm.running is not None
    monkeypatch.setattr(Jvm.running, "has_common_classes", False)
    verdict = warm_up.warm_up(spark)
    assert {one.kind: one.count for one in verdict.anomalies} == {"hw-regression": 1, "lost": 5, "vanished": 5}
    assert Jvm.running.has_common_classes


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    """The end of the pipe into which who asks writes; the process has no Spark."""
    ours, theirs = os.pipe()
    monkeypatch.setattr(JudgingSession, "started", lambda self: None)
    with os.fdopen(ours) as reads, os.fdopen(theirs, "w") as writes:
        monkeypatch.setattr("sys.stdin", reads)
        yield writes


def test_a_warm_up_ends_with_its_stage_when_a_record_comes(asked: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[str] = []

    def go_through_stages(_spark: SparkSession, stage: Callable[[str], None]) -> None:
        for doing in ("reading", "summing up", "judging"):
            stage(doing)
            stages.append(doing)
            if doing == "summing up":
                asked.write("runs/one\n")
                asked.flush()

    monkeypatch.setattr(warm_up, "warm_up", go_through_stages)
    analyze_stdin._start_early(JudgingSession())
    assert stages == ["reading", "summing up"]
    analyze_stdin._start_early(JudgingSession())
    assert stages == ["reading", "summing up"], "it begins none while a record waits"
