"""What several jobs read is kept, and costs the plans that are built on it nothing."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from analysis.items.on_spark import FrameKeeper

pytestmark = pytest.mark.spark


def test_a_kept_frame_is_a_leaf_of_the_plans_that_are_built_on_it(spark: SparkSession) -> None:
    frame = spark.range(3).where("id > 0")
    with FrameKeeper(spark) as kept:
        leaf = kept.keep(frame)
        plan = leaf._jdf.queryExecution().logical()
        assert (plan.nodeName(), plan.children().isEmpty()) == ("InMemoryRelation", True)
        assert [row["id"] for row in leaf.where("id > 1").collect()] == [2]
        assert frame.is_cached
    assert not frame.is_cached
