"""What a terminal shows of judged runs: each word whole, each path in one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from judge_records import last_replica_standing
from records import as_record
from rich.text import Text

from ebbtide.record.folder import RecordFolder
from ebbtide.record.verdict import Verdict
from ebbtide.streams import shown_output
from harness.cli.verdict_output import VerdictOutput

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


def test_elsewhere_a_reason_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last_replica_standing(tmp_path).judge()
    output = VerdictOutput(1, as_json=False)
    output.add(RecordFolder(tmp_path), Verdict(run_id="r", outcome="inconclusive", why=[WHY]))
    output.end()
    assert f"\n  - {WHY}\n" in capsys.readouterr().out


def test_a_record_that_was_just_judged_is_not_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = last_replica_standing(tmp_path).judge()
    output = VerdictOutput(1, as_json=False)
    output.see(as_record(tmp_path), verdict)
    shutil.rmtree(tmp_path)
    output.add(RecordFolder(tmp_path), verdict, named="hdfs://there/run")
    output.end()
    assert "  report: hdfs://there/run/report.html\n" in capsys.readouterr().out
