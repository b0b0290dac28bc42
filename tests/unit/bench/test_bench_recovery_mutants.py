"""The mutants of the unclean recovery stand in the specification, and their tests exist."""

from __future__ import annotations

import pytest
from checkout import ROOT

from bench.mutate_recovery import MUTANTS, main


@pytest.mark.parametrize("name", MUTANTS)
def test_what_a_mutant_changes_stands_in_its_module_once(name: str) -> None:
    mutant = MUTANTS[name]
    assert (ROOT / "analysis" / "spec" / mutant.module).read_text().count(mutant.before) == 1
    assert mutant.after != mutant.before
    assert f"def {mutant.killer}(" in (ROOT / "tests" / "spec" / mutant.test_file).read_text()


def test_a_mutant_that_its_test_misses_survives(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blind = MUTANTS["choice-1"]._replace(killer="test_manual_elects_nobody_whatever_the_replies")
    monkeypatch.setitem(MUTANTS, "choice-2", blind)
    assert main(["choice-1", "choice-2"]) == 1
    first, second, _, last = capsys.readouterr().out.splitlines()
    assert first.endswith("killed by test_the_longest_log_is_elected")
    assert second.endswith("SURVIVED")
    assert last == "once more: python -m bench.mutate_recovery choice-2"
