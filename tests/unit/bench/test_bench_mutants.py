"""Which mutants bench.mutate_reconcile runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from bench import mutate_reconcile
from bench.mutate_reconcile import SparkEnded, Suite, _run, main, mutants_by_name, select_mutants
from bench.reconcile_mutants import MUTANTS, ONLY_NARROWED
from harness.cli.judging import JudgingSession

ROOT = Path(__file__).parents[3]


def test_all_run_unless_some_are_named() -> None:
    assert list(select_mutants([]).values()) == list(MUTANTS)


def test_a_module_stands_for_its_mutants_and_a_number_for_one() -> None:
    modules = {mutant[0].__name__ for mutant in select_mutants(["lost", "vanished"]).values()}
    assert modules == {"analysis.judge.rules.losses.lost", "analysis.judge.rules.losses.vanished"}
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
    assert "inconsistent_offset, input_skipped, lost, " in said


class FakeSession:
    """A session without Spark."""

    def spark_for(self, records: list[Path]) -> None:
        """Start nothing."""

    def collect_garbage(self) -> None:
        """Collect nothing."""


class UnplannableSuite(Suite):
    """Spark can plan the modules as they are, and no mutant."""

    def __init__(self) -> None:
        self._asked = 0
        self._records = []

    def differs(self, spark: SparkSession, *, only_narrowed: bool | None = None) -> str | None:
        self._asked += 1
        if self._asked > 1:
            raise AnalysisException("no such column")
        return None


def test_a_mutant_that_spark_cannot_plan_is_broken_and_not_caught(capsys: pytest.CaptureFixture[str]) -> None:
    session = cast("JudgingSession", FakeSession())
    assert _run(UnplannableSuite(), session, select_mutants(["lost-1"])) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("BROKEN")
    assert last == "once more: python -m bench.mutate_reconcile lost-1"


@pytest.mark.parametrize("name", mutants_by_name())
def test_what_a_mutant_changes_stands_in_its_module_once(name: str) -> None:
    module, before, after = mutants_by_name()[name]
    assert Path(module.__file__ or "").read_text().count(before) == 1
    assert after != before


def test_what_only_a_narrowed_reconciliation_runs_is_not_mutated_without_one() -> None:
    named = {name for name, mutant in mutants_by_name().items() if mutant[1] in ONLY_NARROWED}
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


_DYING = """
import os, signal, sys
from analysis.spark.session import Jvm
from bench import mutate_reconcile

calls = 0
whole = mutate_reconcile.reconcile_all

def dying(spark, records):
    global calls
    calls += 1
    if calls == 2:  # the first call is that without a mutant
        os.kill(Jvm.running._gateway.proc.pid, signal.SIGKILL)
    return whole(spark, records)

mutate_reconcile.reconcile_all = dying
sys.exit(mutate_reconcile.main(["damaged-1", "send_order-1", "--histories", "1", "--whole"]))
"""


@pytest.mark.spark
def test_a_mutant_with_which_spark_ended_runs_once_more_and_does_not_count_as_caught_by_that() -> None:
    words = [sys.executable, "-c", _DYING]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "Spark ended with damaged-1, which says nothing about the tests: once more" in done.stderr
    assert done.stdout.splitlines() == [
        "not run with --whole         send_order-1: only a narrowed reconciliation runs it",
        "caught by random histories   damaged-1: value IS NULL",
        "1 of 1 mutants caught",
    ]


class EndingSuite(Suite):
    """Spark ends with each mutant."""

    def __init__(self, folder: Path, histories: int, *, narrowed: bool) -> None:
        self._asked = 0
        self._records = []

    def differs(self, spark: SparkSession, *, only_narrowed: bool | None = None) -> str | None:
        self._asked += 1
        if self._asked > 1:
            raise SparkEnded("Spark ended", got="Py4JNetworkError")
        return None


def test_the_bench_ends_with_an_error_if_spark_ends_twice_with_a_mutant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mutate_reconcile, "Suite", EndingSuite)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(JudgingSession, "spark_for", FakeSession.spark_for)
    assert main(["lost-1"]) == 1
    said = capsys.readouterr()
    assert "once more" in said.err
    assert "error: Spark ended twice with lost-1" in said.err
    assert "caught" not in said.out
