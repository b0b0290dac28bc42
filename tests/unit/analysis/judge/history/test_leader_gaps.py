"""How long a partition had no leader, from the metadata timeline."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from checkout import ROOT
from judge_records import Story, last_replica_standing, ns, whole_log
from records import as_record

from analysis.causes.from_record import EvidentRecord
from analysis.judge.history.spells import Spell, leaderless_spells
from analysis.record.timeline import load_timeline
from ebbtide.errors import UsageError


def _spells(story: Story) -> list[Spell] | str:
    story.write()
    return leaderless_spells(load_timeline(as_record(story.record)), "t", 0)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    story = Story(tmp_path)
    whole_log(story)
    story.broker(0, 1)
    story.state(1)
    return story


def test_a_partition_that_always_had_a_leader_has_no_spell(story: Story) -> None:
    story.state(5, leader=2)
    assert _spells(story) == []


def test_a_spell_lasts_from_the_record_that_took_the_leader_to_the_next_leader(story: Story) -> None:
    story.state(5, leader=-1)
    story.state(7, isr=[1])
    story.state(9, leader=2)
    story.state(20, leader=-1)
    story.state(21, leader=1)
    assert _spells(story) == [Spell(from_ns=ns(5), to_ns=ns(9)), Spell(from_ns=ns(20), to_ns=ns(21))]


def test_a_spell_that_no_record_ends_is_open_at_the_end_of_the_log(story: Story) -> None:
    story.state(5, leader=-1)
    story.broker(30, 2)
    assert _spells(story) == [Spell(from_ns=ns(5), to_ns=ns(30), is_open=True)]


def test_the_time_between_two_lives_of_a_partition_is_no_spell(story: Story) -> None:
    story.state(5, leader=-1)
    story.state(6, isr=[1])
    story.state(30, leader=1, leader_epoch=0, partition_epoch=0)
    assert _spells(story) == [Spell(from_ns=ns(5), to_ns=ns(6), is_open=True)]


def test_a_metadata_log_that_may_lack_records_says_nothing(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(5, leader=-1)
    assert _spells(story) == "the metadata log is not known to be whole (evidence.json)"


def test_a_partition_that_the_log_does_not_have_is_not_known(story: Story) -> None:
    story.write()
    found = leaderless_spells(load_timeline(as_record(story.record)), "t", 7)
    assert found == "the metadata timeline does not have the partition"


def test_a_clock_that_went_back_leaves_the_spells_unknown(story: Story) -> None:
    story.state(5, leader=-1)
    story.state(4, leader=1)
    story.was_clock_set = True
    assert _spells(story) == "the controllers' clock went back"


@pytest.mark.parametrize(("kafka", "length_s"), [("3.9.1", 0.725), ("4.3.1", 3.012)])
def test_a_recorded_run_was_without_a_leader_while_its_last_replica_was_down(kafka: str, length_s: float) -> None:
    timeline = load_timeline(as_record(ROOT / "tests" / "data" / "runs" / f"last-replica-standing-{kafka}"))
    spells = leaderless_spells(timeline, "t", 0)
    assert [one.length_ns / 1e9 for one in spells if isinstance(one, Spell)] == [length_s]


# The judge reads tables as other writers leave them: wider integers, columns and tables that are not there.


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
