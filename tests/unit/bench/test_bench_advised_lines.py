"""What the lines of advice showed is kept, counted and shown, and a difference is never hidden."""

from __future__ import annotations

import pytest

from bench.advise_clusters import PlannedLine, lines_of_part
from bench.advised_lines import LineRun, MeasuredLine, counts_in_words, merge_lines, tables
from harness.nightly.shards import Shard


def line(says: str = "loses", settings: str = "rf3-min2", ran: LineRun | None = None) -> MeasuredLine:
    return MeasuredLine(
        key=f"ELR/{settings}/power-3/{says}",
        event="all 3 brokers lose power together, in sync",
        says=says,
        clusters=("431",),
        has_scenario=True,
        ran=ran,
    )


def showed(lost: int, outcome: str = "as-predicted") -> LineRun:
    return LineRun(kafka="4.3.1", outcome=outcome, lost=lost)


@pytest.mark.parametrize(
    ("says", "ran", "agreement"),
    [
        ("loses", showed(7), "agrees"),
        ("loses", showed(0), "differs"),
        ("survives", showed(0), "agrees"),
        ("survives", showed(7), "differs"),
        ("survives", showed(0, "inconclusive"), "inconclusive"),
        ("loses", showed(7, "contradicted"), "agrees"),
        ("loses", None, "not run"),
    ],
)
def test_a_run_agrees_with_its_line_or_not(says: str, ran: LineRun | None, agreement: str) -> None:
    assert line(says, ran=ran).agreement() == agreement


def test_an_earlier_result_stays_until_there_is_a_new_one() -> None:
    stored = {line().key: line(ran=showed(7))}
    assert merge_lines(stored, [line()]) == [line(ran=showed(7))]
    assert merge_lines(stored, [line(ran=showed(9))]) == [line(ran=showed(9))]


def test_a_table_has_a_column_for_each_setting_and_says_what_was_not_run() -> None:
    [found] = tables([line(ran=showed(4626)), line("survives", "rf3-min2-flush1"), line(settings="rf3-min1")])
    assert found.columns == ("event", "rf3-min1", "rf3-min2", "rf3-min2-flush1")
    assert found.rows == (("all 3 brokers lose power together, in sync", "(loses)", "4,626 [4.3.1]", "(survives)"),)


def test_a_difference_stands_out() -> None:
    [found] = tables([line(ran=showed(0))])
    assert "**none, but the line says loses** [4.3.1]" in found.rows[0]
    assert "- 0 that say *loses* lost committed records, 1 lost none," in counts_in_words([line(ran=showed(0))])


def test_parts_that_start_at_different_times_run_no_line_twice() -> None:
    planned = [
        PlannedLine(key=key, cluster="431", kafka="4.3.1", says="loses", settings="rf3", event="e", file=None)
        for key in "abcd"
    ]
    assert [one.key for one in lines_of_part(planned, Shard(1, 2), set())] == ["a", "c"]
    assert [one.key for one in lines_of_part(planned, Shard(2, 2), {"a"})] == ["b", "d"]
