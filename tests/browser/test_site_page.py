"""The site of ten nights in a real browser: a cell leads to its runs and their reports, and everybody can read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checkout import DATA
from pages import Pages
from playwright.sync_api import Browser, Page
from recorded_nights import store_of_nights

from harness.site.model import site_of, write_site

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, pages: Pages) -> Path:
    """The first page of the site of ten nights, made from five recorded runs."""
    folder = tmp_path_factory.mktemp("nights")
    records = [*(page.parent for page in pages.values()), DATA / "runs" / "last-replica-standing-4.3.1"]
    return write_site(site_of([store_of_nights(folder / "store", records)]), folder / "site")


@pytest.fixture
def opened(browser: Browser, index: Path) -> Iterator[Any]:
    """Opens the first page in a window of its own, without a network."""
    contexts = []

    def open_page(width: int = 1440, scheme: Any = "light", **more: Any) -> Page:
        size: Any = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, offline=True, **more))
        page = contexts[-1].new_page()
        page.goto(index.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


def test_a_cell_leads_to_its_runs_and_a_run_to_its_report(opened: Any) -> None:
    page = opened()
    page.locator(".matrix a").filter(has_text="known-bug").first.click()
    assert "move-and-back" in page.locator("h1").inner_text()
    page.get_by_role("link", name="report").first.click()
    assert page.locator(".badge").inner_text() == "Contradicted"


def test_every_night_has_a_column_and_every_mark_a_sign(opened: Any) -> None:
    page = opened(java_script_enabled=False)
    assert page.locator(".nights thead th").count() == 10
    signs = page.locator(".matrix .mark:visible").all_inner_texts()
    assert {sign.split()[0] for sign in signs} == {"▾", "k", "✓"}


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_axe_finds_no_barrier_and_nothing_leaves_the_window(
    opened: Any, axe: str, shots: Path, width: int, scheme: str
) -> None:
    page = opened(width, scheme)
    page.screenshot(path=shots / f"nights-{width}-{scheme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.evaluate(axe)
    found = page.evaluate("axe.run().then(found => found.violations)")
    assert [(one["id"], [node["html"][:160] for node in one["nodes"]]) for one in found] == []
