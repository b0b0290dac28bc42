"""The drawn counterexamples of the findings are those that the commands on their pages find."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.pages import counterexamples
from tools.pages.counterexamples import FINDINGS, PAGES, commands, main, write


@pytest.mark.parametrize("name", commands())
def test_the_page_of_a_finding_is_what_its_command_writes(name: str, tmp_path: Path) -> None:
    written = write(name, commands()[name], tmp_path)
    assert (PAGES / f"{name}.html").read_text() == written.read_text(), "python -m tools.pages.counterexamples"


def test_every_finding_with_a_search_has_a_page_and_links_it() -> None:
    assert {path.stem for path in PAGES.glob("*.html")} == set(commands())
    for name in commands():
        assert f"](../assets/counterexamples/{name}.html)" in (FINDINGS / f"{name}.md").read_text()


def test_the_program_writes_the_page_of_every_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counterexamples, "PAGES", tmp_path / "pages")
    monkeypatch.setattr(
        counterexamples, "commands", lambda: {"one": "spec check --variant kraft --bounds power-losses=1"}
    )
    assert main() == 0
    assert [path.name for path in (tmp_path / "pages").iterdir()] == ["one.html"]
