"""A run that fails says where its record is: what was recorded may say why, and can be judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import harness.runner.run as run_module
from cluster.host.ledger import Ledger
from ebbtide.errors import HarnessError
from ebbtide.record.folder import RecordFolder
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


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder of runs, which take nothing of the host."""
    open_ledger = Ledger.open
    monkeypatch.setattr(run_module._Run, "_ensure_class_archives", lambda _: None)
    monkeypatch.setattr(Ledger, "open", lambda run, record: open_ledger(run, record, ledgers=tmp_path / "ledgers"))
    return tmp_path / "runs"


def last_note(runs: Path, ended: type[BaseException]) -> str:
    """Return the last note of a run that ends with this error."""
    display = NotedDisplay()
    with pytest.raises(ended):
        run_scenario(RunRequest(scenario=catalogue.find("healthy"), kafka="4.3.1", seed=1, runs=runs), display)
    return display.notes[-1]


def test_a_run_that_fails_names_its_record(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise HarnessError("no cluster can start here")

    monkeypatch.setattr(run_module, "open_runtime", refuse)
    said = last_note(here, HarnessError)
    (record,) = here.iterdir()
    assert said == f"failed; what was recorded is in {record}"
    assert read_manifest(RecordFolder(record)).status == "failed"


@pytest.mark.parametrize("journals", [[], ["producer-1.journal"]], ids=["before", "after"])
def test_only_a_run_with_clients_is_to_be_judged_after_ctrl_c(
    here: Path, monkeypatch: pytest.MonkeyPatch, journals: list[str]
) -> None:
    def interrupt(*_: Any, folder: Path, **__: Any) -> None:
        for journal in journals:
            (folder / "journal").mkdir(exist_ok=True)
            (folder / "journal" / journal).touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "open_runtime", interrupt)
    said = last_note(here, KeyboardInterrupt)
    (record,) = here.iterdir()
    nothing = f"nothing was sent, so there is nothing to judge; what was recorded is in {record}"
    assert said == (f"to judge the run so far: ebbtide analyze {record}" if journals else nothing)
    assert read_manifest(RecordFolder(record)).status == "interrupted"
