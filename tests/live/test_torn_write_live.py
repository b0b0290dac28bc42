"""A real broker that starts on a torn log cuts it where the proof of the step says that the log is whole."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from rich.console import Console

from ebbtide.record.folder import RecordFolder
from ebbtide.record.steps import read_steps
from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import parse
from harness.runner.display import PlainDisplay
from harness.runner.run import RunRequest, run_scenario

pytestmark = pytest.mark.live


@pytest.mark.parametrize("kafka", [pytest.param("3.9.1", marks=pytest.mark.slow), "4.3.1"])
def test_a_broker_cuts_its_torn_log_where_it_is_whole(kafka: str, tmp_path: Path) -> None:
    scenario, told = parse(catalogue.text_of("torn-write"), file="torn-write"), io.StringIO()
    request = RunRequest(scenario=scenario, kafka=kafka, seed=1, runs=tmp_path / "runs")
    record = run_scenario(request, PlainDisplay(Console(file=told, width=200)))
    steps = read_steps(RecordFolder(record)) or []
    assert {step.step: step.why for step in steps if step.effect_ns is None} == {}, told.getvalue()
    (torn,) = (step for step in steps if step.step == "torn-write")
    assert torn.proof["torn"]["t-0"]["damage"] is not None
    whole = torn.proof["logs"]["t-0"]["leo_after"]
    with gzip.open(record / "logs" / f"broker-{torn.nodes[0]}.log.gz", "rt") as log:
        cuts = [line for line in log if "partition=t-0" in line and "Corruption found" in line]
    assert [line.rstrip().endswith(f"truncating to offset {whole}") for line in cuts] == [True]
