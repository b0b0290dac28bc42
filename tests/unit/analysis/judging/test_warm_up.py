"""What a judging process does before its first record comes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO, cast

import pytest
from pyspark.sql import SparkSession

from analysis.judging import warm_up
from analysis.spark.java_start import JavaStart
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


def running_jvm(*, is_first: bool = True, has_common_classes: bool = False) -> Jvm:
    """A session of this process without a Java process."""
    jvm = Jvm.__new__(Jvm)
    archive = SimpleNamespace(part=Path("classes.jsa") if is_first else None)
    jvm._start = cast("JavaStart", SimpleNamespace(archive=archive))
    jvm.has_common_classes = has_common_classes
    return jvm


@pytest.mark.parametrize(
    ("running", "judged"),
    [
        (running_jvm(), 1),
        (running_jvm(has_common_classes=True), 0),
        (running_jvm(is_first=False), 0),
    ],
    ids=["first", "first and complete", "with an archive"],
)
def test_only_a_first_session_without_the_common_classes_loads_them_before_it_ends(
    monkeypatch: pytest.MonkeyPatch, running: Jvm, judged: int
) -> None:
    monkeypatch.setattr(Jvm, "running", running)
    done: list[str] = []
    monkeypatch.setattr(warm_up, "judge", lambda record, *_: done.append(record.path.name))
    for _ in range(2):
        warm_up.load_common_classes_if_first(cast("SparkSession", None))
    assert done == ["warm-up"] * judged
    assert not running.lacks_common_classes


def test_a_made_record_that_cannot_be_judged_ends_no_first_session(monkeypatch: pytest.MonkeyPatch) -> None:
    running = running_jvm()
    monkeypatch.setattr(Jvm, "running", running)

    def fail(*_: object) -> None:
        raise ConnectionRefusedError("the Java process ended")

    monkeypatch.setattr(warm_up, "judge", fail)
    warm_up.load_common_classes_if_first(cast("SparkSession", None))
    assert running.lacks_common_classes


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


@pytest.mark.usefixtures("asked")
def test_a_warm_up_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ConnectionRefusedError("the Java process ended")

    monkeypatch.setattr(warm_up, "warm_up", fail)
    with JudgingSession.keep() as kept:
        analyze_stdin._start_early(kept)
