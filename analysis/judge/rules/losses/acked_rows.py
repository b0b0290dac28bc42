"""Says which acked rows of the history are lost."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.rows.facts import Facts
from analysis.spark.columns import deletions_by_run, runs_where, was_deleted
from analysis.spark.sql import Column, F


def why_no_loss_is_judged(facts: Facts) -> str | None:
    """Return why not even a part could be judged."""
    lacking = facts.missing_or_empty("sends") or ("polls is missing" if "polls" in facts.missing else None)
    if lacking is not None:
        return lacking
    if facts.final_consumer is None:
        return "there was no final read"
    if not facts.complete:
        return "the run is not complete"
    return None


def is_lost(runs: Sequence[Facts]) -> Column:
    """Return whether a row of the history is an item; null is no."""
    return (
        F.col("acked")
        & F.col("final_read")
        & (F.col("offset") >= F.col("log_start"))
        & ~F.col("in_final_log_of_partition")
        & ~F.col("damaged")
        & ~F.col("compacted")
        & ~was_deleted(deletions_by_run(runs))
        & runs_where(runs, lambda facts: why_no_loss_is_judged(facts) is None)
        & (~F.col("in_transaction") | F.coalesce("in_committed", F.lit(False)))
    )
