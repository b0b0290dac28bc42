"""Which mutants bench.mutate_reconcile runs."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import cast

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from analysis.reconcile import reconciling
from bench import mutate_reconcile
from bench.mutate_reconcile import MUTANTS, Suite, _run, main, mutants_by_name, select_mutants


def test_all_run_unless_some_are_named() -> None:
    assert list(select_mutants([]).values()) == list(MUTANTS)


def test_a_module_stands_for_its_mutants_and_a_number_for_one() -> None:
    modules = {mutant[0].__name__ for mutant in select_mutants(["lost", "vanished"]).values()}
    assert modules == {"analysis.reconcile.lost", "analysis.reconcile.vanished"}
    assert list(select_mutants(["lost-2"]).values()) == [
        [mutant for mutant in MUTANTS if "lost" in mutant[0].__name__][1]
    ]
    assert list(select_mutants(["lost-2", "lost"])) == list(select_mutants(["lost"]))


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


class UnplannableSuite(Suite):
    """Spark can plan the modules as they are, and no mutant."""

    def __init__(self) -> None:
        self._asked = 0

    def differs(self, spark: SparkSession) -> str | None:
        self._asked += 1
        if self._asked > 1:
            raise AnalysisException("no such column")
        return None


def test_a_mutant_that_spark_cannot_plan_is_broken_and_not_caught(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(UnplannableSuite(), cast("SparkSession", None), select_mutants(["lost-1"])) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("BROKEN")
    assert last == "once more: python -m bench.mutate_reconcile lost-1"


@pytest.mark.parametrize("name", mutants_by_name())
def test_what_a_mutant_changes_stands_in_its_module_once(name: str) -> None:
    module, before, after = mutants_by_name()[name]
    assert Path(module.__file__ or "").read_text().count(before) == 1
    assert after != before


@pytest.mark.spark
def test_a_spoilt_checker_is_caught_by_few_histories(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Of this process, which the benchmark takes for its own.
    monkeypatch.setattr(mutate_reconcile, "session", lambda: nullcontext(spark))
    monkeypatch.setattr(reconciling, "is_small", reconciling.is_small)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert main(["damaged-1", "--histories", "1", "--whole"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 1 mutants caught"
