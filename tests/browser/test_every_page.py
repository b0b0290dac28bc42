"""Pages of runs, comparisons and single records in a real browser, at each width, light and dark.

`EBBTIDE_RUNS=DIR` names a folder of judged records to open instead of the recorded ones, to look at the screenshots.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import Pages, write_page
from playwright.sync_api import Browser
from quick import quick_first
from records import as_record

from analysis.compare.page import write_comparison
from analysis.explain.life import explain
from analysis.explain.page import write_page as write_life
from analysis.explain.subject import first_lost_subject, subject_of_value
from analysis.explain.table_rows import find_rows
from ebbtide.record.manifest import records_of

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, pages: Pages) -> dict[str, Path]:
    """Every page, by the name of its screenshot."""
    folder = tmp_path_factory.mktemp("written")
    given = os.environ.get("EBBTIDE_RUNS")
    records = records_of(Path(given)) if given else [page.parent for page in pages.values()]
    found = {**pages, "compare": folder / "compare.html"}
    write_comparison(records[:2], found["compare"])
    for record in records:
        if given:
            found[record.name] = write_page(record)
        subject = first_lost_subject(as_record(record)) if next(find_rows(as_record(record), "sends"), None) else None
        sent = next(find_rows(as_record(record), "sends"), None)
        if subject is None and sent is not None:
            subject = subject_of_value(as_record(record), sent.values["value"])
        if subject is not None:
            found[f"explain-{record.name}"] = folder / f"explain-{record.name}.html"
            write_life(found[f"explain-{record.name}"], explain(as_record(record), subject))
    return found


@pytest.fixture
def window(browser: Browser) -> Iterator[Any]:
    contexts = []

    def open_window(width: int, scheme: Any) -> Any:
        size: Any = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, offline=True, reduced_motion="reduce"))
        return contexts[-1].new_page()

    yield open_window
    for context in contexts:
        context.close()


@pytest.mark.parametrize(("width", "scheme"), quick_first([(360, "dark"), (1440, "light"), (768, "light")], 2))
def test_axe_finds_no_barrier_on_any_page_and_nothing_leaves_the_window(
    window: Any, written: dict[str, Path], axe: str, shots: Path, width: int, scheme: str
) -> None:
    barriers = {}
    page = window(width, scheme)
    for name, path in written.items():
        page.goto(path.as_uri())
        page.screenshot(path=shots / f"{name}-{width}-{scheme}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") == width, name
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        page.evaluate(axe)
        found = page.evaluate("axe.run().then(found => found.violations)")
        barriers[name] = [(one["id"], [node["html"][:160] for node in one["nodes"]]) for one in found]
    assert {name: one for name, one in barriers.items() if one} == {}
