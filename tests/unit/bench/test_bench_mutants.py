"""Which mutants bench.mutate_reconcile runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.mutate_reconcile import mutants_by_name, select_mutants
from bench.reconcile_mutants import all_mutants, is_only_narrowed


def test_a_module_stands_for_its_mutants_and_a_number_for_one() -> None:
    modules = {mutant[0].__name__ for mutant in select_mutants(["lost", "vanished"]).values()}
    assert modules == {"analysis.judge.rules.losses.lost", "analysis.judge.rules.losses.vanished"}
    assert list(select_mutants(["lost-2"]).values()) == [
        [mutant for mutant in all_mutants() if mutant[0].__name__.endswith(".lost")][1]
    ]
    assert list(select_mutants(["lost-2", "lost"])) == list(select_mutants(["lost"]))


@pytest.mark.parametrize("name", mutants_by_name())
def test_what_a_mutant_changes_stands_in_its_module_once(name: str) -> None:
    module, before, after = mutants_by_name()[name]
    assert Path(module.__file__ or "").read_text().count(before) == 1
    assert after != before


def test_what_only_a_narrowed_reconciliation_runs_is_not_mutated_without_one() -> None:
    named = {name for name, mutant in mutants_by_name().items() if is_only_narrowed(mutant)}
    of_sums_and_choice = (
        "choose-",
        "compare-",
        "groups-",
        "replicas-",
        "row_batches-",
        "send_order-",
        "values-",
    )
    assert named == {name for name in mutants_by_name() if name.startswith(of_sums_and_choice)}
