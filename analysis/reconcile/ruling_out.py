"""Rules out kinds of anomalies for small records, before the plans of these kinds are made.

Most records have no anomaly, and in a small record planning takes far longer than reading. So one
job first asks the questions below, and a kind is planned only where an answer leaves it possible.
The answers come from the comparisons that leave out rows of large records (the module narrowing),
and are sound for the same reasons.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analysis.reconcile import hw_regression, replica_divergence
from analysis.reconcile.facts import Facts
from analysis.reconcile.narrowing import suspect_values
from analysis.reconcile.parts import union
from analysis.reconcile.tables import RecordTables

VALUES = "values"
"""Is there a block whose sources differ, or a value that stands twice or never should have been read?

Else no value was lost, vanished, was duplicated, was replaced or was read although it was aborted.
"""
UNSEEN = "unseen"
"""Is there an offset of the final read that an ordinary consumer may have passed over?"""
ORDER = "order"
"""Is there an acked value whose offset is below that of the value before? Else none is out of order."""
REPLICAS = "replicas"
"""Is there a block in which the replicas' committed rows differ? Else no record of theirs does."""
HIGH_WATERMARKS = "high watermarks"
"""Is there a HW below an earlier one? Else none went back."""

EVERYTHING: Set[str] = frozenset((VALUES, UNSEEN, ORDER, REPLICAS, HIGH_WATERMARKS))


def possible_kinds(
    spark: SparkSession,
    tables: RecordTables,
    blocks: DataFrame | None,
    inverted: DataFrame | None,
    runs: Sequence[Facts],
) -> Set[str]:
    """Return the questions that have the answer yes for any of the runs.

    `blocks` is `blocks.compare_blocks`, `inverted` is `dirty_order.inversions`.
    """
    if blocks is None:
        return EVERYTHING
    of_block = F.array(F.when(~F.col("agree"), F.lit(VALUES)), F.when(F.col("passed_over"), F.lit(UNSEEN)))
    asked = [blocks.select(F.explode(F.array_compact(of_block)).alias("question"))]
    for question, rows in (
        (VALUES, suspect_values(tables, None)),
        (ORDER, inverted),
        (REPLICAS, replica_divergence.differing_blocks(spark, tables, runs)),
        (HIGH_WATERMARKS, hw_regression.suspicious_observations(tables, runs)),
    ):
        if rows is not None:
            asked.append(rows.select(F.lit(question).alias("question")))
    return frozenset(question for (question,) in union(asked).distinct().collect())
