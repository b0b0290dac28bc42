"""A long analysis shows its stages and its records on a terminal, and a line now and then elsewhere."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from checkout import ROOT
from rich.console import Console

from harness.cli.progress import STAGES, shown_progress, stage_text


def test_a_terminal_shows_the_stage_with_its_place_and_the_records_that_are_done() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, _environ={"TERM": "xterm"})
    with shown_progress(console) as progress:
        progress.report_count(3)
        progress.stage("starting Spark")
        progress.stage("comparing records")
        progress.report_judged(Path("runs/one"))
    assert isinstance(console.file, io.StringIO)
    last = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", console.file.getvalue())
    assert re.search(r"records, the last one .* 1/3 ", last)
    assert "judging 5 of 7: comparing records" in last


def test_stages_are_for_terminals_and_records_for_everybody(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress() as progress:
        progress.report_count(3)
        progress.stage("reading")
        progress.report_judged(Path("runs/one"))
    assert capsys.readouterr().err == "judging 3 records\n"


def test_every_stage_that_the_analysis_reports_has_its_place() -> None:
    sources = [path for top in ("analysis", "harness/cli") for path in (ROOT / top).rglob("*.py")]
    reported = {stage for path in sources for stage in re.findall(r'\bstage\("([^"]+)"\)', path.read_text())}
    assert reported == set(STAGES)
    assert [stage_text(stage) for stage in STAGES][1] == "judging 2 of 7: reading"
