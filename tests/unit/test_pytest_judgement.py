"""Whether a judged run lets its test pass: what the plugin makes of a verdict and its scenario's prediction."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest
import tomli_w
from fake_runner import ENDS, LOST, write_record

from analysis.verdict import AnomalyCount
from ebbtide_pytest.judgement import complaint
from harness.scenario import catalogue


@pytest.mark.parametrize(
    ("prediction", "also"),
    [
        ('never = ["elections", "kills"]', "elections"),
        ('anomalies = "none"', "poll-skip"),
        ("elected_from_elr = false", "elections-from-elr"),
        ('loss = { uncommitted = "none" }', "uncommitted-at-failover"),
    ],
)
def test_an_expected_violation_excuses_nothing_else_that_the_prediction_rules_out(
    tmp_path: Path, prediction: str, also: str
) -> None:
    uncommitted = msgspec.structs.replace(LOST, committed=False, cause="uncommitted-at-failover")
    verdict = msgspec.structs.replace(
        ENDS["loses"],
        losses=[LOST, uncommitted],
        anomalies=[AnomalyCount(kind=kind, topic="t", partition=0, count=12) for kind in ("lost", "poll-skip")],
        coverage={"elections": 2, "elections-from-elr": 1, "kills": 0},
    )
    run = write_record(tmp_path / "run", "4.3.1", 7, verdict)
    expected = ["last-replica-standing"]
    assert complaint(run, expected) is None
    scenario = tomllib.loads(catalogue.text_of("healthy")) | {
        "predictions": [{"kafka": ">=3.3", "clause": "a clause", **tomllib.loads(prediction)}]
    }
    (run.path / "scenario.toml").write_text(tomli_w.dumps(scenario))
    heading = f"contradicted: expected last-replica-standing only, and there also was {also}"
    assert str(complaint(run, expected)).splitlines()[0] == heading
    assert complaint(run, [*expected, also]) is None
