"""The pages of docs/ are short, can be reached, and are named rightly wherever something names them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from checkout import ROOT

DOCS = ROOT / "docs"
MAX_LINES = 230
"""A page is a chapter: it has one subject whole, so that nobody pieces an answer together from three pages."""
UNCOMMITTED = "uncommitted-at-failover"
GENERATED_TABLES = {"clauses.md", "coverage-facts.md", "measurements.md"}
"""Pages of long tables, made by tools/pages: a reader looks something up, and reads none from top to bottom."""
MAX_COLUMNS = 100
GENERATED = {
    *("coverage-facts.md", "measurements.md", "scenarios.md"),
    *(f"scenarios/{page.name}" for page in (DOCS / "scenarios").glob("*.md")),
}
"""Pages that programs in tools/pages make."""


def test_no_page_is_longer_than_a_person_reads() -> None:
    lengths = {page.relative_to(DOCS).as_posix(): len(page.read_text().splitlines()) for page in DOCS.rglob("*.md")}
    assert {name for name, lines in lengths.items() if lines > MAX_LINES} - GENERATED_TABLES == set()


def _too_wide(page: str) -> list[int]:
    """Return the numbers of the lines of prose that a wrap would shorten; tables and code may be wider."""
    prose = re.sub(r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), page, flags=re.MULTILINE | re.DOTALL)
    wide = re.compile(r" {0,3}(?:[-*] |\d+\. )?[^|\s]\S* ")
    lines = enumerate(prose.splitlines(), 1)
    return [number for number, line in lines if len(line) > MAX_COLUMNS and wide.match(line)]


def test_prose_is_wrapped() -> None:
    pages = {page.relative_to(DOCS).as_posix(): _too_wide(page.read_text()) for page in DOCS.rglob("*.md")}
    wide = {name: lines for name, lines in pages.items() if lines and name not in GENERATED}
    assert wide == {}, f"lines of prose that are wider than {MAX_COLUMNS}"


@pytest.mark.parametrize(
    ("line", "is_too_wide"),
    [
        ("a " * 51, True),
        ("- " + "a " * 51, True),
        ("| " + "a " * 51, False),
        ("    " + "a " * 51, False),
        ("  [a](" + "a" * 100 + ")", False),
        ("a " * 50, False),
    ],
)
def test_only_prose_that_can_be_wrapped_is_too_wide(line: str, is_too_wide: bool) -> None:
    assert (_too_wide(f"```\n{'a ' * 60}\n```\n{line}\n") == [4]) == is_too_wide


@pytest.mark.parametrize("folder", ["decisions", "findings"])
def test_a_folders_first_page_links_every_other_one(folder: str) -> None:
    first = (DOCS / folder / "README.md").read_text()
    others = {page.name for page in (DOCS / folder).glob("*.md")} - {"README.md"}
    assert {name for name in others if f"]({name})" not in first} == set()


def test_the_start_page_links_every_page_beside_it() -> None:
    start = (DOCS / "index.md").read_text()
    others = {page.name for page in DOCS.glob("*.md")} - {"index.md"}
    assert {name for name in others if f"]({name})" not in start} == set()


def test_every_page_of_docs_that_the_checkout_names_is_there() -> None:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.py", "*.md", "*.toml", "*.yml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    named = {
        f"{name}: {page}"
        for name in listing.stdout.splitlines()
        if (ROOT / name).is_file()
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", (ROOT / name).read_text())
        if not name.endswith("/test_prose.py") and not (ROOT / page).is_file()
    }
    assert named == set()


def test_the_links_of_the_readme_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / "README.md").read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


def build_site(docs: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site as `make docs` does, of pages in another folder; with the pages of the navigation that it has."""
    config, text = docs.parent / "mkdocs.yml", (ROOT / "mkdocs.yml").read_text()
    if not (docs / "concepts.md").exists():
        text = re.sub(r"(?ms)^nav:.*?(?=^plugins:)", "", text)
    config.write_text(text.replace("docs_dir: docs", f"docs_dir: {docs}"))
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", site],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_site_builds_without_a_warning_and_loads_nothing_from_the_network(tmp_path: Path) -> None:
    done = build_site(Path(shutil.copytree(DOCS, tmp_path / "docs")), tmp_path / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 100
    loaded = re.compile(
        r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^\"' >]+", re.IGNORECASE
    )
    assert [found for page in pages for found in loaded.findall(page.read_text())] == []
    assert not any("class=mermaid" in page.read_text() or 'class="mermaid"' in page.read_text() for page in pages)
    assert (tmp_path / "site" / "search" / "search_index.js").is_file()


def test_broken_links_fail_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "verdicts.md").write_text("# Verdicts\n")
    (docs / "index.md").write_text("# Ebbtide\n\n[A](verdicts.md#verdicts).\n")
    done = build_site(docs, tmp_path / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    with (docs / "index.md").open("a") as page:
        page.write("\n[A](nowhere.md), [b](verdicts.md#nowhere), [c](../Makefile).\n")
    done = build_site(docs, tmp_path / "site")
    assert done.returncode != 0
    for link in ("nowhere.md", "verdicts.md#nowhere", "../Makefile"):
        assert f"'{link}'" in done.stdout + done.stderr


def _committed_losses(measured: list[dict[str, Any]], scenarios: list[str], kafka: str) -> str:
    """Return the range of committed losses that the local runs measured, as the README writes it."""
    counts = [
        sum(
            int(number.replace(",", ""))
            for number, cause in re.findall(r"([\d,]+) ([\w-]+)", text)
            if cause != UNCOMMITTED
        )
        for row in measured
        if (row["target"], row["runtime"]) == (kafka, "local") and row["scenario"] in scenarios
        for text in row["lost"]
    ]
    low, high = min(counts), max(counts)
    return "none" if high == 0 else f"{low:,}" if low == high else f"{low:,} to {high:,}"


def test_the_losses_in_the_readme_are_those_that_were_measured() -> None:
    measured = json.loads((DOCS / "measured.json").read_text())
    table = (ROOT / "README.md").read_text().split("| what happens |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert len(rows) == 7
    for _, names, *cells in rows:
        scenarios = re.findall(r"`([\w-]+)`", names)
        found = [_committed_losses(measured, scenarios, kafka) for kafka in ("3.9.1", "4.3.1")]
        assert [cell.removeprefix("all ") for cell in cells] == found, names
