"""A night of scenario files: their names are unique, and a killed night finds them again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from nights import NIGHT

from ebbtide.errors import UsageError
from ebbtide.scenario import catalogue
from harness.cli.night_settings import scenarios_of
from harness.cli.nightly import _scenarios_of
from harness.nightly.store import NightPlan


def mine(folder: Path, **names: str) -> Path:
    """A folder with a scenario file for each name."""
    folder.mkdir()
    text = catalogue.text_of("healthy")
    for file, name in names.items():
        (folder / f"{file}.toml").write_text(text.replace('name = "healthy"', f'name = "{name}"', 1))
    return folder


def test_a_night_runs_the_files_of_a_folder_beside_scenarios_of_the_catalogue(tmp_path: Path) -> None:
    folder = mine(tmp_path / "mine", a="one", b="two")
    assert [one.name for one in scenarios_of(f"bridge,{folder}")] == ["bridge", "one", "two"]
    assert [one.name for one in scenarios_of(None)] == catalogue.names()


def test_two_files_of_a_night_cannot_have_one_name(tmp_path: Path) -> None:
    folder = mine(tmp_path / "mine", a="one", b="one")
    with pytest.raises(UsageError, match="two scenarios of a night have the name one"):
        scenarios_of(str(folder))


def test_a_killed_night_of_files_judges_their_runs(tmp_path: Path) -> None:
    folder = mine(tmp_path / "mine", a="one")
    (scenario,) = scenarios_of(str(folder))
    plan = NightPlan(night=NIGHT, settings={"scenarios": str(folder)}, started_s=0)
    assert _scenarios_of(plan) == {"one": scenario}
    shutil.rmtree(folder)
    assert set(_scenarios_of(plan)) == set(catalogue.names())
    everything = NightPlan(night=NIGHT, settings={"scenarios": "None"}, started_s=0)
    assert set(_scenarios_of(everything)) == set(catalogue.names())
