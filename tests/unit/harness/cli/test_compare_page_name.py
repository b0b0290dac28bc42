"""The page of a comparison has a name of its own, so that it replaces no other comparison."""

from __future__ import annotations

from pathlib import Path

from harness.cli.runs_compare import default_page


def test_comparisons_with_the_same_last_run_have_different_pages(tmp_path: Path) -> None:
    old, new, other = (tmp_path / name for name in ("run-3.9.1", "run-4.3.1", "run-4.0.2"))
    assert default_page([old, new]) == tmp_path / "compare-run-3.9.1-with-run-4.3.1.html"
    assert default_page([other, new]) == tmp_path / "compare-run-4.0.2-with-run-4.3.1.html"
    assert default_page([old, other, new]) == tmp_path / "compare-run-3.9.1-1-more-with-run-4.3.1.html"


def test_the_longest_names_of_folders_make_a_name_that_a_file_system_takes(tmp_path: Path) -> None:
    page = default_page([tmp_path / ("a" * 255), tmp_path / ("b" * 255)])
    page.touch()
