"""The plan that runs beside the first record of a session works; in use, it would fail in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analysis.reconcile import first_use


@pytest.mark.spark
def test_the_plan_runs_in_a_session_of_its_own_and_keeps_nothing(spark: SparkSession, tmp_path: Path) -> None:
    kept = spark._jsparkSession.sharedState().cacheManager()
    assert kept.isEmpty()
    setting = "spark.sql.shuffle.partitions"
    before = spark.conf.get(setting)
    first_use._run(spark.newSession(), tmp_path / "rows.parquet", {setting: "7"})
    assert kept.isEmpty()
    assert spark.conf.get(setting) == before
