"""Reports of recorded runs, for tests in a browser, and what a test reads off them there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow.dataset as ds
from checkout import DATA
from playwright.sync_api import Page
from real_records import unpack_record
from records import as_record

from analysis.report.html import write_report
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.verdict import VERDICT, Verdict, read_judgement

SHOTS = "build/screenshots"
RUNS = ("last-replica-standing-3.9.1", "move-and-back-4.4.0", "acks-matrix-power-loss-4.4.0")
"""Recorded runs whose verdicts are in tests/data/verdicts, without most examples."""

Pages = Mapping[str, Path]


def judged_pages(folder: Path) -> Pages:
    """Unpack the runs, and write the report of each beside its verdict."""
    return {name: write_page(_judged(name, folder)) for name in RUNS}


def _judged(name: str, folder: Path) -> Path:
    record = unpack_record(name, folder)
    (record / VERDICT).write_bytes((DATA / "verdicts" / f"{name}.json").read_bytes())
    return record


def write_page(record: Path, verdict: Verdict | None = None) -> Path:
    """Write the report of a judged record."""
    manifest = read_manifest(RecordFolder(record))
    verdict = verdict if verdict is not None else read_judgement(RecordFolder(record))
    return write_report(as_record(record, manifest), verdict)


def rows(record: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table, read without the code under test."""
    path = record / f"{table}.parquet"
    return list(ds.dataset(str(path if path.is_file() else record / table)).to_table().to_pylist())


def steps(record: Path) -> list[dict[str, Any]]:
    """The steps, read without the code under test."""
    return [msgspec.json.decode(line) for line in (record / "steps.jsonl").read_bytes().splitlines()]


class Axis(NamedTuple):
    """The time axis as a person reads it: the places of two of its labels."""

    low_s: float
    low_px: float
    high_s: float
    high_px: float

    def place(self, at_s: float) -> float:
        """Return where a time is, in pixels from the left of the window."""
        return self.low_px + (at_s - self.low_s) / (self.high_s - self.low_s) * (self.high_px - self.low_px)


def axis_of(page: Page, figure: str = "#p0") -> Axis:
    """Read the axis off its labels."""
    labels = page.eval_on_selector_all(
        f"{figure} .ticks text",
        "all => all.map(one => { const box = one.getBoundingClientRect();"
        " return [parseFloat(one.textContent), box.left + box.width / 2]; })",
    )
    (low_s, low_px), (high_s, high_px) = labels[0], labels[-1]
    return Axis(low_s, low_px, high_s, high_px)


def edges(page: Page, selector: str) -> list[tuple[float, float]]:
    """The left and right edges of each shape, in the order of the page."""
    found = page.eval_on_selector_all(
        selector,
        "all => all.map(one => { const box = one.getBoundingClientRect(); return [box.left, box.right]; })",
    )
    return [(left, right) for left, right in found]


def check_readable(page: Page, axe: str, width: int, shot: Path) -> None:
    """Nothing leaves the window, and axe finds no barrier."""
    page.screenshot(path=shot, full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") == width, shot.stem
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.evaluate(axe)
    found = page.evaluate("axe.run().then(found => found.violations)")
    barriers = [(one["id"], [node["html"][:160] for node in one["nodes"]]) for one in found]
    assert barriers == [], shot.stem
