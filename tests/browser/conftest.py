"""One headless Chromium for all tests of the pages, and the pages of recorded runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from checkout import DATA, ROOT
from pages import SHOTS, Pages, judged_pages
from playwright.sync_api import Browser, Page, sync_playwright


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; as root it has no sandbox of its own."""
    chromium = shutil.which("chromium")
    assert chromium is not None, "chromium is missing: tools/bootstrap --dev"
    with sync_playwright() as playwright:
        args = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=chromium, args=args)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page in a window of its own, without a network; a script that fails there fails the test."""
    contexts, failed = [], []

    def open_at(path: Path, *, width: int = 1440, scheme: Any = "light", **more: Any) -> Page:
        size: Any = {"width": width, "height": 900}
        motion: Any = "reduce"
        contexts.append(
            browser.new_context(viewport=size, color_scheme=scheme, offline=True, reduced_motion=motion, **more)
        )
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: failed.append(error))
        page.goto(path.as_uri())
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert not failed, "a page's script failed"


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """The report of each recorded run."""
    return judged_pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="session")
def shots() -> Path:
    """Where screenshots go: an artifact of a build."""
    folder = ROOT / SHOTS
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def axe() -> str:
    """The accessibility checker that runs within a page."""
    return (DATA / "axe-core" / "axe.min.js").read_text()
