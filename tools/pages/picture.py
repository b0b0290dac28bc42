"""Writes the picture of the README: the top of the comparison page of the demo's two runs, light and dark.

`python -m tools.pages.picture` compares the recorded runs in tests/data/runs, opens the page in Chromium, and writes
docs/assets/comparison-light.png and docs/assets/comparison-dark.png.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, sync_playwright

from analysis.compare.page import write_comparison

ROOT = Path(__file__).resolve().parents[2]
RECORDS = tuple(ROOT / "tests" / "data" / "runs" / f"last-replica-standing-{kafka}" for kafka in ("3.9.1", "4.3.1"))
ASSETS = ROOT / "docs" / "assets"
WIDTH = 840
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

_ONLY_THE_RUNS = """
main > :not(.verdict, .run, .hatches), .controls, .run > p.soft { display: none !important; }
body, main { margin: 0; padding: .3rem; max-width: none; } .verdict { margin: 0; } .run { margin-top: .8rem; }
.run h2 { margin: 0; }
"""
"""Hides what a still picture cannot use, such as the zoom, and the table below the runs."""


def picture_of(scheme: Literal["light", "dark"]) -> Path:
    """Return the path of a picture."""
    return ASSETS / f"comparison-{scheme}.png"


def write_pictures() -> None:
    """Write both pictures."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is missing: tools/bootstrap --dev")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "comparison.html"
        write_comparison(RECORDS, page)
        # As root, Chromium has no sandbox of its own.
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        for scheme in SCHEMES:
            _shoot(browser, page, scheme)
        browser.close()


def _shoot(browser: Browser, page: Path, scheme: Literal["light", "dark"]) -> None:
    context = browser.new_context(
        viewport={"width": WIDTH, "height": 600},
        color_scheme=scheme,
        offline=True,
        reduced_motion="reduce",
    )
    opened = context.new_page()
    opened.goto(page.as_uri())
    opened.add_style_tag(content=_ONLY_THE_RUNS)
    opened.locator("main").screenshot(path=picture_of(scheme))
    context.close()


def main() -> int:
    """Write the pictures."""
    write_pictures()
    for scheme in SCHEMES:
        print(f"{picture_of(scheme).relative_to(ROOT)} written, {picture_of(scheme).stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
