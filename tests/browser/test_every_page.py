"""Pages of runs, comparisons and single records in a real browser, at each width, light and dark.

`EBBTIDE_RUNS=DIR` names a folder of judged records to open instead of the recorded ones, to look at the screenshots.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pages import Pages, check_readable, write_page
from quick import quick_first
from records import as_record

from analysis.compare.page import write_comparison
from analysis.explain.life import explain
from analysis.explain.page import render_life
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
            found[f"explain-{record.name}"].write_text(render_life(explain(as_record(record), subject)))
    return found


@pytest.mark.parametrize(("width", "scheme"), quick_first([(360, "dark"), (1440, "light"), (768, "light")]))
def test_axe_finds_no_barrier_on_any_page_and_nothing_leaves_the_window(
    open_page: Any, written: dict[str, Path], axe: str, shots: Path, width: int, scheme: str
) -> None:
    page = open_page(next(iter(written.values())), width=width, scheme=scheme)
    for name, path in written.items():
        page.goto(path.as_uri())
        check_readable(page, axe, width, shots / f"{name}-{width}-{scheme}.png")
