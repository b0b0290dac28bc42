"""Shapes stand where their times are, and no label stands on another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from judge_records import Story, last_replica_standing, ns
from records import as_record

from analysis.report.drawing.layout import LEGEND, draw
from analysis.report.drawing.model import DrawnPartition
from analysis.report.drawing.packing import anchored, rows_for
from analysis.report.drawing.scale import TimeScale, ValueScale, round_numbers
from analysis.report.html import fit_class
from analysis.report.pages import page_templates
from analysis.report.picture.building import picture_of, read_source
from analysis.report.picture.model import NodeState, RoleState
from ebbtide.record.verdict import Verdict


def drawn(story: Story, verdict: Verdict | None = None) -> DrawnPartition:
    verdict = verdict if verdict is not None else story.judge()
    story.write()
    picture = picture_of(read_source(as_record(story.record, story.manifest), verdict))
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


def test_the_highest_value_stands_below_the_top_and_zero_at_the_bottom() -> None:
    scale = ValueScale(2000, 150)
    assert (scale.y(0), scale.y(2000)) == (150, 12)


def test_labels_that_would_overlap_stand_in_rows_of_their_own() -> None:
    assert rows_for([(0, 0.5), (0.4, 0.6), (0.5, 0.7), (0.1, 0.2)]) == [0, 1, 0, 1]


def test_a_label_that_fits_on_neither_side_goes_where_there_is_more_room() -> None:
    long = "broker 1 leads (2,029 uncommitted lost: uncommitted-at-failover)"
    assert [anchored(begin, long)[0] for begin in (0.27, 0.45, 0.55, 0.9)] == ["start", "start", "end", "end"]


def test_a_label_near_the_right_edge_ends_at_its_moment() -> None:
    assert anchored(0.1, "power-loss")[0] == "start"
    anchor, left, right = anchored(0.98, "power-loss")
    assert (anchor, right) == ("end", 0.98)
    assert left < 0.98


@pytest.mark.parametrize(("fit_px", "found"), [(0, "f0"), (250, "f300"), (300, "f300"), (601, "f900"), (5000, "f9999")])
def test_a_text_is_shown_without_a_script_only_where_it_fits(fit_px: int, found: str) -> None:
    assert fit_class(fit_px) == found


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


def test_every_state_that_is_drawn_is_in_the_legend(tmp_path: Path) -> None:
    looks = {look for look, _, _ in LEGEND}
    found = {span.look for span in drawn(last_replica_standing(tmp_path)).spans} - {"fault"}
    assert found <= looks


def test_every_state_of_a_node_and_of_a_replica_is_in_the_legend() -> None:
    looks = {look for look, _, _ in LEGEND}
    as_another = {"disk-full", "disk-slow", "unregistered"}
    assert {*get_args(NodeState), *get_args(RoleState), "clean", "unclean", "lost"} - as_another <= looks


@pytest.mark.parametrize("acked", [1000, 2000, 1700, 7])
def test_every_grid_line_has_its_label_and_no_name_stands_on_one(tmp_path: Path, acked: int) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.hw(2, 1, 0, acked)
    partition = drawn(story)
    (panel,) = (one for one in partition.panels if one.name == "Offsets")
    labels = [panel.top + y for y, _ in panel.grid]
    (name,) = (one.y for one in partition.names if one.text == "Offsets")
    # A name stands on its y, and a label is centred on it.
    assert all(name - 10 > y + 6 or name < y - 6 for y in labels)
    template = page_templates("analysis.report").get_template("picture.html.j2")
    figure: Any = template.make_module({"fit_class": fit_class})
    shown = str(figure.partition(partition))
    assert all(f">{text}</text>" in shown.partition('<div class="stage">')[0] for _, text in panel.grid)
