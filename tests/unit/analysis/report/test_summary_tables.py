"""The summary of judged runs: side by side, no wider than there is room, and no word is broken."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from judge_records import last_replica_standing
from records import as_record

from analysis.report.summary import JudgedRun, judged_run, summary_lines, summary_tables, summary_text
from analysis.sentences.protocol import protocol_row
from ebbtide.record.verdict import PropertyResult, PropertyStatus
from ebbtide.rules.table import NO_COMMITTED_LOSS


@pytest.fixture
def side_by_side(tmp_path: Path) -> list[JudgedRun]:
    runs = []
    for name, release in (("one", "3.9.1"), ("two", "3.7.2")):
        (tmp_path / name).mkdir()
        story = last_replica_standing(tmp_path / name, kafka=release)
        story.regress(1000, 0, epochs=(0, 2), at_s=(9, 22))
        verdict = story.judge()
        runs.append(judged_run(as_record(tmp_path / name), verdict))
    return runs


def test_the_summary_puts_the_runs_side_by_side(side_by_side: list[JudgedRun]) -> None:
    lines = {line[:21].strip(): line[21:].split("  ") for line in summary_text(side_by_side, 100).splitlines()}
    assert lines["Kafka"][0].strip() == "3.9.1"
    assert "3.7.2" in lines["Kafka"][-1]
    assert lines["lost, committed"][0].strip() == "1,000"
    assert lines["guilty election"][0] == "broker 1, leader epoch 2, metadata"
    assert lines["HW went back"][0] == "from 1,000 to 0 (t-0)"
    assert lines["outcome"][0] == "inconclusive"


def test_the_summary_says_what_the_protocol_says_whatever_was_predicted(side_by_side: list[JudgedRun]) -> None:
    one = side_by_side[0]

    def describe_status(status: PropertyStatus | None, **changes: object) -> str:
        properties = (
            [PropertyResult(name=NO_COMMITTED_LOSS, kip="KIP-966", status=status)] if status is not None else []
        )
        return protocol_row(msgspec.structs.replace(one.verdict, properties=properties, **changes), None)

    assert describe_status("violated") == f"violated:\n{NO_COMMITTED_LOSS}"
    assert describe_status("holds") == "allows the loss"
    assert (
        describe_status("unknown")
        == describe_status("unknown", losses=[], anomalies=[])
        == f"cannot tell:\n{NO_COMMITTED_LOSS}"
    )
    assert describe_status(None) == "cannot tell"
    assert describe_status("holds", losses=[], anomalies=[]) == "nothing violated"
    assert describe_status("holds", losses=[]) == "cannot tell:\nwhy 1,000 records are lost"
    unexplained = msgspec.structs.replace(one.verdict.losses[0], committed=False, cause="unexplained")
    assert describe_status("holds", losses=[unexplained]) == "does not allow the loss"


def test_the_summary_says_how_many_more_elections_and_falls_there_are(side_by_side: list[JudgedRun]) -> None:
    one = side_by_side[0]
    losses = [msgspec.structs.replace(one.verdict.losses[0], partition=number) for number in range(3)]
    falls = [msgspec.structs.replace(one.verdict.regressions[0], partition=number) for number in range(2)]
    verdict = msgspec.structs.replace(one.verdict, losses=losses, regressions=falls)
    text = summary_text([msgspec.structs.replace(one, verdict=verdict)], 80)
    assert "metadata offset 90; and 2 more" in text
    assert "from 1,000 to 0 (t-0); and 1 more" in text


def test_the_drawn_summary_has_a_column_a_run(side_by_side: list[JudgedRun]) -> None:
    (table,) = summary_tables(side_by_side, 500)
    assert [column.header for column in table.columns] == ["Kafka", "3.9.1", "3.7.2"]
    assert list(table.columns[0].cells) == [name for name, _ in summary_lines(side_by_side[0]) if name != "your rules"]


def test_many_runs_are_several_tables_on_a_narrow_terminal(side_by_side: list[JudgedRun]) -> None:
    five = [*side_by_side, *side_by_side, side_by_side[0]]
    for width, columns in ((80, [2, 2, 1]), (200, [5]), (20, [1] * 5)):
        assert [len(table.columns) - 1 for table in summary_tables(five, width)] == columns
    assert summary_tables([], 80) == []


def test_no_word_is_broken_in_a_table_of_two_runs_and_no_path_is_cut(side_by_side: list[JudgedRun]) -> None:
    (narrow,) = summary_tables(side_by_side, 80)
    whole = {word for run in side_by_side for _, shown in summary_lines(run) for word in shown.split()}
    paths = {run.record for run in side_by_side}
    shown = {word for column in narrow.columns for cell in column.cells for word in str(cell).split()}
    assert shown >= {word for word in whole if len(word) <= 20}
    assert not paths & shown
    assert not any(path.startswith(word) for path in paths for word in shown if word.startswith("/"))
    (wide,) = summary_tables(side_by_side, 1_000)
    assert paths <= {str(cell) for column in wide.columns for cell in column.cells}


def test_the_text_of_one_run_has_its_whole_path_and_of_several_only_if_it_fits(side_by_side: list[JudgedRun]) -> None:
    one = msgspec.structs.replace(side_by_side[0], record="/" + "long-path/" * 20)
    assert f"record               {one.record}" in summary_text([one], 80).splitlines()
    assert "long-path/" not in summary_text([one, one], 80)
    short = msgspec.structs.replace(one, record="runs/x")
    assert summary_text([short, short], 80).splitlines()[-1].split() == ["record", "runs/x", "runs/x"]


def test_every_column_of_many_runs_has_the_name_of_its_record(side_by_side: list[JudgedRun]) -> None:
    names = [f"20261126T15020{at}-last-replica-standing-3.9.1-a50{at}" for at in range(6)]
    runs = [msgspec.structs.replace(side_by_side[0], record=f"/home/{'x' * 90}/runs/{name}") for name in names]
    lines = summary_text(runs, 200).splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("record "))
    first = lines[begin].index("20261126")
    width = lines[begin].index("20261126", first + 1) - first
    found = ["".join(line[first + at * width :][:width].strip() for line in lines[begin:]) for at in range(len(runs))]
    assert found == names
    assert all(part in lines[begin] for part in ("20261126T150200-", "20261126T150205-"))
    drawn = [column for table in summary_tables(runs, 80) for column in table.columns[1:]]
    assert ["".join(str([*column.cells][-1]).split()) for column in drawn] == names


def test_the_text_of_many_runs_is_several_tables_that_fit(side_by_side: list[JudgedRun]) -> None:
    text = summary_text(side_by_side * 2, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.split("\n\n")) == 2
