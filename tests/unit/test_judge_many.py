"""What one record of many brings out stops no other: not even a bug."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.judge import many
from analysis.verdict import Counts, Verdict
from harness.cli import analyze, crash
from harness.errors import ExitCode
from harness.record.manifest import Manifest

VERDICT = Verdict(run_id="r", outcome="inconclusive", why=[], counts=Counts(sends=0, acked=0, polls=0))


@pytest.mark.parametrize("broken", ["ready", "conclude"])
def test_a_bug_that_one_record_brings_out_stops_no_other(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def done(what: str, record: Path, result: object) -> object:
        if what == broken and record.name == "bad":
            raise KeyError("a column")
        return result

    records = [tmp_path / name for name in ("good", "bad", "better")]
    monkeypatch.setattr(many, "ready", lambda record: done("ready", record, Manifest(run_id="r")))
    monkeypatch.setattr(many, "conclude", lambda record, *_: done("conclude", record, VERDICT))
    monkeypatch.setattr(many, "_reconciled", lambda found, *_: dict(found))
    monkeypatch.setattr(crash, "state_dir", lambda: tmp_path / "state")
    (_, good), (_, bad), (_, better) = many.judge_many(records, None)  # type: ignore[arg-type]
    assert good is better is VERDICT
    assert isinstance(bad, many.Bug)
    assert analyze.complain(str(records[1]), bad) == ExitCode.HARNESS_FAILED
    told = capsys.readouterr().err
    assert str(records[1]) in told
    (traceback,) = (tmp_path / "state" / "crashes").iterdir()
    assert str(traceback) in told
    assert "KeyError: 'a column'" in traceback.read_text()
