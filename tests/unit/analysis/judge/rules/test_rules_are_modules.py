"""A rule is one module, and all that other modules know of it is made from there."""

from __future__ import annotations

import ast
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from checkout import ROOT

from analysis.judge import rules
from analysis.judge.coverage.registry import declared_facts
from analysis.judge.rules import registry
from analysis.judge.rules.anomaly import Anomaly
from analysis.judge.rules.clause import Clause
from analysis.judge.rules.registry import ANOMALIES, CLAUSES, SUBJECTS
from analysis.spec.invariants import invariants_of
from analysis.spec.variants import VARIANTS
from ebbtide.rules import table
from tools.pages import rules as pages
from tools.pages.rules import main as write_table_and_pages

FOLDER = ROOT / "analysis" / "judge" / "rules"
MODULES = [
    import_module(f"{rules.__name__}.{subject}.{one.name}")
    for subject in SUBJECTS
    for one in pkgutil.iter_modules([str(FOLDER / subject)])
]


def test_every_folder_of_clauses_is_a_subject() -> None:
    assert {path.parent.name for path in FOLDER.glob("*/__init__.py")} == set(SUBJECTS)


@pytest.mark.parametrize("module", MODULES, ids=lambda one: one.__name__.rpartition(".")[2])
def test_a_module_of_a_subject_has_one_rule_of_its_name_or_is_shared(module: ModuleType) -> None:
    name = module.__name__.rpartition(".")[2]
    assert rules_declared_in(module) == ([] if is_imported(module) else [name.replace("_", "-")])


def is_imported(module: ModuleType) -> bool:
    """Whether rules or coverage facts import from the module; none imports from a clause."""
    folder, _, name = module.__name__.rpartition(".")
    words = (f"from {module.__name__} import ", f"from {folder} import {name}\n")
    sources = [path.read_text() for path in (ROOT / "analysis").rglob("*.py")]
    return not hasattr(module, "RULE") and any(word in source for source in sources for word in words)


def test_a_rule_without_an_example_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module(CLAUSES[0].module)
    monkeypatch.setattr(module, "RULE", msgspec.structs.replace(CLAUSES[0], example="sends: 0=1"))
    with pytest.raises(TypeError, match=f"{CLAUSES[0].name} has no example"):
        registry.rules_of(SUBJECTS[0])


def rules_declared_in(module: ModuleType) -> list[str]:
    """The names of the rules that a module declares, under any name."""
    return [one.name for one in vars(module).values() if isinstance(one, Anomaly | Clause) and _is_of(one, module)]


def _is_of(rule: Anomaly | Clause, module: ModuleType) -> bool:
    """Whether the module declares the rule; a clause may have imported its kind."""
    return rule.module == module.__name__


def rules_imported_in(source: str, *, by_clause: bool = False) -> set[str]:
    """The modules of rules that a source imports; a clause may import kinds of anomalies."""
    names = {one.name.replace("-", "_") for one in (CLAUSES if by_clause else (*CLAUSES, *ANOMALIES))}
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith(rules.__name__)):
            imported |= names & {*(node.module or "").split("."), *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Import):
            named = [alias.name for alias in node.names if alias.name.startswith(rules.__name__)]
            imported |= names & {name.rpartition(".")[2] for name in named}
    return imported


@pytest.mark.parametrize(
    "line",
    [
        f"from {rules.__name__}.losses.lost import RULE",
        f"from {rules.__name__}.losses import lost",
        f"import {rules.__name__}.losses.lost as lost",
        "from .lost import RULE",
        "def check():\n    from . import lost",
    ],
)
def test_an_import_of_a_rule_is_seen_in_every_form(line: str) -> None:
    assert rules_imported_in(line) == {"lost"}


def test_no_module_but_the_registry_imports_a_rule() -> None:
    sources = [path for top in ("analysis", "harness", "ebbtide") for path in (ROOT / top).rglob("*.py")]
    clauses = {f"{one.module.replace('.', '/')}.py" for one in CLAUSES}
    found = {
        path.name: imported
        for path in sources
        if (imported := rules_imported_in(path.read_text(), by_clause=str(path.relative_to(ROOT)) in clauses))
    }
    assert found == {}


PAGES = {"CLAUSES_PAGE": pages.clauses_page, "ANOMALIES_PAGE": pages.anomalies_page}


def test_the_table_and_the_pages_are_made_from_the_rules() -> None:
    made_by = "make them anew: python -m tools.pages.rules"
    assert pages.TABLE.read_bytes() == pages.table(), made_by
    for name, made_anew in PAGES.items():
        text = getattr(pages, name).read_text()
        assert text == made_anew(text), made_by


def test_the_program_writes_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [pages.table(), *(getattr(pages, name).read_text() for name in PAGES)]
    for name in PAGES:
        text = getattr(pages, name).read_text()
        (tmp_path / name).write_text(re.sub(r"\| (KIP-\d+|value at two offsets) \|", "| an old text |", text))
        monkeypatch.setattr(pages, name, tmp_path / name)
    monkeypatch.setattr(pages, "TABLE", tmp_path / "rules.json")
    assert write_table_and_pages() == 0
    assert [pages.TABLE.read_bytes(), *(getattr(pages, name).read_text() for name in PAGES)] == made


def test_no_rule_reads_the_table_that_is_made_from_it() -> None:
    sources = {path: path.read_text() for path in FOLDER.glob("*/*.py")}
    assert [str(Path(path).name) for path, source in sources.items() if "ebbtide.rules" in source] == []


def test_a_fact_is_declared_once() -> None:
    names = [fact.name for fact in declared_facts()]
    assert sorted(names) == sorted(set(names))


NAMED = {value for name, value in vars(table).items() if name.isupper() and isinstance(value, str)}
"""The rules that code speaks of."""


def test_the_names_that_code_speaks_of_are_rules() -> None:
    assert NAMED
    assert {rule.name for rule in (*CLAUSES, *ANOMALIES)} >= NAMED


def invariant_names() -> set[str]:
    """The names of the specification's invariants: a clause may be called as the invariant that it checks."""
    return {one.name for variant in VARIANTS for one in invariants_of(variant)}


def rules_spelt_in(source: str) -> set[str]:
    """The names of rules that a source has as strings, without words of English and names of invariants."""
    names = {rule.name for rule in (*CLAUSES, *ANOMALIES) if "-" in rule.name} - invariant_names()
    return {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)} & names


def test_a_rule_is_spelt_in_no_other_source() -> None:
    sources = [path for top in ("analysis", "harness", "ebbtide") for path in (ROOT / top).rglob("*.py")]
    spelt = {path.name: found for path in sources if (found := rules_spelt_in(path.read_text()))}
    assert spelt == {"table.py": {name for name in NAMED if "-" in name}}
