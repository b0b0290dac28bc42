"""Runs and judges scenarios in the process of the tests, in the Spark session that they share.

For tests that look at the record alone: a command would start a Spark session of its own for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from host_turn import HOST
from rich.console import Console

from analysis.judging.many_records import judge_many
from ebbtide.record.verdict import Verdict
from ebbtide.scenario import catalogue
from harness.runner.display import PlainDisplay
from harness.runner.launch import LaunchOptions, prepare
from harness.runner.run import run_scenario

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark


class JudgedRecord(NamedTuple):
    """The record of a run, and its verdict."""

    record: Path
    verdict: Verdict


def run(scenario: str | Path, *releases: str, options: LaunchOptions, console: Console | None = None) -> list[Path]:
    """Run a scenario of the catalogue or of a file on each release; returns the records."""
    HOST.take_back()
    found, display = catalogue.find(str(scenario)), PlainDisplay(console or Console(quiet=True))
    launch = prepare(options, releases, display.note)
    return [run_scenario(launch.request(found, release, seed=1), display) for release in releases]


def judge(records: Sequence[Path], spark: Spark) -> list[JudgedRecord]:
    """Judge records together; meanwhile other tests have the host."""
    HOST.lend()
    verdicts = []
    for record, verdict in judge_many(records, spark):
        assert isinstance(verdict, Verdict), verdict
        verdicts.append(JudgedRecord(record, verdict))
    return verdicts


def run_and_judge(
    scenario: str | Path, *releases: str, options: LaunchOptions, spark: Spark, console: Console | None = None
) -> list[JudgedRecord]:
    """Run a scenario on each release, and judge the records together. `console` gets the notes of the runs."""
    return judge(run(scenario, *releases, options=options, console=console), spark)
