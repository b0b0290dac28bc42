"""What a command prints fits the terminal: tables, progress, and verdicts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from checkout import ROOT
from judge_records import last_replica_standing
from records import as_record
from rich.text import Text

from ebbtide import judging_progress
from ebbtide.judging_progress import STAGES, Heartbeat, place_of
from ebbtide.record.files import RecordFolder
from ebbtide.record.verdict import Verdict
from ebbtide.streams import shown_output
from ebbtide.waiting import wait_until
from harness.cli.output import print_table
from harness.cli.progress import report_records
from harness.cli.verdict_output import VerdictOutput

HEADERS = ["event", "likely", "acks=0", "acks=all"]
ROWS = [
    ["the ELR is turned off, and min.insync.replicas lowered", "very rare", "loses", "loses"],
    ["a broker process is killed", "common", "unknown", "survives"],
]


def shown(columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[str, list[str]]:
    """Print to a terminal of so many columns; returns what it shows, and the columns left out."""
    for name, value in (("COLUMNS", str(columns)), ("TERM", "xterm"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    left_out = print_table(HEADERS, ROWS, least={0: 20}, optional=(1, 2))
    return Text.from_ansi(capsys.readouterr().out).plain, left_out


@pytest.mark.parametrize(
    ("columns", "left_out"), [(120, []), (60, []), (50, []), (49, ["likely"]), (35, ["likely", "acks=0"])]
)
def test_no_line_is_wider_than_the_terminal(
    columns: int,
    left_out: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, missing = shown(columns, monkeypatch, capsys)
    assert max(map(len, out.splitlines())) <= columns
    assert missing == left_out
    assert "survives" in out


CHECKS = [
    ["java", "ok", "/usr/lib/jvm/java-21-openjdk-amd64/bin/java, which is version 21 of some vendor or other"],
    ["cache folder", "ok", "it can be written"],
]


@pytest.mark.parametrize(("columns", "drawn"), [(120, True), (80, True), (60, True), (40, False)])
def test_a_path_is_never_cut_and_a_word_is_never_broken(
    columns: int, drawn: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("COLUMNS", str(columns)), ("TERM", "xterm"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_table(["check", "state", "seen"], CHECKS)
    out = Text.from_ansi(capsys.readouterr().out).plain
    assert ("───" in out) is drawn
    assert set(" ".join(word for row in CHECKS for word in row).split()) <= set(out.split())
    assert all(len(line) <= columns for line in out.splitlines() if "/usr/lib" not in line)


# A long analysis says its stage and its records every 10 s.


def test_a_header_above_rows_of_two_lines_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    path = "/runs/" + "x" * 40
    print_table(["outcome", "lost", "record"], [["as-predicted", "0", path]])
    assert capsys.readouterr().out.splitlines() == [
        "outcome       lost  record",
        "as-predicted  0",
        f"    {path}",
    ]
    print_table(["outcome", "lost", "yours lost", "record"], [["as-predicted (failed)", "0", "1 of 2", path]])
    assert capsys.readouterr().out.splitlines() == [
        "outcome                lost  yours lost",
        "    record",
        "as-predicted (failed)  0     1 of 2",
        f"    {path}",
    ]
    print_table(["outcome", "lost", "record"], [["as-predicted (because it failed at once)", "0", path]])
    assert all(len(line) <= 40 for line in capsys.readouterr().out.splitlines() if path not in line)


def test_a_slow_analysis_says_its_stage_and_its_records_again_and_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(judging_progress, "EVERY_S", 0.01)
    said = ""

    def has_said(line: str) -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return sum(one.endswith(f" s: {line}") for one in said.splitlines()) > 1

    with Heartbeat() as beat:
        report_records(beat, ["runs/one", "runs/two"], first=False)
        for line in (
            "0 of 2 runs done, stage 5 of 7: comparing records",
            "1 of 2 runs done, stage 7 of 7: judging",
        ):
            beat.stage(line.rpartition(": ")[2])
            wait_until(lambda line=line: has_said(line), awaited=line, timeout_s=30)  # type: ignore[misc]
            beat.report_judged()


def test_every_stage_that_the_analysis_reports_has_its_place() -> None:
    sources = [path for top in ("analysis", "harness/cli") for path in (ROOT / top).rglob("*.py")]
    reported = {stage for path in sources for stage in re.findall(r'\bstage\("([^"]+)"\)', path.read_text())}
    assert reported == set(STAGES)
    assert [place_of(stage) for stage in STAGES][1] == "2 of 7: summing up"


# What a terminal shows of judged runs: each word whole, each path in one line.


WHY = "no-committed-loss-unless-allowed (KIP-966) is unknown: the table sends of this record is missing, or damaged"


@pytest.mark.parametrize("runs", [1, 3])
def test_a_narrow_terminal_breaks_no_word_and_no_path(
    runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("COLUMNS", "60"), ("TERM", "xterm"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    last_replica_standing(tmp_path).judge()
    output = VerdictOutput(runs, as_json=False)
    for _ in range(runs):
        output.add(RecordFolder(tmp_path), Verdict(run_id="r", outcome="inconclusive", why=[WHY, "a second reason"]))
    with shown_output():
        output.end()
    out = Text.from_ansi(capsys.readouterr().out).plain
    assert set(WHY.split()) <= set(out.split())
    assert "\n    " in out
    assert "\n  - a second reason\n" in out
    assert out.count(f"  report: {tmp_path}/report.html\n") == runs
    assert all(len(line.rstrip()) <= 60 for line in out.splitlines() if str(tmp_path) not in line)


def test_a_record_that_was_just_judged_is_not_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = last_replica_standing(tmp_path).judge()
    output = VerdictOutput(1, as_json=False)
    output.see(as_record(tmp_path), verdict)
    shutil.rmtree(tmp_path)
    output.add(RecordFolder(tmp_path), verdict, named="hdfs://there/run")
    output.end()
    assert "  report: hdfs://there/run/report.html\n" in capsys.readouterr().out
