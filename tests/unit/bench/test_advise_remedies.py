"""The scenarios by which bench.advise_remedies shows that a set of changes saves an event."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import advise_remedies
from bench.advise_remedies import SETS, pair_of
from ebbtide.scenario.parse import parse
from tools.pages.measured import read_measured

PAIR = next(one for one in SETS if one.rf == 2)


def test_a_pair_is_the_same_event_with_and_without_the_changes(tmp_path: Path) -> None:
    paths = pair_of(tmp_path, PAIR, "power-1-worst")
    without, after = (parse(path.read_text(), file=str(path)) for path in paths)
    predicted = [one.predictions[0].loss for one in (without, after)]
    assert [one is not None and one.committed for one in predicted] == ["some", "none"]
    assert without.cluster.features != after.cluster.features
    assert without.steps[0] == after.steps[0]


def test_what_ran_is_kept_and_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(advise_remedies, "_RESULT", tmp_path / "advised-remedies.json")
    monkeypatch.setattr(advise_remedies, "SETS", (PAIR,))
    monkeypatch.setattr(advise_remedies, "pair_of", lambda *_: (Path("without"), Path("after")))
    monkeypatch.setattr(advise_remedies, "_run", lambda _, scenario, kafka: ran.append(kafka) or str(scenario))
    monkeypatch.setattr(sys, "argv", ["advise_remedies", str(tmp_path / "runs")])
    assert advise_remedies.main() == advise_remedies.main() == 0
    assert ran == ["4.3.1", "4.3.1"]
    (row,) = read_measured(tmp_path / "advised-remedies.json").rows
    assert row[-2:] == ("without", "after")
    assert len(capsys.readouterr().out.splitlines()) == 1
