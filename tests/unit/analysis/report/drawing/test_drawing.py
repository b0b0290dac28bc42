"""Shapes stand where their times are, and no label stands on another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from judge_records import Story, last_replica_standing, ns
from records import as_record

from analysis.report.drawing.layout import LEGEND, draw
from analysis.report.drawing.model import DrawnPartition
from analysis.report.drawing.packing import rows_for
from analysis.report.drawing.scale import TimeScale, round_numbers
from analysis.report.picture.building import picture_of
from analysis.report.picture.model import NodeState, RoleState
from ebbtide.record.verdict import Verdict


def drawn(story: Story, verdict: Verdict | None = None) -> DrawnPartition:
    verdict = verdict if verdict is not None else story.judge()
    story.write()
    picture = picture_of(as_record(story.record, story.manifest), verdict)
    assert picture is not None
    return draw(picture).partitions[0]


def test_a_time_stands_in_per_cent_of_the_axis() -> None:
    scale = TimeScale(ns(10), ns(20), ns(0))
    assert scale.percent(ns(15)) == "50.000%"
    assert scale.width(ns(15), None) == "50.000%"
    assert scale.percent(ns(5)) == "0.000%"
    assert scale.shows(ns(1), ns(11))
    assert not scale.shows(ns(1), ns(9))


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0.13, 0.48, [0.2, 0.3, 0.4]),
        (7, 7, [7]),
        (0, 2570, [0, 1000, 2000]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, found: list[float]) -> None:
    assert round_numbers(low, high, 5) == found


def test_labels_that_would_overlap_stand_in_rows_of_their_own() -> None:
    assert rows_for([(0, 0.5), (0.4, 0.6), (0.5, 0.7), (0.1, 0.2)]) == [0, 1, 0, 1]


def test_the_guilty_election_is_drawn_with_its_loss(tmp_path: Path) -> None:
    partition = drawn(last_replica_standing(tmp_path))
    (line,) = partition.lines
    assert line.look == "guilty"
    assert "guilty of: last-replica-standing: 1,000 records lost" in line.tip
    texts = {label.look: label.text for label in partition.labels}
    assert texts["guilty"] == "broker 1 leads (guilty: last-replica-standing, 1,000 records lost)"


def test_a_worse_condition_covers_a_lighter_one_and_both_keep_their_whole_times(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.step(5, "partition", 1, 2, cuts=["1>2", "2>1"])
    story.step(6, "power-loss", 1)
    assert story.steps is not None
    ends = (ns(9), ns(7))
    story.steps = [
        type(one)(**{**{name: getattr(one, name) for name in one.__struct_fields__}, "healed_ns": end})
        for one, end in zip(story.steps, ends, strict=True)
    ]
    partition = drawn(story, Verdict(run_id="run-1", outcome="inconclusive"))
    bars = [span for span in partition.spans if span.row == "broker 1 condition"]
    assert [bar.look for bar in bars] == ["cut", "cut", "down"]
    assert {bar.tip.splitlines()[1] for bar in bars[:2]} == {"time: +5.000 s to +9.000 s, 4.000 s"}


def test_each_row_has_one_stop_of_the_tab_key(tmp_path: Path) -> None:
    partition = drawn(last_replica_standing(tmp_path))
    for row in {span.row for span in partition.spans}:
        assert [span.is_first for span in partition.spans if span.row == row].count(True) == 1


def test_the_high_watermark_has_a_gap_while_nobody_answered(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    for at, hw in ((2.0, 0), (2.5, 10), (9.0, 10), (9.5, 5)):
        story.hw(at, 1, 0, hw)
    (panel,) = drawn(story, Verdict(run_id="run-1", outcome="inconclusive")).panels
    assert [path.look for path in panel.paths] == ["hw", "hw"]


def test_what_the_page_reads_off_cannot_end_its_script(tmp_path: Path) -> None:
    partition = drawn(last_replica_standing(tmp_path))
    assert "<" not in partition.data
    assert json.loads(partition.data)["roles"]["1"][0][2] == "leader"


def test_every_state_of_a_node_and_of_a_replica_is_in_the_legend() -> None:
    looks = {look for look, _, _ in LEGEND}
    as_another = {"disk-full", "disk-slow", "unregistered"}
    assert {*get_args(NodeState), *get_args(RoleState), "clean", "unclean", "lost"} - as_another <= looks
