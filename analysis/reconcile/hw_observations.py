"""Finds the partitions in which a HW that a leader served may have gone back."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.rows.facts import Facts
from analysis.spark.columns import runs_where
from analysis.spark.parts import placed_by
from analysis.spark.sql import DataFrame, F, Window
from analysis.spark.tables import RecordTables

SOURCE = "list_offsets"
WHERE = ("run", "topic", "partition")


def why_no_hw_is_judged(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    lacking = facts.missing_or_empty("watermarks")
    if lacking is not None:
        return lacking
    served = [one for one in facts.served if one.source == SOURCE]
    if not served:
        return "no leader was asked for its HW (watermarks of source list_offsets)"
    judged = [one for one in served if one.leader_epoch is not None]
    if not judged:
        return "the HWs that leaders served have no leader epoch"
    if not any(one.asked for one in judged):
        return "it is not known when the leaders were asked for their HW (asked_ns)"
    if facts.clock_went_back:
        return (
            "the clock was set back while leaders were asked for their HW, so the order of their answers is not known"
        )
    return None


def suspicious_observations(tables: RecordTables, runs: Sequence[Facts]) -> DataFrame | None:
    """Return the partitions in which any HW is below an earlier one, seldom any.

    Epochs do not matter here. Only such observations (`suspect`) can be items, and only those need
    to look. None if nothing can be judged.
    """
    if tables.watermarks is None or all(why_no_hw_is_judged(facts) for facts in runs):
        return None
    judged = runs_where(runs, lambda facts: why_no_hw_is_judged(facts) is None)
    observed = tables.watermarks.where((F.col("source") == SOURCE) & F.col("leader_epoch").isNotNull() & judged)
    by_time = Window.partitionBy(*WHERE).orderBy("at_ns").rowsBetween(Window.unboundedPreceding, -1)
    suspect = F.coalesce(F.max("high_watermark").over(by_time) > F.col("high_watermark"), F.lit(False))
    partition = Window.partitionBy(*WHERE)
    return (
        placed_by(observed, *WHERE)
        .withColumn("suspect", suspect & F.col("asked_ns").isNotNull())
        .withColumn("suspects", F.max("suspect").over(partition))
        .where("suspects")
    )
