"""One headless Chromium for all tests of the pages, and the pages of recorded runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import DATA, ROOT
from pages import SHOTS, Pages, judged_pages
from playwright.sync_api import Browser, sync_playwright


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
