"""A run that fails says where its record is: what was recorded may say why, and can be judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import harness.runner.run as run_module
from cluster.host.ledger import Ledger
from ebbtide.errors import HarnessError
from ebbtide.record.manifest import read_manifest
from ebbtide.scenario import catalogue
from harness.runner.display import Display
from harness.runner.run import RunRequest, run_scenario


class NotedDisplay(Display):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep a note."""
        self.notes.append(text)


def test_a_run_that_fails_names_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise HarnessError("no cluster can start here")

    open_ledger = Ledger.open
    monkeypatch.setattr(run_module, "open_runtime", refuse)
    monkeypatch.setattr(run_module._Run, "_ensure_class_archives", lambda _: None)
    monkeypatch.setattr(Ledger, "open", lambda run, record: open_ledger(run, record, ledgers=tmp_path / "ledgers"))
    display = NotedDisplay()
    request = RunRequest(scenario=catalogue.find("healthy"), kafka="4.3.1", seed=1, runs=tmp_path / "runs")
    with pytest.raises(HarnessError, match="no cluster can start here"):
        run_scenario(request, display)
    (record,) = (tmp_path / "runs").iterdir()
    assert display.notes[-1] == f"failed; what was recorded is in {record}"
    assert read_manifest(record).status == "failed"
