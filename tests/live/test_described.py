"""Brokers are seen to describe an ELR, where one stands for many sampling intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from live.in_process import run_and_judge

from harness.runner.launch import LaunchOptions

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.spark]


def test_an_elr_that_stands_for_a_second_is_described_as_the_metadata_log_has_it(
    spark_if_needed: Spark, tmp_path: Path
) -> None:
    options = LaunchOptions(runs=tmp_path / "runs", runtime="local")
    [(_, verdict)] = run_and_judge("api-agrees-with-log", "4.3.1", options=options, spark=spark_if_needed)
    assert verdict.outcome == "as-predicted", verdict.why
    (agrees,) = [one for one in verdict.properties if one.name == "api-agrees-with-log"]
    assert agrees.status == "holds", agrees.evidence
    assert verdict.coverage["described-elr"] > 0
    assert verdict.coverage["described-last-known-elr"] > 0
