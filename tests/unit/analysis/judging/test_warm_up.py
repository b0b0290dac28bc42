"""What a judging process does before its first record comes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TextIO

import pytest
from pyspark.sql import SparkSession

from analysis.judging import warm_up
from analysis.spark.session import Jvm
from harness.cli import analyze_stdin
from harness.cli.judging import JudgingSession


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
    monkeypatch.setattr(JudgingSession, "spark_for", lambda self, records: None)
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
    with JudgingSession.keep() as kept:
        analyze_stdin._start_early(kept)
        assert stages == ["reading", "summing up"]
        analyze_stdin._start_early(kept)
    assert stages == ["reading", "summing up"], "it begins none while a record waits"
