"""Which mutants bench.mutate_reconcile runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.mutate_reconcile import MUTANTS, chosen, main, named


def test_all_run_unless_some_are_named() -> None:
    assert list(chosen([]).values()) == list(MUTANTS)


def test_a_module_stands_for_its_mutants_and_a_number_for_one() -> None:
    modules = {mutant[0].__name__ for mutant in chosen(["lost", "vanished"]).values()}
    assert modules == {"analysis.reconcile.lost", "analysis.reconcile.vanished"}
    assert list(chosen(["lost-2"]).values()) == [[mutant for mutant in MUTANTS if "lost" in mutant[0].__name__][1]]
    assert list(chosen(["lost-2", "lost"])) == list(chosen(["lost"]))


@pytest.mark.parametrize("name", ["los", "lost-99", "lost-0", ""])
def test_a_name_that_none_has_is_refused_with_those_that_there_are(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name])
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"is called {name!r}: there are " in said
    assert "hw_regression, inconsistent_offset, lost, " in said


@pytest.mark.parametrize("name", named())
def test_what_a_mutant_changes_stands_in_its_module_once(name: str) -> None:
    module, before, after = named()[name]
    assert Path(module.__file__ or "").read_text().count(before) == 1
    assert after != before
