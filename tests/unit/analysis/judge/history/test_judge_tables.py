"""The judge reads tables as other writers leave them: wider integers, columns and tables that are not there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judge_records import Story, last_replica_standing
from records import as_record

from analysis.causes.from_record import EvidentRecord
from analysis.record.timeline import load_timeline
from ebbtide.errors import UsageError


def rewrite(story: Story, table: str, change: object) -> None:
    """Write a table with the types that Arrow infers from Python values."""
    rows = [change(dict(row)) for row in story.tables[table]]  # type: ignore[operator]
    pq.write_table(pa.Table.from_pylist(rows), story.record / f"{table}.parquet")


def starts(record: Path) -> dict[int, tuple[int, int]]:
    """Return where the epoch of each election began at the latest, and how far its log reached."""
    traces = EvidentRecord(as_record(record)).partition("t", 0).epochs
    return {at: (one.start_max, one.end_min) for at, one in traces.of.items()}


def test_wider_integers_unknown_columns_and_missing_nullable_ones_are_read(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.hw(22, 1, 2, 7)
    story.log(1, (2, 0, 5))
    story.write()
    expected = load_timeline(as_record(tmp_path))
    known = starts(tmp_path)
    for name in ("partitions", "brokers", "watermarks", "replicas"):
        rewrite(story, name, lambda row: {**row, "of_a_later_version": "x"})
    assert load_timeline(as_record(tmp_path)) == expected
    assert starts(tmp_path) == known
    rewrite(story, "watermarks", lambda row: {key: row[key] for key in row if key != "log_end_offset"})
    assert starts(tmp_path) == known


def test_tables_in_several_files_are_one(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.write()
    expected = load_timeline(as_record(tmp_path))
    whole = pq.read_table(tmp_path / "partitions.parquet")
    (tmp_path / "partitions.parquet").unlink()
    (tmp_path / "partitions").mkdir()
    pq.write_table(whole.slice(3), tmp_path / "partitions" / "a.parquet")
    pq.write_table(whole.slice(0, 3), tmp_path / "partitions" / "b.parquet")
    assert load_timeline(as_record(tmp_path)) == expected


def test_missing_and_empty_tables_are_named(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.write(missing=("brokers",))
    assert load_timeline(as_record(tmp_path)).missing == {"brokers", "configs"}
    pq.write_table(pq.read_table(tmp_path / "partitions.parquet").slice(0, 0), tmp_path / "partitions.parquet")
    assert load_timeline(as_record(tmp_path)).missing == {"partitions", "brokers", "configs"}


def test_a_state_that_a_snapshot_repeats_is_no_transition(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.tables["partitions"].append({**story.tables["partitions"][-1], "metadata_offset": 500})
    story.write()
    assert len(load_timeline(as_record(tmp_path)).states("t", 0)) == 6


def test_a_damaged_table_is_a_usage_error_that_names_it(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.write()
    (tmp_path / "partitions.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(UsageError, match="a table's file is damaged"):
        load_timeline(as_record(tmp_path))
