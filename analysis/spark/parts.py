"""Puts frames together and places rows, so that few rows stay in one part.

Rows in one part need no shuffle for a group, a window or a join. So a plan without shuffles has
fewer operators to plan, and its job has fewer tasks. The setting of the shuffle partitions says
whether all rows are in one part. `session.plans_for` makes it, and `tables.StagedTables.frame` follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from analysis.spark.sql import DataFrame, SparkSession

_PARTITIONS = "spark.sql.shuffle.partitions"


def parts(spark: SparkSession) -> int:
    """Return how many parts a shuffle makes."""
    return int(spark.conf.get(_PARTITIONS) or 1)


def settings_for(parts: int) -> dict[str, str]:
    """Return the setting that makes shuffles have so many parts."""
    return {_PARTITIONS: str(parts)}


def in_one_part(rows: DataFrame) -> DataFrame:
    """Return the same rows; they are in one part where a shuffle would put all into one."""
    return rows.coalesce(1) if parts(rows.sparkSession) == 1 else rows


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames, whose columns are the same in the same order."""
    return in_one_part(reduce(lambda one, other: one.union(other), frames))


def placed_by(rows: DataFrame, *columns: str) -> DataFrame:
    """Return the same rows, those with equal `columns` in the same part."""
    return in_one_part(rows) if parts(rows.sparkSession) == 1 else rows.repartition(*columns)
