"""Gives anomalies their common shape: one row an item, whatever its kind.

`kind`, `topic`, `partition`, `offset`, `value` and `details` (JSON) are the columns of anomalies/.
The judge groups items by the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.spark.sql import Column, DataFrame, F

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
