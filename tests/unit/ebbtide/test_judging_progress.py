"""Who waits for a verdict hears how far judging is."""

from __future__ import annotations

import pytest

from ebbtide.judging_progress import Heartbeat, ProgressListener, last_place, progress_line

LINE = "judging for 20 s: 1 of 3 records done, stage 2 of 7: summing up"


def test_a_line_says_since_when_the_records_that_are_done_and_the_stage() -> None:
    assert progress_line(20.4, 1, 3, "2 of 7: summing up") == LINE
    assert last_place(f"WARN of Spark\n{LINE}\nWARN of Spark\n") == "2 of 7: summing up"
    assert last_place("WARN of Spark\n") is None


def test_each_stage_is_printed_where_another_process_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with Heartbeat(2, each_stage=True) as beat:
        beat.stage("reading")
        beat.report_judged()
        beat.stage("judging")
    assert capsys.readouterr().err.splitlines() == [
        "judging for 0 s: 0 of 2 records done, stage 1 of 7: reading",
        "judging for 0 s: 1 of 2 records done, stage 7 of 7: judging",
    ]


def test_only_whole_progress_lines_of_another_process_are_passed_on_and_each_once() -> None:
    said: list[str] = []
    listener = ProgressListener(said.append)
    begun = f"   1.0s  judging\n{LINE}\n{LINE[:-3]}"
    listener.hear(begun)
    listener.hear(begun)
    assert said == [LINE]
    listener.hear(f"{begun}ing\n")
    assert said == [LINE, f"{LINE[:-3]}ing"]
    for line in ("   1.0s  judging", LINE):
        listener.hear_line(line)
    assert said[2:] == [LINE]
