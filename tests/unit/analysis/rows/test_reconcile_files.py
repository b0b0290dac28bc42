"""A record's files are checked by their footers: everything that is wrong is said at once, and nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from reconcile_rows import sum_up
from records import RecordBuilder, as_record, write_table

from analysis.rows.choose import choose, schema_of
from bench.reconciling import reconcile
from ebbtide.errors import HarnessError, Problems, UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import Manifest
from ebbtide.record.tables import TABLES


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A whole record with two sends."""
    return RecordBuilder().acked(1, 2, at=0).final(1, 2).write(tmp_path / "run")


def rewrite(record: Path, table: str, change: str, column: pa.Array | None) -> None:
    """Replace a column of a table's file, or drop it."""
    path = record / table / "part-0.parquet"
    rows = pq.read_table(path)
    index = rows.schema.get_field_index(change)
    rows = rows.remove_column(index) if column is None else rows.set_column(index, change, column)
    pq.write_table(rows, path)


def test_a_whole_record_has_no_problems(record: Path) -> None:
    assert {table: sum(file.rows for file in files) for table, files in as_record(record).checked.items()} == {
        **dict.fromkeys(TABLES, 0),
        "sends": 2,
        "polls": 2,
    }


def test_every_problem_of_a_record_is_named_at_once(record: Path) -> None:
    sends = record / "sends" / "part-0.parquet"
    sends.write_bytes(sends.read_bytes()[:-7])
    (record / "watermarks.parquet").write_bytes(b"")
    rewrite(record, "polls", "offset", pa.array(["a", "b"]))
    rewrite(record, "polls", "consumer", None)
    with pytest.raises(Problems) as caught:
        _ = as_record(record).checked
    said = str(caught.value)
    assert len(caught.value.problems) == 4
    assert str(sends) in said
    assert "watermarks.parquet" in said
    assert "table polls, column offset" in said
    assert "got:     string" in said
    assert "table polls, column consumer" in said


@pytest.mark.parametrize(
    ("column", "values", "what"),
    [
        ("value", pa.array([1, None]), "nulls"),
        ("value", pa.nulls(2), "no values"),
        ("acks", pa.array([1, 300]), "out of range"),
        ("producer", pa.array([1, 2**40]), "out of range"),
        ("sent_ns", pa.array([1.5, 2.5]), "another type"),
        ("status", pa.array([1, 2]), "another type"),
    ],
)
def test_values_that_do_not_fit_are_named(record: Path, column: str, values: pa.Array, what: str) -> None:
    rewrite(record, "sends", column, values)
    with pytest.raises(Problems, match=what):
        _ = as_record(record).checked


def test_a_file_without_rows_needs_no_columns(record: Path) -> None:
    write_table(record, "sends", pa.table({}), name="part-1.parquet")
    assert sum(file.rows for file in as_record(record).checked["sends"]) == 2


@pytest.mark.parametrize("name", ["_0.parquet", ".x.parquet", "_temporary/0.parquet"])
def test_a_hidden_file_which_spark_would_pass_by_is_refused(record: Path, name: str) -> None:
    hidden = record / "sends" / name
    hidden.parent.mkdir(exist_ok=True)
    (record / "sends" / "part-0.parquet").rename(hidden)
    with pytest.raises(Problems, match="hidden") as caught:
        _ = as_record(record).checked
    assert str(hidden) in str(caught.value)


def test_a_pipe_is_no_file_of_a_table_and_is_not_opened(record: Path) -> None:
    seen = as_record(record)
    os.mkfifo(record / "sends" / "x.parquet")
    with pytest.raises(Problems, match="a regular file"):
        _ = seen.checked


@pytest.mark.parametrize("name", ["offset", "OFFSET"])
def test_a_column_that_is_there_twice_is_refused(record: Path, name: str) -> None:
    path = record / "sends" / "part-0.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.append_column(name, rows["offset"]), path)
    with pytest.raises(Problems, match="more than once") as caught:
        _ = as_record(record).checked
    assert "table sends, column offset" in str(caught.value)


def test_the_footers_do_not_tell_of_nulls_without_statistics(record: Path) -> None:
    path = record / "sends" / "part-0.parquet"
    assert as_record(record).checked["sends"][0].untold == frozenset()
    pq.write_table(pq.read_table(path), path, write_statistics=False)
    required = {field.name for field in TABLES["sends"] if not field.nullable}
    assert as_record(record).checked["sends"][0].untold == required


def test_files_of_different_shape_are_chosen_as_one_table(record: Path) -> None:
    rewrite(record, "sends", "txn", None)
    rewrite(record, "sends", "error", pa.nulls(2))
    rewrite(record, "sends", "acks", pa.array([1, -1], pa.int64()))
    other = pq.read_table(record / "sends" / "part-0.parquet").append_column("colour", pa.array(["red", "blue"]))
    index = other.schema.get_field_index("topic")
    other = other.set_column(index, "topic", other["topic"].dictionary_encode())
    pq.write_table(other.drop_columns(["txn_outcome"]), record / "sends.parquet")
    summed = sum_up(as_record(record, Manifest(run_id="r")))
    chosen: list[pa.Table] = []
    everything = msgspec.structs.replace(summed.answers, offsets=None)
    choose(msgspec.structs.replace(summed, answers=everything), lambda _, rows: chosen.append(rows))
    sends = pa.concat_tables([rows for rows in chosen if "acks" in rows.schema.names])
    assert sends.schema == schema_of("sends")
    assert sorted((row["topic"], row["acks"], row["txn"], row["error"]) for row in sends.to_pylist()) == [
        ("t", -1, None, None),
        ("t", -1, None, None),
        ("t", 1, None, None),
        ("t", 1, None, None),
    ]


@pytest.mark.spark
def test_a_file_damaged_behind_its_footer_is_an_error_of_the_record(spark: SparkSession, tmp_path: Path) -> None:
    builder = RecordBuilder().acked(*range(1, 2000), at=0).final(1)
    record = builder.write(tmp_path / "run")
    path = record / "sends" / "part-0.parquet"
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = b"\x00" * (len(content) // 2 - 4)
    path.write_bytes(bytes(content))
    with pytest.raises(UsageError, match="damaged") as caught:
        reconcile(spark, as_record(record, builder.manifest()))
    assert "part-0.parquet" in str(caught.value)


def test_a_record_that_cannot_be_written_is_refused_before_any_work(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from analysis.items import store

    monkeypatch.setattr(store.os, "access", lambda *_: False)
    with pytest.raises(HarnessError, match="cannot be written"):
        store.check_writable(RecordFolder(record))
