"""Holds what the kinds of anomalies look at, in one reconciliation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from analysis.reconcile.history import leader_logs, suspicious_history
from analysis.rows.facts import Facts
from analysis.spark.sql import DataFrame, SparkSession
from analysis.spark.tables import RecordTables


@dataclass(frozen=True, kw_only=True)
class Work:
    """The rows and facts of some runs; None: there are no such rows.

    `tables` has the rows that may be in an anomaly. `partitions` is `columns.partition_facts`, `readable` is
    `final_log_rows.readable_blocks`, `sessions` is `final_log_rows.session_ranges`, and `inverted` has the columns
    `order.INVERSIONS` of the package rows, and `passed` those of `positions.PASSED`.
    """

    spark: SparkSession
    runs: Sequence[Facts]
    tables: RecordTables
    partitions: DataFrame
    readable: DataFrame | None = None
    sessions: DataFrame | None = None
    inverted: DataFrame | None = None
    passed: DataFrame | None = None

    @cached_property
    def leaders(self) -> DataFrame | None:
        """The log of each partition's last leader after the run."""
        return leader_logs(self.spark, self.tables, self.runs)

    @cached_property
    def history(self) -> DataFrame | None:
        """The rows that may be part of an anomaly, each with what is known of its value and its offset."""
        return suspicious_history(self.tables, self.leaders, self.runs, self.partitions)
