"""`ebbtide runs` shows what own producers lost, where any did."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from records import RecordBuilder

from ebbtide.errors import ExitCode
from ebbtide.record.folder import RecordFolder
from ebbtide.record.own_producers import OwnProducer
from ebbtide.record.verdict import unfinished_verdict, write_verdict
from harness.cli.main import main


@pytest.mark.parametrize("lost", [0, 500])
def test_a_run_with_published_ports_is_listed_with_its_own_losses(
    lost: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    record = RecordBuilder().send(1).write(tmp_path / "runs" / "run-1")
    own = OwnProducer(client="orders-1", acks=1, topic="orders", partition=0, acked=600, lost=lost)
    judged = msgspec.structs.replace(unfinished_verdict("run-1"), outcome="contradicted", own_producers=[own])
    write_verdict(RecordFolder(record), judged)
    assert main(["runs", "--runs", str(tmp_path / "runs"), "--json"]) == ExitCode.AS_PREDICTED
    row = msgspec.json.decode(capsys.readouterr().out)
    assert row["own_lost"] == lost
    main(["runs", "--runs", str(tmp_path / "runs")])
    listed = capsys.readouterr().out
    assert ("yours lost" in listed) == bool(lost)
    assert ("500" in listed) == bool(lost)
