"""The judge reads tables as other writers leave them: wider integers, columns and tables that are not there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judge_records import Story, last_replica_standing
from records import as_record

from analysis.record.epochs import load_epochs
from analysis.record.timeline import load_timeline
from ebbtide.errors import UsageError


def rewrite(story: Story, table: str, change: object) -> None:
    """Write a table with the types that Arrow infers from Python values."""
    rows = [change(dict(row)) for row in story.tables[table]]  # type: ignore[operator]
    pq.write_table(pa.Table.from_pylist(rows), story.record / f"{table}.parquet")


def test_wider_integers_unknown_columns_and_missing_nullable_ones_are_read(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.hw(22, 1, 2, 7)
    story.log(1, (2, 0, 5))
    story.write()
    expected = load_timeline(as_record(tmp_path))
    traces = load_epochs(as_record(tmp_path)).traces
    for name in ("partitions", "brokers", "watermarks", "replicas"):
        rewrite(story, name, lambda row: {**row, "of_a_later_version": "x"})
    assert load_timeline(as_record(tmp_path)) == expected
    assert load_epochs(as_record(tmp_path)).traces == traces
    rewrite(story, "watermarks", lambda row: {key: row[key] for key in row if key != "log_end_offset"})
    assert load_epochs(as_record(tmp_path)).traces == traces


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


def test_epochs_are_folded_in_memory_that_does_not_grow_with_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.record.epochs._FOLD_AT_ROWS", 2)
    story = Story(tmp_path)
    story.state(1)
    story.log(1, (0, 0, 99), (1, 100, 150), (2, 151, 160))
    story.write()
    rows = pq.read_table(tmp_path / "replicas.parquet")
    (tmp_path / "replicas.parquet").unlink()
    (tmp_path / "replicas").mkdir()
    for at in range(0, rows.num_rows, 20):
        pq.write_table(rows.slice(at, 20), tmp_path / "replicas" / f"{at:04}.parquet")
    folded = [
        (one.leader_epoch, one.first_offset, one.last_offset) for one in load_epochs(as_record(tmp_path)).replicas
    ]
    assert sorted(folded) == [(0, 0, 99), (1, 100, 150), (2, 151, 160)]
