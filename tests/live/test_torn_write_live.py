"""A real broker that starts on a torn log cuts it where the proof of the step says that the log is whole."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from live.torn_log import check_torn_log_is_cut
from rich.console import Console

from ebbtide.record.files import RecordFolder
from ebbtide.record.steps import read_steps
from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import parse
from harness.runner.display import PlainDisplay
from harness.runner.run import RunRequest, run_scenario

pytestmark = [pytest.mark.live, pytest.mark.slow]


def test_a_broker_of_3_9_cuts_its_torn_log_where_it_is_whole(tmp_path: Path) -> None:
    """Of 4.3 it is test_faults_live.py that shows it."""
    scenario, told = parse(catalogue.text_of("torn-write"), file="torn-write"), io.StringIO()
    request = RunRequest(scenario=scenario, kafka="3.9.1", seed=1, runs=tmp_path / "runs")
    record = run_scenario(request, PlainDisplay(Console(file=told, width=200)))
    steps = read_steps(RecordFolder(record)) or []
    assert {step.step: step.why for step in steps if step.effect_ns is None} == {}, told.getvalue()
    (torn,) = (step for step in steps if step.step == "torn-write")
    check_torn_log_is_cut(record, torn)
