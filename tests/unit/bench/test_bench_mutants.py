"""The mutants of the reconciliation and of the unclean recovery: what each changes is there, and a survivor is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkout import ROOT

from bench.mutate_reconcile import mutants_by_name, select_mutants
from bench.mutate_recovery import MUTANTS, main
from bench.reconcile_mutants import all_mutants


def test_a_module_stands_for_its_mutants_and_a_number_for_one() -> None:
    modules = {mutant[0].__name__ for mutant in select_mutants(["lost", "vanished"]).values()}
    assert modules == {"analysis.judge.rules.losses.lost", "analysis.judge.rules.losses.vanished"}
    assert list(select_mutants(["lost-2"]).values()) == [
        [mutant for mutant in all_mutants() if mutant[0].__name__.endswith(".lost")][1]
    ]


def test_what_a_mutant_of_the_reconciliation_changes_stands_in_its_module_once_and_it_is_python() -> None:
    for name, (module, before, after) in mutants_by_name().items():
        text = Path(module.__file__ or "").read_text()
        assert text.count(before) == 1, name
        assert after != before, name
        compile(text.replace(before, after), name, "exec")


def test_what_a_mutant_of_the_recovery_changes_stands_in_its_module_once_and_its_test_exists() -> None:
    for name, mutant in MUTANTS.items():
        assert (ROOT / "analysis" / "spec" / mutant.module).read_text().count(mutant.before) == 1, name
        assert mutant.after != mutant.before, name
        assert f"def {mutant.killer}(" in (ROOT / "tests" / "spec" / mutant.test_file).read_text(), name


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
