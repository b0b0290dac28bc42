"""Holds what the kinds of anomalies look at, in one reconciliation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from analysis.reconcile.history import leader_logs, suspicious_history
from analysis.rows.facts import Facts
from analysis.rows.question import RowType
from analysis.spark.sql import DataFrame, SparkSession
from analysis.spark.tables import RecordTables, StagedTables


@dataclass(frozen=True, kw_only=True)
class Work:
    """The rows and facts of some runs; None: there are no such rows.

    - `tables`: the rows of the record's tables that may be in an anomaly.
    - `partitions`: `columns.partition_facts`.
    - `made`: for each run, the rows that NumPy made, by the name of their type.
    - `keep`: keeps a frame that several plans read.
    """

    spark: SparkSession
    runs: Sequence[Facts]
    tables: RecordTables
    partitions: DataFrame
    made: Sequence[Mapping[str, pa.Table]]
    staged: StagedTables
    keep: Callable[[DataFrame], DataFrame]
    _frames: dict[object, DataFrame | None] = field(default_factory=dict)

    def rows(self, of: RowType) -> DataFrame | None:
        """Return the rows of one type; None if no run has been asked for them."""
        some = [tables[of.name] for tables in self.made if of.name in tables]
        if of.name not in self._frames:
            for one in some:
                self.staged.add(of.name, one)
            self._frames[of.name] = self.staged.frame(of.name, of.schema) if some else None
        return self._frames[of.name]

    def shared(self, make: Callable[[Work], DataFrame | None]) -> DataFrame | None:
        """Return what `make` makes of this; it is made once."""
        if make not in self._frames:
            self._frames[make] = make(self)
        return self._frames[make]

    @cached_property
    def leaders(self) -> DataFrame | None:
        """The log of each partition's last leader after the run."""
        return leader_logs(self.spark, self.tables, self.runs)

    @cached_property
    def history(self) -> DataFrame | None:
        """The rows that may be part of an anomaly, each with what is known of its value and its offset."""
        return suspicious_history(self.tables, self.leaders, self.runs, self.partitions)
