"""Gives Spark the rows that the rules must look at, as files that its executors see.

Spark reads no file of a record. NumPy chooses the rows (the package rows), this process writes them, and the joins of
the rules run where the master says.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from analysis.record.record import Record
from analysis.rows.choose import schema_of
from analysis.spark.java_start import is_local
from analysis.spark.parts import in_one_part
from analysis.spark.sql import DataFrame, SparkSession
from ebbtide.errors import HarnessError
from ebbtide.folders import remove_folder
from ebbtide.record.files import ANOMALIES_DIR
from ebbtide.scratch import SPARK, scratch_folder

if TYPE_CHECKING:
    from analysis.remote.record import RemoteRecord

_ROWS_OF_A_GROUP = 1 << 16
_SPARK_TYPES = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}


class RecordTables(msgspec.Struct, frozen=True, kw_only=True):
    """One DataFrame a table of rows that the rules must look at, None when no run has rows of it.

    Each has the columns of `choose.schema_of`.
    """

    sends: DataFrame | None
    polls: DataFrame | None
    watermarks: DataFrame | None
    replicas: DataFrame | None
    commits: DataFrame | None = None
    copies: DataFrame | None = None


class StagedTables:
    """Tables that are written here, by several threads, and that Spark then reads."""

    def __init__(self, spark: SparkSession, folder: Path, remote: RemoteRecord | None = None) -> None:
        """`folder`: where they are written. `remote`: a record on the file system where the executors read them."""
        self.rows = 0
        self._spark, self._folder, self._remote = spark, folder, remote
        self._lock = Lock()
        self._waiting: dict[str, list[pa.Table]] = {}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._put: list[str] = []

    def add(self, name: str, rows: pa.Table) -> None:
        """Add rows to a table; all rows of a table have the same columns."""
        with self._lock:
            waiting = self._waiting.setdefault(name, [])
            waiting.append(rows)
            self.rows += rows.num_rows
            if sum(one.num_rows for one in waiting) >= _ROWS_OF_A_GROUP:
                self._write(name)

    def frame(self, name: str, schema: pa.Schema) -> DataFrame:
        """Return what was added to a table, all of it."""
        self.add(name, schema.empty_table())
        self._write(name)
        self._writers[name].close()
        columns = ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in schema)
        where = self._folder / name
        address = str(where)
        if self._remote is not None:
            address = self._remote.stage(where)
            self._put.append(address)
        return in_one_part(self._spark.read.schema(columns).parquet(address))

    def record_table(self, name: str, runs: Sequence[Record]) -> DataFrame | None:
        """Return the chosen rows of a table of records."""
        return self.frame(name, schema_of(name)) if any(run.row_counts[name] for run in runs) else None

    def remove(self) -> None:
        """Remove what was put on another file system."""
        for address in self._put:
            if self._remote is not None:
                self._remote.unstage(address)

    def _write(self, name: str) -> None:
        rows = pa.concat_tables(self._waiting[name])
        self._waiting[name] = []
        try:
            if name not in self._writers:
                (self._folder / name).mkdir()
                self._writers[name] = pq.ParquetWriter(self._folder / name / "rows.parquet", rows.schema)
            self._writers[name].write_table(rows)
        except OSError as error:
            where = str(self._folder)
            raise HarnessError("the rows to compare cannot be stored", where=where, got=str(error)) from None


@contextmanager
def staged_tables(spark: SparkSession, runs: Sequence[Record]) -> Iterator[StagedTables]:
    """Yield tables that the executors of `spark` can read; they are removed at the end of the block.

    Executors of another master see the records. So the rows lie beside one of them.
    """
    remote = next((run.remote for run in runs if run.remote is not None), None)
    if is_local(spark.sparkContext.master or "") or remote is not None:
        with scratch_folder(SPARK) as folder:
            tables = StagedTables(spark, folder, None if is_local(spark.sparkContext.master or "") else remote)
            try:
                yield tables
            finally:
                tables.remove()
        return
    folder = runs[0].folder.path.absolute() / f".{ANOMALIES_DIR}.{secrets.token_hex(8)}.rows"
    folder.mkdir()
    try:
        yield StagedTables(spark, folder)
    finally:
        remove_folder(folder)


def spark_type(kind: pa.DataType) -> str:
    """Return the Spark name of a column type."""
    if pt.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {spark_type(field.type)}' for field in kind)}>"
    if pt.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    return _SPARK_TYPES.get(str(kind), str(kind))
