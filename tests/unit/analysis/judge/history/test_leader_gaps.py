"""How long a partition had no leader, from the metadata timeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkout import ROOT
from judge_records import Story, ns, whole_log
from records import as_record

from analysis.judge.history.spells import Spell, leaderless_spells
from analysis.record.timeline import load_timeline


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
