"""The site of ten nights in a real browser: a cell leads to its runs and their reports, and everybody can read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checkout import DATA
from pages import Pages, check_readable
from recorded_nights import store_of_nights

from harness.site.model import site_of, write_site

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, pages: Pages) -> Path:
    """The first page of the site of ten nights, made from five recorded runs."""
    folder = tmp_path_factory.mktemp("nights")
    records = [*(page.parent for page in pages.values()), DATA / "runs" / "last-replica-standing-4.3.1"]
    return write_site(site_of([store_of_nights(folder / "store", records)]), folder / "site")


def test_a_cell_leads_to_its_runs_and_a_run_to_its_report(open_page: Any, index: Path) -> None:
    page = open_page(index)
    page.locator(".matrix a").filter(has_text="known-bug").first.click()
    assert "move-and-back" in page.locator("h1").inner_text()
    page.get_by_role("link", name="report").first.click()
    assert page.locator(".badge").inner_text() == "Contradicted"


def test_every_night_has_a_column_and_every_mark_a_sign(open_page: Any, index: Path) -> None:
    page = open_page(index, java_script_enabled=False)
    assert page.locator(".nights thead th").count() == 10
    signs = page.locator(".matrix .mark:visible").all_inner_texts()
    assert {sign.split()[0] for sign in signs} == {"▾", "k", "✓"}


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_axe_finds_no_barrier_and_nothing_leaves_the_window(
    open_page: Any, index: Path, axe: str, shots: Path, width: int, scheme: str
) -> None:
    check_readable(open_page(index, width=width, scheme=scheme), axe, width, shots / f"nights-{width}-{scheme}.png")
