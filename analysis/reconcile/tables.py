"""A run record's tables as DataFrames of the record format's columns and types."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analysis.reconcile.files import TableFile, check_files
from harness.record.tables import TABLES

# Spark's own switch: paths are names, not patterns, and may hold colons and brackets.
_AS_NAMES = {"__globPaths__": "false"}
_SPARK_TYPES = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}


class RecordTables(msgspec.Struct, frozen=True, kw_only=True):
    """One DataFrame a table, None when the table is missing; `rows` counts each table's rows."""

    sends: DataFrame | None
    polls: DataFrame | None
    watermarks: DataFrame | None
    partitions: DataFrame | None
    brokers: DataFrame | None
    configs: DataFrame | None
    replicas: DataFrame | None
    rows: dict[str, int]


def load(spark: SparkSession, record: Path) -> RecordTables:
    """The tables of a record; reads footers only.

    A missing nullable column reads as null, an unknown one is ignored. Raises `Problems` (a `UsageError`) that
    names every damaged file, missing column and column of another type.
    """
    files = check_files(record)
    return RecordTables(
        **{table: _read(spark, table, files[table]) for table in TABLES},
        rows={table: sum(file.rows for file in files[table]) for table in TABLES},
    )


def spark_type(kind: pa.DataType) -> str:
    """The Spark name of a column type of the record format."""
    if pt.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    return _SPARK_TYPES.get(str(kind), str(kind))


def _read(spark: SparkSession, table: str, files: list[TableFile]) -> DataFrame | None:
    if not files:
        return None
    wanted = {field.name: spark_type(field.type) for field in TABLES[table]}
    shapes: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for file in files:
        if file.rows:
            shapes.setdefault(tuple(file.columns.items()), []).append(str(file.path.absolute()))
    if not shapes:
        return spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in wanted.items()))
    read: DataFrame | None = None
    for columns, paths in shapes.items():
        has = dict(columns)
        schema = ", ".join(f"{name} {kind}" for name, kind in columns)
        part = spark.read.options(**_AS_NAMES).schema(schema).parquet(*paths)
        part = part.select(
            *((F.col(name) if name in has else F.lit(None)).cast(kind).alias(name) for name, kind in wanted.items())
        )
        read = part if read is None else read.unionByName(part)
    return read
