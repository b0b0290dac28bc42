"""The mutants of the causes' core: each is one change, and a history notices a row that the table lacks."""

from __future__ import annotations

import pytest

from bench.equivalent_causes import EQUIVALENT
from bench.mutate_causes import MODULES, main, mutants_of


def test_a_row_that_the_table_lacks_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["table", "--only", "'last-replica-standing'", "--histories", "40", "--degraded", "0"]
    main(wanted)
    lines = capsys.readouterr().out.splitlines()
    without_the_row = next(line for line in lines if "TABLE" in line and "not for" not in line)
    assert without_the_row.startswith("killed")
    assert lines[-1].split()[1].startswith("killed")


def test_each_module_has_mutants() -> None:
    for module in MODULES:
        names = [mutant.name for mutant in mutants_of(module)]
        assert names, module


def test_each_equivalent_mutant_still_exists() -> None:
    names = {mutant.name for module in MODULES for mutant in mutants_of(module)}
    assert set(EQUIVALENT) <= names


def test_a_module_without_mutants_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["answer"])
    assert "table, answer" in capsys.readouterr().err
