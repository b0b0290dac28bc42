"""What a release is made of: well-formed files of changes, a short changelog, and a checkout that fits its tag."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from checkout import ROOT

from tools.release import CHANGES, pythons, unfit

NAME = re.compile(r"\+[a-z0-9-]+\.(?:added|changed|fixed|removed)\.md")
MAX_LINES, MAX_LINES_OF_A_RELEASE, MAX_WORDS = 120, 60, 60


def link_targets(text: str) -> list[str]:
    return [target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target]


def test_a_change_is_a_sentence_or_two_with_links_to_pages() -> None:
    """Right after a release there is none."""
    for path in (one for one in CHANGES.iterdir() if one.name != "README.md"):
        text, where = path.read_text(), f"changes/{path.name}"
        assert NAME.fullmatch(path.name), f"{where}: name it +WORD.KIND.md (docs/development.md)"
        assert text.endswith(".\n"), where
        assert text.count("\n") == 1, f"{where}: one line, because towncrier makes one item of it"
        assert len(text.split()) <= MAX_WORDS, where
        assert [target for target in link_targets(text) if not (ROOT / target).is_file()] == [], where


@pytest.mark.parametrize("name", ["orders.added.md", "+orders.md", "+Orders.added.md", "+orders.new.md"])
def test_other_names_are_seen(name: str) -> None:
    assert NAME.fullmatch(name) is None


def test_the_changelog_is_short_and_its_links_lead_to_files() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = text.split("\n## ")[1:]
    assert len(text.splitlines()) <= MAX_LINES
    assert {release.split("]")[0]: len(release.splitlines()) for release in releases} == {
        release.split("]")[0]: lines
        for release in releases
        if (lines := len(release.splitlines())) <= MAX_LINES_OF_A_RELEASE
    }
    assert [target for target in link_targets(text) if not (ROOT / target).exists()] == []
    assert "Unreleased" not in text, "a change is a file in changes/ (docs/development.md)"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A committed checkout that can be released as 9.8.7."""
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "README.md").write_text("How.\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [9.8.7] - 2026-01-01\n")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=first"]):
        git(tmp_path, *words)
    return tmp_path


def git(checkout: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", checkout, *identity, *words], check=True)


def test_a_checkout_whose_changes_are_put_together_and_committed_is_fit(checkout: Path) -> None:
    assert unfit(checkout, "9.8.7") is None


def test_what_is_left_to_do_before_a_release_is_said(checkout: Path) -> None:
    assert "no heading of 9.8.8" in str(unfit(checkout, "9.8.8"))
    git(checkout, "tag", "v9.8.7")
    assert "the tag v9.8.7 is there already" in str(unfit(checkout, "9.8.7"))
    (checkout / "CHANGELOG.md").write_text("## [9.8.7]\n")
    assert "not committed" in str(unfit(checkout, "9.8.7"))
    (checkout / "changes" / "+orders.added.md").write_text("Orders.\n")
    assert "make changelog" in str(unfit(checkout, "9.8.7"))


def test_the_python_of_these_tests_is_found_or_another_one() -> None:
    found = dict(pythons())
    assert list(found) == ["3.11", "3.12", "3.13", "3.14"]
    assert any(found.values())
