"""Holds what the kinds of anomalies look at in one reconciliation, and the shape of what they give.

That is one row an item, whatever its kind. `kind`, `topic`, `partition`, `offset`, `value` and `details` (JSON) are the
columns of anomalies/. The judge groups items by the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from analysis.reconcile.history import leader_logs, suspicious_history
from analysis.rows.facts import Facts
from analysis.rows.question import RowType
from analysis.spark.sql import Column, DataFrame, F, SparkSession
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


RUN = {"run": "int"}
PUBLIC = {
    "kind": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "value": "bigint",
    "details": "string",
}
GROUPING = {
    "acks": "int",
    "committed": "boolean",
    "leader_epoch": "int",
    "at_ns": "bigint",
    "broker": "int",
    "also_lost": "boolean",
    "earlier": "struct<high_watermark:bigint,at_ns:bigint,leader_epoch:int>",
    "idempotent": "boolean",
    "twice_in_final_log": "boolean",
    "unreadable": "boolean",
    "group": "string",
    "settled": "boolean",
}
ITEM = RUN | PUBLIC | GROUPING


def item(
    kind: str,
    *,
    offset: Column | None = None,
    value: Column | None = None,
    details: dict[str, Column],
    **grouping: Column,
) -> Column:
    """Return a struct of type `ITEM` for the current row.

    The row's partition is in the columns `run`, `topic` and `partition`. A null detail is left out
    of the JSON.
    """
    columns = {
        "run": F.col("run"),
        "kind": F.lit(kind),
        "topic": F.col("topic"),
        "partition": F.col("partition"),
        "offset": offset,
        "value": value,
        "details": F.to_json(F.struct(*(column.alias(name) for name, column in details.items()))),
        **grouping,
    }
    fields = []
    for name, type_ in ITEM.items():
        column = columns.get(name)
        fields.append((column if column is not None else F.lit(None)).cast(type_).alias(name))
    return F.struct(*fields)


def items_of(
    rows: DataFrame,
    kind: str,
    details: Sequence[str] | Mapping[str, str | Column],
    *,
    offset: str | Column = "offset",
    value: str | Column | None = None,
    **grouping: str | Column,
) -> DataFrame:
    """Return an item for each of some rows, as `item` does. A text is the name of a column."""
    named = details if isinstance(details, Mapping) else dict(zip(details, details, strict=True))
    row = item(
        kind,
        offset=_column(offset),
        value=None if value is None else _column(value),
        details={name: _column(one) for name, one in named.items()},
        **{name: _column(one) for name, one in grouping.items()},
    )
    return rows.select(row.alias("item")).select("item.*")


def _column(one: str | Column) -> Column:
    return F.col(one) if isinstance(one, str) else one
