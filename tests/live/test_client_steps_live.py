"""Clients of real Kafka that steps take down: what is counted, and whose group passes over records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from live.in_process import run_and_judge

from harness.runner.launch import LaunchOptions

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.spark]

HASTY = Path(__file__).with_name("hasty.toml")


def test_a_group_that_commits_before_it_handles_passes_over_what_a_kill_leaves_and_others_pass_over_nothing(
    spark_if_needed: Spark, tmp_path: Path
) -> None:
    options = LaunchOptions(runs=tmp_path / "runs", runtime="local")
    [(record, verdict)] = run_and_judge(HASTY, "4.3.1", options=options, spark=spark_if_needed)
    assert verdict.outcome == "contradicted", verdict.why
    (passed,) = verdict.anomalies
    assert passed.kind == "passed-over"
    assert {one["group"] for one in passed.examples} == {"hasty"}
    coverage = verdict.coverage
    assert (coverage["clients-killed"], coverage["clients-stopped"], coverage["clients-started"]) == (3, 1, 4)
    assert coverage["records-got-again"] > 0
    sends = pq.read_table(record / "sends")
    assert len(set(sends["value"].to_pylist())) == len(sends) >= 2000
