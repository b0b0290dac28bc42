"""The known bugs of docs/findings/README.md and of `ebbtide advise` are one list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analysis.advise.known import DEFECTS
from analysis.advise.release import ReleaseFacts
from ebbtide.scenario.catalogue import find, names
from tools.pages import known_bugs
from tools.pages.known_bugs import PAGE

ROWS = re.findall(r"^\| \[([\w-]+)\]\(([\w-]+\.md)\): (.*?) \|", PAGE.read_text(), re.MULTILINE)


def test_the_program_writes_the_table_that_the_page_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text()
    copy = tmp_path / "README.md"
    copy.write_text(text.replace("| KAFKA-14139 |", "| KAFKA-1 |"))
    monkeypatch.setattr(known_bugs, "PAGE", copy)
    assert known_bugs.main() == 0
    assert copy.read_text() == text, "python -m tools.pages.known_bugs"


def test_every_scenario_of_a_bug_exists_and_every_known_bug_of_the_catalogue_is_listed() -> None:
    scenarios = {one.scenario for one in DEFECTS if one.scenario}
    assert scenarios <= {*names()}
    bugs = {name for name in names() if re.match(r"kafka-(pr-)?\d", name)}
    assert bugs
    assert bugs <= scenarios


@pytest.mark.parametrize("finding", [name for name, _, _ in ROWS[:6]])
def test_every_finding_on_the_newest_releases_is_one_that_advise_names(finding: str) -> None:
    (defect,) = [one for one in DEFECTS if finding in one.name.split(", ")]
    assert defect.change
    assert defect.affected[-1][1] == ""


@pytest.mark.parametrize("bug", ["KAFKA-14402", "KAFKA-17754"])
def test_a_bug_that_a_release_repairs_only_with_a_feature_is_not_open_and_older_levels_have_it(bug: str) -> None:
    (defect,) = [one for one in DEFECTS if one.name == bug]
    affected, fixed = known_bugs._row(defect)[3:]
    assert fixed == "4.0, with transaction.version 2 and a client that speaks it"
    assert affected == "before 4.0, and newer ones without transaction.version 2 and a client that speaks it"
    assert defect.applies(
        ReleaseFacts(kafka="4.4.0", shown="4.4.0", variant="elr_43", features={"transaction.version": 1})
    )
    opened = {one.name for one in DEFECTS if known_bugs._row(one)[4] == "none: open"}
    with_level = {one.known_bug for one in find(defect.scenario).predictions if one.features}
    assert bug not in opened | with_level
