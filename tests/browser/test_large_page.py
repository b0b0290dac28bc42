"""The page of a large run: at most 5 MB, with a picture of each partition; the bench of its loading notices a miss."""

from __future__ import annotations

from pathlib import Path

import pytest
from benches import assert_ended_well, run_bench
from playwright.sync_api import Browser

from bench import page_load
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


@pytest.mark.parametrize(
    ("size_mb", "open_s", "missed"),
    [
        (0.9, (1.0, 1.9, 3.0), []),
        (1.1, (1.0,), ["1.10 MB, at most 1"]),
        (0.5, (2.5, 2.1, 1.0), ["2.10 s, at most 2"]),
    ],
)
def test_a_page_misses_a_target_by_its_size_or_the_median_of_its_rounds(
    size_mb: float, open_s: tuple[float, ...], missed: list[str]
) -> None:
    assert page_load.PageFigures(name="run", size_mb=size_mb, open_s=open_s).misses(1, 2) == missed


def test_the_bench_of_page_loading_ends_with_one_when_a_page_is_too_large(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_load, "open_s", lambda _page: 0.5)
    small = ["--records", "3000", "--rounds", "1"]
    assert page_load.main(small) == 0
    assert page_load.main([*small, "--max-large-mb", "0.01"]) == 1
    assert "MISSED" in capsys.readouterr().out


def test_the_bench_of_page_loading_opens_a_page_in_a_browser() -> None:
    # In a process of its own: this one has a browser already.
    assert_ended_well(run_bench("page_load", "--records", "3000", "--rounds", "1", "--max-s", "60"))
