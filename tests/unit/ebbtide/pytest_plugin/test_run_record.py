"""What pytest shows of a run where a test fails."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from checkout import DATA

from ebbtide.pytest_plugin.judgement import where_to_look
from ebbtide.pytest_plugin.run_record import read_record
from ebbtide.record.folder import RecordFolder
from ebbtide.record.judged_by import JudgedBy
from harness.cli.verdict_output import VerdictOutput

LOST = DATA / "runs" / "last-replica-standing-3.9.1"


def test_a_run_is_shown_in_one_short_line() -> None:
    run = read_record(LOST)
    assert repr(run) == f"RunRecord({str(run.path)!r}, as-predicted, lost_committed=2000, lost_uncommitted=0)"


def test_pytest_and_the_command_say_the_same_line_to_type_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # in the folder above a record, the command leaves the folder out of its path
    run = read_record(LOST)
    output = VerdictOutput(1, as_json=False)
    output.add(RecordFolder(LOST), run.verdict)
    output.end()
    (said,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  next: "))
    assert said in where_to_look(run)
    assert said.startswith(f"  next:   ebbtide explain {LOST} ")


def test_a_build_says_by_which_rules_it_is_judged() -> None:
    run = read_record(LOST)
    assert not any("judged" in line for line in where_to_look(run))
    protocol = JudgedBy(variant="elr-43", nearest="4.4.0", known=False)
    build = replace(run, kafka="4.5.0@0123abcd", verdict=msgspec.structs.replace(run.verdict, protocol=protocol))
    said = "  judged: by elr-43; 4.5.0@0123abcd is newer than every release that Ebbtide knows"
    assert where_to_look(build)[0] == said


def test_a_run_can_be_replayed_unless_its_cluster_was_only_watched(tmp_path: Path) -> None:
    assert where_to_look(read_record(LOST))[-1] == f"  again:  ebbtide replay {LOST}"
    shutil.copytree(LOST, tmp_path / "watched")
    file = tmp_path / "watched" / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"runtime": "foreign", "watch": {}}))
    assert not any("ebbtide replay" in line for line in where_to_look(read_record(tmp_path / "watched")))
