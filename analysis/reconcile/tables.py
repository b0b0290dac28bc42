"""Reads run records' tables as DataFrames, those of several runs as one.

They have the columns and types of the record format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from analysis.reconcile.deletions import Deletion, deletions_of
from analysis.reconcile.files import TableFile, check_files
from analysis.reconcile.parts import in_one_part
from analysis.record.record import Record
from analysis.remote.record import RemoteRecord
from ebbtide.record.tables import TABLES
from ebbtide.untrusted.parquet import READ_ERRORS
from ebbtide.untrusted.values import lack_of_host

# Spark's own switch: paths are names, not patterns, and may hold colons and brackets.
_AS_NAMES = {"__globPaths__": "false"}
_SPARK_TYPES = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}
_RUN_OF_FILE = pa.schema([pa.field("path", pa.string()), pa.field("run", pa.int32())])


class RunFiles(msgspec.Struct, frozen=True, kw_only=True):
    """A run with checked files: its record, and its tables' files.

    `remote`: the record that the folder is a copy of; Spark reads that instead. `deletions`: the
    records that its steps deleted on purpose.
    """

    record: Record
    files: dict[str, list[TableFile]]
    remote: RemoteRecord | None = None
    deletions: tuple[Deletion, ...] = ()

    @property
    def rows(self) -> dict[str, int]:
        """Rows of each table."""
        return {table: sum(file.rows for file in self.files[table]) for table in TABLES}

    @property
    def missing(self) -> frozenset[str]:
        """The tables without a file."""
        return frozenset(table for table in TABLES if not self.files[table])

    def spark_name(self, file: TableFile) -> str:
        """Return a file as Spark needs it: a path of this host, or an address."""
        return str(file.path.absolute()) if self.remote is None else self.remote.address_of(file.path)


def run_files(record: Record, remote: RemoteRecord | None = None) -> RunFiles:
    """Return the files of a run, checked by their footers.

    Raises `Problems` (a `UsageError`) with all that is wrong with them.
    """
    files = check_files(record.folder, record.manifest)
    _ = record.gaps  # raises here, before rows are read
    return RunFiles(record=record, files=files, remote=remote, deletions=deletions_of(record, files["partitions"]))


def has_unreadable_rows(run: RunFiles) -> bool:
    """Return whether a file that differs from SHA256SUMS has unreadable rows.

    No other file is read.
    """
    changed = {one.what for one in run.record.gaps}
    files = [file.path for files in run.files.values() for file in files]
    return any(run.record.folder.name_of(path) in changed and not _can_read_rows(path) for path in files)


def _can_read_rows(path: Path) -> bool:
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                batch.validate(full=True)
    except READ_ERRORS as error:
        if lack := lack_of_host(error, "a table's file", path):
            raise lack from None
        return False
    return True


class RecordTables(msgspec.Struct, frozen=True, kw_only=True):
    """One DataFrame a table, None when no run has rows of it.

    Each has the columns of the record format and `run`, the index of the run. polls also has
    `final`, whether the row is of the final read, and `counts`, whether it puts its value at its
    offset (see the module narrowing). `untold`: see `TableFile`, by table.
    """

    sends: DataFrame | None
    polls: DataFrame | None
    watermarks: DataFrame | None
    partitions: DataFrame | None
    configs: DataFrame | None
    replicas: DataFrame | None
    commits: DataFrame | None = None
    copies: DataFrame | None = None
    untold: Mapping[str, frozenset[str]] = {}


_READ = ("sends", "polls", "watermarks", "partitions", "configs", "replicas", "commits", "copies")


def load(spark: SparkSession, runs: Sequence[RunFiles]) -> RecordTables:
    """Return the tables of some runs; nothing is read yet.

    A missing nullable column reads as null, an unknown column is ignored.
    """
    untold = {
        table: frozenset(column for run in runs for file in run.files[table] for column in file.untold)
        for table in _READ
    }
    return RecordTables(**{table: _read_table(spark, table, runs) for table in _READ}, untold=untold)


def spark_type(kind: pa.DataType) -> str:
    """Return the Spark name of a column type of the record format."""
    if pt.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    return _SPARK_TYPES.get(str(kind), str(kind))


def _read_table(spark: SparkSession, table: str, runs: Sequence[RunFiles]) -> DataFrame | None:
    """Return all files of a table as one DataFrame.

    Files that differ in columns or in their final consumer are read apart. So is each file whose
    path has a backslash: Spark 4.0 reads each of several such files as often as there are files.
    """
    wanted = {field.name: spark_type(field.type) for field in TABLES[table]}
    shapes: dict[tuple[int | None, tuple[tuple[str, str], ...], str | None], list[tuple[str, int]]] = {}
    for run, files in enumerate(runs):
        final = files.record.manifest.final_consumer if table == "polls" else None
        for file in files.files[table]:
            if file.rows:
                path = files.spark_name(file)
                key = (final, tuple(file.columns.items()), path if "\\" in path else None)
                shapes.setdefault(key, []).append((path, run))
    read: DataFrame | None = None
    for (final, columns, _), paths in shapes.items():
        has = dict(columns)
        schema = ", ".join(f"{name} {kind}" for name, kind in columns)
        part = spark.read.options(**_AS_NAMES).schema(schema).parquet(*(path for path, _ in paths))
        part, run_of = _run_of(spark, part, paths)
        selected = [
            (F.col(name) if name in has else F.lit(None)).cast(kind).alias(name) for name, kind in wanted.items()
        ]
        if table == "polls":
            selected.append((F.lit(False) if final is None else F.col("consumer") == final).alias("final"))
            selected.append(F.lit(True).alias("counts"))
        part = part.select(run_of, *selected)
        read = part if read is None else read.unionByName(part)
    return None if read is None else in_one_part(read)


def _run_of(spark: SparkSession, part: DataFrame, paths: Sequence[tuple[str, int]]) -> tuple[DataFrame, Column]:
    """Return which run a row is of.

    It is a constant where all files are of one run, else it follows from the file's name.
    """
    runs = {run for _, run in paths}
    if len(runs) == 1:
        return part, F.lit(runs.pop()).alias("run")
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    # Spark names a file by its URI, which has Java's own escapes.
    named = [{"path": jvm.org.apache.hadoop.fs.Path(path).toUri().toString(), "run": run} for path, run in paths]
    runs_of = spark.createDataFrame(pa.Table.from_pylist(named, schema=_RUN_OF_FILE))
    path = F.regexp_replace("_metadata.file_path", "^file:/+", "/")
    return part.withColumn("path", path).join(F.broadcast(runs_of), "path"), F.col("run")
