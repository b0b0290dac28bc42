"""The page of a large run: at most 5 MB, with a picture of each partition; the bench of its loading notices a miss."""

from __future__ import annotations

from pathlib import Path

import pytest
from benches import assert_ended_well, run_bench
from playwright.sync_api import Browser

from bench.large_page import PARTITIONS, write_large_page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run of two minutes with 200,000 records in six partitions."""
    return write_large_page(tmp_path_factory.mktemp("large") / "run")


def test_the_page_of_200_000_records_in_six_partitions_is_at_most_5_mb(large: Path) -> None:
    assert large.stat().st_size <= 5_000_000


def test_the_page_of_200_000_records_opens_with_a_picture_of_each_partition(
    browser: Browser, large: Path, shots: Path
) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(large.as_uri())
    page.locator("#p0 output").wait_for()
    assert page.locator("figure.partition").count() == PARTITIONS
    page.screenshot(path=shots / "large.png")
    context.close()


def test_the_bench_of_page_loading_opens_a_page_in_a_browser() -> None:
    # In a process of its own: this one has a browser already.
    assert_ended_well(run_bench("page_load", "--records", "3000", "--rounds", "1", "--max-s", "60"))
