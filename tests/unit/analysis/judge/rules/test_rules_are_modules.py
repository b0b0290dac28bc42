"""A clause is one module, and all that other modules know of it is made from there."""

from __future__ import annotations

import ast
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from checkout import ROOT

from analysis.judge import rules
from analysis.judge.rules.registry import CLAUSES, SUBJECTS
from ebbtide.rules import table
from tools.pages import rules as pages
from tools.pages.rules import main as write_table_and_page

FOLDER = ROOT / "analysis" / "judge" / "rules"
MODULES = [
    import_module(f"{rules.__name__}.{subject}.{one.name}")
    for subject in SUBJECTS
    for one in pkgutil.iter_modules([str(FOLDER / subject)])
]
SHARED = {"contact", "promised", "states", "verification"}
"""Modules of subjects that several clauses or the coverage facts use."""


def test_every_folder_of_clauses_is_a_subject() -> None:
    assert {path.parent.name for path in FOLDER.glob("*/__init__.py")} == set(SUBJECTS)


@pytest.mark.parametrize("module", MODULES, ids=lambda one: one.__name__.rpartition(".")[2])
def test_a_module_of_a_subject_has_one_rule_of_its_name_or_is_shared(module: ModuleType) -> None:
    name = module.__name__.rpartition(".")[2]
    if name in SHARED:
        assert not hasattr(module, "RULE")
    else:
        assert module.RULE.name == name.replace("_", "-")


def rules_imported_in(source: str) -> set[str]:
    """The modules of clauses that a source imports."""
    names = {clause.name.replace("-", "_") for clause in CLAUSES}
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(rules.__name__):
            imported |= names & {*(node.module or "").split("."), *(alias.name for alias in node.names)}
    return imported


def test_no_module_but_the_registry_imports_a_rule() -> None:
    sources = [path for top in ("analysis", "harness", "ebbtide") for path in (ROOT / top).rglob("*.py")]
    assert {path.name: found for path in sources if (found := rules_imported_in(path.read_text()))} == {}


def test_an_import_of_a_rule_is_seen() -> None:
    planted = "from analysis.judge.rules.partitions.leader_in_isr import RULE"
    assert rules_imported_in(planted) == {"leader_in_isr"}
    assert rules_imported_in("from analysis.judge.rules.partitions import leader_in_isr") == {"leader_in_isr"}


def test_the_table_and_the_page_are_made_from_the_rules() -> None:
    made_by = "make them anew: python -m tools.pages.rules"
    assert pages.TABLE.read_bytes() == pages.table(), made_by
    assert pages.PAGE.read_text() == pages.page(pages.PAGE.read_text()), made_by


def test_the_program_writes_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clauses.md").write_text(re.sub(r"\| KIP-\d+ \|", "| an old KIP |", pages.PAGE.read_text()))
    made = pages.table(), pages.PAGE.read_text()
    monkeypatch.setattr(pages, "PAGE", tmp_path / "clauses.md")
    monkeypatch.setattr(pages, "TABLE", tmp_path / "rules.json")
    assert write_table_and_page() == 0
    assert (pages.TABLE.read_bytes(), pages.PAGE.read_text()) == made


def test_no_rule_reads_the_table_that_is_made_from_it() -> None:
    sources = {path: path.read_text() for path in FOLDER.rglob("*.py")}
    assert [str(Path(path).name) for path, source in sources.items() if "ebbtide.rules" in source] == []


def test_the_names_that_code_speaks_of_are_clauses() -> None:
    names = {value for name, value in vars(table).items() if name.isupper() and isinstance(value, str)}
    assert names
    assert names <= {clause.name for clause in CLAUSES}
