"""Measures how large reports are and how fast Chromium opens them: `python -m bench.page_load [REPORT.html...]`.

Each round starts a new browser, without a network, and opens each page once. A page is open when the load event has
ended, the first contents are painted, and the picture's script has run. Targets for the median of the rounds:

- the page of a run with 200,000 records in 6 partitions, which the bench makes: at most 5 MB (`--max-large-mb`) and
  2 s (`--max-s`);
- each page named on the command line, such as those of `make demo`: at most 1 MB (`--max-demo-mb`) and 2 s.

Exit code 1 if a page misses a target.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec
from playwright.sync_api import sync_playwright

from bench.large_page import RECORDS, write_large_page

_OPEN_MS = """() => Math.max(
  performance.getEntriesByType("navigation")[0].loadEventEnd,
  ...performance.getEntriesByType("paint").map(one => one.startTime))"""
_HAS_PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length > 0"


class PageFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One page: its size, and how long each round took to open it."""

    name: str
    size_mb: float
    open_s: tuple[float, ...]

    def misses(self, max_mb: float, max_s: float) -> list[str]:
        """Return the targets that the page misses, in words."""
        found = [f"{self.size_mb:.2f} MB, at most {max_mb:g}"] if self.size_mb > max_mb else []
        return found + ([f"{median(self.open_s):.2f} s, at most {max_s:g}"] if median(self.open_s) > max_s else [])


def open_s(page: Path) -> float:
    """Return how many seconds a new browser takes to open a page."""
    args = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=args)
        try:
            opened = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True).new_page()
            opened.goto(page.resolve().as_uri(), wait_until="load")
            opened.wait_for_function(_HAS_PAINTED)
            opened.locator("figure.partition output").first.wait_for(state="attached")
            return float(opened.evaluate(_OPEN_MS)) / 1000
        finally:
            browser.close()


def figures_of(page: Path, name: str, rounds: int) -> PageFigures:
    """Return the figures of one page."""
    return PageFigures(
        name=name,
        size_mb=page.stat().st_size / 1e6,
        open_s=tuple(open_s(page) for _ in range(rounds)),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each page, and return 1 if one misses a target."""
    parser = argparse.ArgumentParser(prog="python -m bench.page_load")
    parser.add_argument("pages", nargs="*", type=Path, metavar="REPORT.html")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--max-demo-mb", type=float, default=1.0)
    parser.add_argument("--max-large-mb", type=float, default=5.0)
    parser.add_argument("--max-s", type=float, default=2.0)
    args = parser.parse_args(arguments)
    is_missed = False
    with tempfile.TemporaryDirectory(prefix="ebbtide-bench-") as folder:
        large = write_large_page(Path(folder) / "large", args.records)
        wanted = [(large, f"{args.records:,} records", args.max_large_mb)]
        wanted += [(page, page.parent.name, args.max_demo_mb) for page in args.pages]
        for page, name, max_mb in wanted:
            found = figures_of(page, name, args.rounds)
            missed = found.misses(max_mb, args.max_s)
            is_missed = is_missed or bool(missed)
            rounds = ", ".join(f"{one:.2f}" for one in found.open_s)
            print(f"{found.name}: {found.size_mb:.2f} MB, opens in {median(found.open_s):.2f} s (rounds: {rounds})")
            for one in missed:
                print(f"  MISSED: {one}")
    return 1 if is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
