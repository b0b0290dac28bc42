"""A run record for a notebook: its Arrow tables, manifest, steps and verdict.

    from ebbtide.record import open_run

    open_run("runs/RUN").sends().to_pandas()

Tables have the columns and types of `ebbtide.record.tables`. Nothing is written into the record, and nothing is
cached: each call reads the files again.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from ebbtide.errors import UsageError
from ebbtide.record.clients import ClientEvent, read_client_events
from ebbtide.record.files import ANOMALIES_DIR, WIRE_FILE, WITNESS_DIR, RecordFolder, check_ended
from ebbtide.record.manifest import Manifest, read_manifest
from ebbtide.record.steps import STEPS, StepEntry, read_steps
from ebbtide.record.tables import ANOMALY_SCHEMA, TABLES, WITNESS_SCHEMA
from ebbtide.record.verdict import Verdict, read_judgement
from ebbtide.untrusted.files import read_file
from ebbtide.untrusted.parquet import READ_ERRORS, damage_of, footer_of
from ebbtide.untrusted.values import decode_json


def open_run(path: str | os.PathLike[str]) -> RecordedRun:
    """Return the run whose record is the folder `path`.

    Raises `UsageError` when the folder is not a record, is damaged, has a newer version, or its run is still going.
    """
    folder = RecordFolder(Path(path))
    manifest = read_manifest(folder)
    check_ended(folder)
    return RecordedRun(folder=folder, manifest=manifest)


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run; `path` is its folder.

    Every method reads a file or a table, and raises `UsageError` when that is missing or damaged. A table is missing
    where a run was killed, for instance: `ebbtide analyze` makes it from `raw/` or `journal/` if these hold it.
    """

    folder: RecordFolder
    manifest: Manifest

    @property
    def path(self) -> Path:
        """The folder of the record."""
        return self.folder.path

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that the record has."""
        folders = (ANOMALIES_DIR, WITNESS_DIR)
        return tuple(name for name in (*TABLES, *folders) if self.folder.files(name))

    def sends(self) -> pa.Table:
        """Return one row per record handed to a producer."""
        return self._table("sends")

    def polls(self) -> pa.Table:
        """Return one row per record returned by a consumer.

        The rows of `manifest.final_consumer` are the final log.
        """
        return self._table("polls")

    def watermarks(self) -> pa.Table:
        """Return one row per observation of a partition's HW."""
        return self._table("watermarks")

    def described(self) -> pa.Table:
        """Return one row per partition and answer of a broker to DescribeTopicPartitions."""
        return self._table("described")

    def commits(self) -> pa.Table:
        """Return one row per partition of a group's commit, and per answer of a coordinator."""
        return self._table("commits")

    def wire(self) -> pa.Table:
        """Return what clients sent and got through published ports, and what was left of it."""
        return self._table("wire")

    def handled(self) -> pa.Table:
        """Return one row per record that a test said it had handled."""
        return self._table("handled")

    def copies(self) -> pa.Table:
        """Return one row per record that a copier sent, with the place of the record that it copied."""
        return self._table("copies")

    def partitions(self) -> pa.Table:
        """Return one row per state of a partition, from the metadata log."""
        return self._table("partitions")

    def brokers(self) -> pa.Table:
        """Return one row per event of a broker's registration, from the metadata log."""
        return self._table("brokers")

    def configs(self) -> pa.Table:
        """Return one row per config or feature level that was set or deleted.

        They are from the metadata log.
        """
        return self._table("configs")

    def replicas(self) -> pa.Table:
        """Return one row per record in each replica's log after the run."""
        return self._table("replicas")

    def anomalies(self) -> pa.Table:
        """Return one row per anomaly that the reconciliation found.

        The record must have been judged.
        """
        return self._table(ANOMALIES_DIR, ANOMALY_SCHEMA)

    def witness(self) -> pa.Table:
        """Return one row per record that Spark's Kafka connector returned.

        Only a run with a witness has them.
        """
        return self._table(WITNESS_DIR, WITNESS_SCHEMA)

    def steps(self) -> Sequence[StepEntry]:
        """Return each step of the schedule with its times and its proof."""
        steps = read_steps(self.folder)
        if steps is None:
            raise UsageError(f"the record has no {STEPS}", where=str(self.path))
        return steps

    def client_events(self) -> dict[str, list[ClientEvent]]:
        """Return the events of each client that has some, e.g. of `producer-1`."""
        events = read_client_events(self.folder)
        if events is None:
            raise UsageError("the record has no client events", where=str(self.path))
        return events

    def wire_events(self) -> Sequence[dict[str, object]]:
        """Return the events of the wire proxies; empty where no wire step fired."""
        path = self.folder / WIRE_FILE
        if not os.path.lexists(path):
            return []
        lines = read_file(path, what=WIRE_FILE).splitlines()
        try:
            return [decode_json(line, dict[str, object]) for line in lines if line.strip()]
        except msgspec.DecodeError as error:
            raise UsageError(f"{WIRE_FILE} is damaged", where=str(path), got=str(error)) from None

    def verdict(self) -> Verdict:
        """Return the judgement of the run."""
        return read_judgement(self.folder)

    def _table(self, name: str, schema: pa.Schema | None = None) -> pa.Table:
        files = self.folder.files(name)
        if not files:
            raise UsageError(
                f"the record has no table {name}",
                where=str(self.path),
                allowed=", ".join(self.tables) or None,
                next=f"ebbtide analyze {shlex.quote(str(self.path))}    (makes what its raw/ and journal/ hold)",
            )
        for path in files:
            problem = self.folder.why_unreadable(path)
            if problem is not None:
                raise problem
        return pa.concat_tables([_read(path, schema or TABLES[name]) for path in files])


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    """Return the columns of `schema` from a file; missing nullable columns are null."""
    footer_of(path)
    try:
        with pq.ParquetFile(path) as file:
            names = [name for name in schema.names if name in file.schema_arrow.names]
            found = file.read(columns=names)
        found.validate(full=True)  # a text may not be UTF-8
        arrays = [_column(found, field, path) for field in schema]
        return pa.Table.from_arrays(arrays, schema=schema)
    except READ_ERRORS as error:
        raise damage_of(path, error) from None


def _column(found: pa.Table, field: pa.Field, path: Path) -> pa.ChunkedArray:
    where, allowed = f"column {field.name} ({path})", f"{field.type}{' or null' if field.nullable else ''}"
    if field.name not in found.column_names:
        if not field.nullable and found.num_rows:
            raise UsageError("a column is missing", where=where, allowed=allowed)
        return pa.chunked_array([pa.nulls(found.num_rows, field.type)])
    column = found.column(field.name)
    if not (_is_readable_as(column.type, field.type) or column.null_count == len(column)):
        raise UsageError("a column is of another type", where=where, got=str(column.type), allowed=allowed)
    if column.null_count and not field.nullable:
        raise UsageError("a column has nulls", where=where, got=f"{column.null_count} nulls", allowed=allowed)
    return column.cast(field.type)


def _is_readable_as(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a file's values are of the wanted kind.

    The width of a number or an offset may differ.
    """
    if pt.is_dictionary(found):
        found = found.value_type
    if pt.is_list(wanted):
        return (pt.is_list(found) or pt.is_large_list(found)) and _is_readable_as(found.value_type, wanted.value_type)
    if pt.is_integer(wanted):
        return bool(pt.is_integer(found))
    if pt.is_string(wanted):
        return bool(pt.is_string(found) or pt.is_large_string(found))
    return bool(found == wanted)
