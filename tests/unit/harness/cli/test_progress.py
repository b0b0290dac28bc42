"""A long analysis shows its stages and its records on a terminal, and a line every 10 s elsewhere."""

from __future__ import annotations

import io
import re

import pytest
from checkout import ROOT
from rich.console import Console

from ebbtide import judging_progress
from ebbtide.judging_progress import STAGES, place_of
from ebbtide.waiting import wait_until
from harness.cli.progress import records_note, shown_progress

REPLACING = "and replacing the verdict and the report in each:"


def test_a_terminal_shows_the_stage_with_its_place_and_the_records_that_are_done() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, _environ={"TERM": "xterm"})
    with shown_progress(console) as progress:
        progress.report_records(["runs/one", "runs/two", "runs/three"])
        progress.stage("starting Spark")
        progress.stage("comparing records")
        progress.report_judged("one")
    assert isinstance(console.file, io.StringIO)
    last = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", console.file.getvalue())
    assert re.search(r"records, the last one .* 1/3 ", last)
    assert "judging 5 of 7: comparing records" in last


def test_a_quick_analysis_in_a_pipe_only_names_its_records(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress() as progress:
        progress.report_records(["runs/one", "runs/two", "runs/three"])
        progress.stage("reading")
        progress.report_judged("one")
    assert capsys.readouterr().err == f"judging 3 records, {REPLACING} runs/one, runs/two, runs/three\n"


def test_a_slow_analysis_in_a_pipe_says_its_stage_and_its_records_again_and_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(judging_progress, "EVERY_S", 0.01)
    said = ""

    def has_said(line: str) -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return sum(one.endswith(f" s: {line}") for one in said.splitlines()) > 1

    with shown_progress() as progress:
        progress.report_records(["runs/one", "runs/two"])
        for line in (
            "0 of 2 records done, stage 5 of 7: comparing records",
            "1 of 2 records done, stage 7 of 7: judging",
        ):
            progress.stage(line.rpartition(": ")[2])
            wait_until(lambda line=line: has_said(line), awaited=line, timeout_s=30)  # type: ignore[misc]
            progress.report_judged("one")


def test_the_first_records_of_many_are_named_before_their_verdicts_are_replaced() -> None:
    assert records_note(["runs/one"]) == "judging 1 record"
    names = [f"runs/{number}" for number in range(1_004)]
    assert records_note(names) == f"judging 1,004 records, {REPLACING} runs/0, runs/1, runs/2 and 1,001 more"


def test_a_terminal_names_the_records_before_the_bar_without_breaking_a_path() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=60, _environ={"TERM": "xterm"})
    with shown_progress(console) as progress:
        progress.report_records(["runs/a-rather-long-name", "runs/another-long-name"])
    assert isinstance(console.file, io.StringIO)
    assert f"{REPLACING} runs/a-rather-long-name, runs/another-long-name\n" in console.file.getvalue()


def test_every_stage_that_the_analysis_reports_has_its_place() -> None:
    sources = [path for top in ("analysis", "harness/cli") for path in (ROOT / top).rglob("*.py")]
    reported = {stage for path in sources for stage in re.findall(r'\bstage\("([^"]+)"\)', path.read_text())}
    assert reported == set(STAGES)
    assert [place_of(stage) for stage in STAGES][1] == "2 of 7: summing up"
