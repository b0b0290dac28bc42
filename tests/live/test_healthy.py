"""The control: full producer speed, no fault, and nothing may be found on any release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from live.in_process import run_and_judge

from harness.runner.launch import LaunchOptions

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.spark]


@pytest.mark.parametrize("kafka", ["3.4.1", "3.9.1", "4.3.1"])
def test_nothing_is_found_where_nothing_was_broken(kafka: str, spark_if_needed: Spark, tmp_path: Path) -> None:
    options = LaunchOptions(runs=tmp_path / "runs", runtime="local")
    [(_, verdict)] = run_and_judge("healthy", kafka, options=options, spark=spark_if_needed)
    assert verdict.outcome == "as-predicted", verdict.why
    assert verdict.counts.acked >= 100_000
    assert verdict.anomalies == []
    assert not [one for one in verdict.properties if one.status == "violated"]
