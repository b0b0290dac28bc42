"""The lock in requirements/ fits pyproject.toml, for every Python that is supported."""

from __future__ import annotations

import re
import tomllib
from collections import Counter

import pytest
from checkout import ROOT
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tools.lock import FOLDER, OTHER_BUILDERS

_PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
_TEXTS = {path.name: path.read_text() for path in sorted((ROOT / FOLDER).iterdir())}


def _locked(*files: str) -> list[tuple[Requirement, list[str]]]:
    """Each locked package with its hashes."""
    logical = "".join(_TEXTS[file] for file in files).replace("\\\n", "")
    lines = [line for line in logical.splitlines() if line and not line.startswith("#")]
    parts = [line.split(" --hash=") for line in lines]
    return [(Requirement(requirement), [one.strip() for one in hashes]) for requirement, *hashes in parts]


def _versions(python: str, *files: str) -> dict[str, str]:
    """The locked versions by package, on Linux with one Python."""
    here = {"python_version": python, "python_full_version": f"{python}.9", "sys_platform": "linux"}
    found = [one for one, _ in _locked(*files) if one.marker is None or one.marker.evaluate(here)]
    names = Counter(canonicalize_name(one.name) for one in found)
    assert [name for name, count in names.items() if count > 1] == []
    return {canonicalize_name(one.name): str(one.specifier).removeprefix("==") for one in found}


def _needed(extra: str | None) -> list[Requirement]:
    """What pyproject.toml asks for, with the extras of Ebbtide that an extra names."""
    project = _PROJECT["project"]
    lines = project["optional-dependencies"][extra] if extra else project["dependencies"]
    found = [Requirement(line) for line in lines]
    return [one for one in found if one.name != "ebbtide"] + [
        inner for one in found if one.name == "ebbtide" for name in one.extras for inner in _needed(name)
    ]


def _not_locked(needed: list[Requirement], locked: dict[str, str]) -> list[str]:
    return [
        str(one)
        for one in needed
        if (version := locked.get(canonicalize_name(one.name))) is None or not one.specifier.contains(version)
    ]


@pytest.mark.parametrize("python", _PYTHONS)
def test_every_dependency_is_locked_in_a_version_that_pyproject_allows(python: str) -> None:
    """If this fails: `make lock`."""
    assert python in SpecifierSet(_PROJECT["project"]["requires-python"])
    building = [Requirement(line) for line in [*_PROJECT["build-system"]["requires"], *OTHER_BUILDERS]]
    assert _not_locked(building, _versions(python, "build.txt")) == []
    assert _not_locked(_needed(None), _versions(python, "build.txt", "run.txt")) == []
    assert _not_locked(_needed("dev"), _versions(python, "build.txt", "run.txt", "dev.txt")) == []


def test_a_dependency_without_a_lock_or_outside_its_range_is_seen() -> None:
    needed = [Requirement("numpy>=2"), Requirement("docker>=7.1,<8"), Requirement("left-out")]
    assert _not_locked(needed, {"numpy": "2.1", "docker": "8.0"}) == ["docker<8,>=7.1", "left-out"]


@pytest.mark.parametrize("file", _TEXTS)
def test_every_locked_package_has_one_version_and_hashes(file: str) -> None:
    locked = _locked(file)
    assert locked
    for requirement, hashes in locked:
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        assert hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), requirement


@pytest.mark.parametrize("file", _TEXTS)
def test_the_lock_names_no_registry(file: str) -> None:
    assert re.findall(r"https?:|--\S*(?:index|links)\S*", _TEXTS[file]) == []
