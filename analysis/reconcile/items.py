"""Gives anomalies their common shape: one row an item, whatever its kind.

`kind`, `topic`, `partition`, `offset`, `value` and `details` (JSON) are the columns of anomalies/.
The judge groups items by the rest.
"""

from __future__ import annotations

from analysis.spark.sql import Column, F

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
