"""Leaves out the rows that surely are in no anomaly, as the module narrowing does, without Spark.

Spark says which blocks differ and which values are suspect (the module ruling_out). NumPy chooses the
rows from the files (the module row_choice), so that Spark reads no other.
"""

from __future__ import annotations

from functools import partial

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from analysis.reconcile import narrowing, row_choice
from analysis.reconcile.narrowing import NarrowedTables
from analysis.reconcile.row_batches import Ints, RowGroup, row_groups
from analysis.reconcile.row_choice import Chosen
from analysis.reconcile.row_pass import RowPass, for_each
from analysis.reconcile.ruling_out import Answers
from analysis.reconcile.tables import RecordTables, spark_type
from ebbtide.record.tables import TABLES

_NARROWED = ("sends", "polls", "replicas")


def narrow_rows(tables: RecordTables, answers: Answers, row_pass: RowPass) -> NarrowedTables | None:
    """Return the rows of `tables` that count; None: too many may. Raises `UnsuitedRows`."""
    blocks = row_choice.OffsetBlocks([*answers.offsets])
    values: dict[int, list[Ints]] = {run: [] for run in range(len(row_pass.runs))}
    for run, block in answers.values:
        values[run].append(np.array([block], np.int64))

    def add_values(table: str, group: RowGroup) -> None:
        values[group.run].append(row_choice.values_in(group, table, blocks))

    for table in ("sends", "polls"):
        for_each(row_groups(row_pass.runs, table), partial(add_values, table))
    distinct = {run: np.unique(np.concatenate(some)) for run, some in values.items() if some}
    if sum(len(some) for some in distinct.values()) > narrowing.BLOCKS_MAX:
        return None
    return _choose_rows(tables, row_pass, Chosen(blocks, row_choice.ValueBlocks(distinct)))


def _choose_rows(tables: RecordTables, row_pass: RowPass, chosen: Chosen) -> NarrowedTables:
    found: list[int] = []

    def add(table: str, group: RowGroup) -> None:
        for rows in row_choice.choose(group, table, chosen):
            row_pass.scratch.add(_name(table), rows)
            found.append(rows.num_rows)

    frames: dict[str, DataFrame] = {}
    for table in _NARROWED:
        if getattr(tables, table) is None:
            continue
        row_pass.scratch.add(_name(table), _schema(table).empty_table())
        for_each(row_groups(row_pass.runs, table), partial(add, table))
        columns = ", ".join(f"{field.name} {spark_type(field.type)}" for field in _schema(table))
        frame = row_pass.table(_name(table), columns)
        assert frame is not None
        frames[table] = frame
    return NarrowedTables(tables=msgspec.structs.replace(tables, **frames), rows=sum(found))


def _name(table: str) -> str:
    return f"chosen-{table}"


def _schema(table: str) -> pa.Schema:
    """Return the columns that `tables.load` gives a table."""
    fields = [pa.field(field.name, field.type) for field in TABLES[table]]
    fields.append(pa.field("run", pa.int32()))
    if table == "polls":
        fields += [pa.field("final", pa.bool_()), pa.field("counts", pa.bool_())]
    return pa.schema(fields)
