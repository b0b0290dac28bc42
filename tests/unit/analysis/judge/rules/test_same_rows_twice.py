"""The same rows twice in a record are the same observation, in whatever files they are."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from real_records import unpack_record
from records import as_record

from analysis.judge.history.answers import CompareAnswers
from analysis.judging.many_records import judge_many
from ebbtide.record.files import RecordFolder
from ebbtide.record.sums import SUMS
from ebbtide.record.tables import TABLES
from ebbtide.record.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "last-replica-standing-4.4.0"


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A record without sums, which would show an added file."""
    found = unpack_record(NAME, tmp_path / "records")
    (found / SUMS).unlink(missing_ok=True)
    return found


def copy_file(path: Path) -> None:
    shutil.copy(path, path.with_name(f"{path.stem} (1).parquet"))


def copy_with_other_bytes(path: Path) -> None:
    pq.write_table(pq.read_table(path), path.with_name(f"a-{path.name}"), compression="none")


def append_again(path: Path) -> None:
    rows = pq.read_table(path)
    pq.write_table(pa.concat_tables([rows, rows]), path)


def append_half_again(path: Path) -> None:
    rows = pq.read_table(path)
    pq.write_table(pa.concat_tables([rows, rows.slice(rows.num_rows // 2)]), path)


@pytest.mark.parametrize("again", [copy_file, copy_with_other_bytes, append_again, append_half_again])
def test_answers_of_brokers_that_are_there_twice_are_compared_once(record: Path, again: Callable[[Path], None]) -> None:
    def compared() -> object:
        return as_record(record).seen(CompareAnswers)

    before = compared()
    assert before is not None
    again(record / "described" / "describer.parquet")
    assert compared() == before


@pytest.mark.parametrize("table", TABLES)
def test_of_files_with_the_same_bytes_the_one_with_the_shortest_name_counts(record: Path, table: str) -> None:
    files = RecordFolder(record).files(table)
    for path in files:
        (record / table).mkdir(exist_ok=True)
        for name in ("0 copy", "zz copy"):
            shutil.copy(path, record / table / f"{path.stem} {name}.parquet")
    assert RecordFolder(record).files(table) == files


def test_files_of_the_same_size_with_other_bytes_all_count(tmp_path: Path) -> None:
    (tmp_path / "sends").mkdir()
    for name in ("a", "b"):
        (tmp_path / "sends" / f"{name}.parquet").write_text(name)
    assert len(RecordFolder(tmp_path).files("sends")) == 2


@pytest.mark.spark
def test_a_second_copy_of_every_table_changes_nothing_of_the_verdict(
    record: Path, tmp_path: Path, spark: SparkSession
) -> None:
    doubled = shutil.copytree(record, tmp_path / "doubled")
    for path in sorted(doubled.rglob("*.parquet")):
        if path.relative_to(doubled).parts[0].removesuffix(".parquet") in TABLES:
            (doubled / path.stem).mkdir(exist_ok=True) if path.parent == doubled else None
            folder = doubled / path.stem if path.parent == doubled else path.parent
            shutil.copy(path, folder / f"{path.stem} (1).parquet")
    (_, before), (_, after) = judge_many([record, doubled], spark)
    assert isinstance(before, Verdict)
    assert isinstance(after, Verdict)
    assert (after.outcome, after.why, after.counts) == (before.outcome, before.why, before.counts)
