"""What a judging process does before its first record comes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from pyspark.sql import SparkSession

from analysis.judging import warm_up
from harness.cli import analyze_stdin
from harness.cli.judging import JudgingSession


@pytest.mark.spark
def test_the_made_record_loses_acknowledged_records_so_that_the_common_plans_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    verdict = warm_up.warm_up(spark, tmp_path)
    assert {one.kind: one.count for one in verdict.anomalies} == {"hw-regression": 1, "lost": 5, "vanished": 5}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    """The end of the pipe into which who asks writes; the process has no Spark."""
    ours, theirs = os.pipe()
    monkeypatch.setattr(JudgingSession, "spark_for", lambda self, records: None)
    with os.fdopen(ours) as reads, os.fdopen(theirs, "w") as writes:
        monkeypatch.setattr("sys.stdin", reads)
        yield writes


def test_it_warms_up_only_while_no_record_waits(asked: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(warm_up, "warm_up", lambda spark, folder: done.append("warm-up"))
    with JudgingSession.keep() as kept:
        analyze_stdin._start_early(kept)
        asked.write("runs/one\n")
        asked.flush()
        analyze_stdin._start_early(kept)
    assert done == ["warm-up"]


@pytest.mark.usefixtures("asked")
def test_a_warm_up_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ConnectionRefusedError("the Java process ended")

    monkeypatch.setattr(warm_up, "warm_up", fail)
    with JudgingSession.keep() as kept:
        analyze_stdin._start_early(kept)
