"""Imports go one way, between top-level packages and between their subpackages."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from checkout import ROOT
from import_graph import LAYERS, Import, arrows, circle, disallowed_imports, imports_in


@pytest.fixture(scope="module")
def project() -> list[Import]:
    return imports_in(ROOT)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for top in LAYERS:
        shutil.copytree(ROOT / top, tmp_path / top, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_no_package_imports_one_above_it(project: list[Import]) -> None:
    assert disallowed_imports(project) == []


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_no_subpackages_import_each_other_in_a_circle(project: list[Import], depth: int) -> None:
    assert circle(project, depth) == []


def test_an_import_that_goes_up_is_seen_with_both_files(copy: Path) -> None:
    _append(copy / "cluster" / "host" / "namespaces.py", "from harness.runner.view import ClusterView")
    assert disallowed_imports(imports_in(copy)) == ["cluster/host/namespaces.py imports harness/runner/view.py"]


def test_an_import_within_a_function_is_seen_too(copy: Path) -> None:
    _append(copy / "ebbtide" / "waiting.py", "def later():\n    import analysis.spec.partition")
    assert disallowed_imports(imports_in(copy)) == ["ebbtide/waiting.py imports analysis/spec/partition.py"]


def test_an_import_that_closes_a_circle_is_seen_with_both_files(copy: Path) -> None:
    _append(copy / "ebbtide" / "logs" / "batches.py", "from ebbtide.kraft.image import MetadataImage")
    found = circle(imports_in(copy))
    assert "ebbtide/logs/batches.py imports ebbtide/kraft/image.py" in found
    assert any(re.fullmatch(r"ebbtide/kraft/\w+\.py imports ebbtide/logs/\w+\.py", one) for one in found)


def test_every_package_of_the_wheel_has_a_layer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]) == set(LAYERS)


def test_a_circle_within_a_subpackage_is_seen_too(copy: Path) -> None:
    history = copy / "analysis" / "judge" / "history"
    _append(history / "evidence.py", "from analysis.judge.causes.attribution import attribute")
    imports = imports_in(copy)
    assert circle(imports) == []
    assert "analysis/judge/history/evidence.py imports analysis/judge/causes/attribution.py" in circle(imports, 3)


def test_the_architecture_page_shows_the_packages_that_import_each_other(project: list[Import]) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    drawn = set(re.findall(r"^ *(\w+) --> (\w+)$", page, re.MULTILINE))
    assert drawn == arrows(project)


@pytest.mark.parametrize("top", LAYERS)
def test_the_architecture_page_names_every_subpackage(top: str) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    subpackages = sorted(path.parent.name for path in (ROOT / top).glob("*/__init__.py"))
    assert [name for name in subpackages if f"`{top}/{name}`" not in page] == []


def _append(path: Path, text: str) -> None:
    path.write_text(f"{path.read_text()}\n\n{text}\n")
