"""The mutants of the causes' core: each is one change; a history notices a planted one, and a survivor is reported."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench import mutate_causes
from bench.cause_mutants import mutants_of
from bench.equivalent_causes import EQUIVALENT
from bench.mutate_causes import MODULES, main

ROW = "without 8"
"""The table without its row of the last replica standing."""
ONLY_THIS_ROW = ("table", "--only", ROW, "--degraded", "0")


@pytest.fixture(autouse=True)
def only_the_asked_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutate_causes, "UNIT_TESTS", ())
    monkeypatch.setattr(mutate_causes, "KILLERS", ())
    monkeypatch.setattr(mutate_causes, "KILLERS_DEGRADED", ())


def _ran(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> tuple[int, list[str]]:
    code = main(arguments)
    return code, capsys.readouterr().out.splitlines()


def test_a_row_that_the_table_lacks_makes_an_answer_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = _ran(capsys, [*ONLY_THIS_ROW, "--histories", "30"])
    assert code == 0
    assert lines[0].startswith("killed     a wrong answer in")
    assert lines[-1].startswith("1 killed, 0 equivalent, 0 SURVIVED")


def test_what_no_history_notices_is_reported_as_a_survivor(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = _ran(capsys, [*ONLY_THIS_ROW, "--histories", "0"])
    assert code == 1
    assert lines[0].startswith("SURVIVED")
    assert lines[-1].startswith("0 killed, 0 equivalent, 1 SURVIVED")


def test_each_module_has_mutants_and_each_equivalent_mutant_still_exists() -> None:
    names = {module: [mutant.name for mutant in mutants_of(module)] for module in MODULES}
    assert all(names.values())
    assert set(EQUIVALENT) <= set().union(*names.values())
