"""Writes docs/measurements.md, every figure of the project, from the files in bench/results/.

`python -m tools.pages.measurements`. A file is one table (`Measured`), or what a program keeps from one run to the
next: advised.json (bench.advise_clusters), recovered.json and replayed.json (tools.pages). The page is made of all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from bench.advise_clusters import CLUSTER_COLUMNS, cluster_rows
from bench.advised_lines import counts_in_words, tables
from bench.advised_lines import read_stored as read_advised
from tools.pages import recovery, replays
from tools.pages.measured import RESULTS, ROOT, Measured, read_measured, table
from tools.pages.recovery_figures import read_figures

PAGE = ROOT / "docs" / "measurements.md"
FIRST = ("acks", "demo", "nights", "pytest-session", "watched")
"""The files that a user asks about first; the others follow by name."""
KEPT = ("advised", "recovered", "replayed")
"""The files that hold more than a table."""

_INTRO = """# Measurements

This page has the figures that Ebbtide's other pages speak of: what was lost, how often runs come again, and how long
things take. [Scenarios](scenarios.md) has the losses of each scenario.

The figures are data in `bench/results/`, each with the command that makes it again, the commit, the date and the host.
`python -m tools.pages.measurements` makes this page from them; do not edit it. Times are from small hosts that other
programs shared, so compare the rows of one table, and not seconds with your own.
"""
_ADVISED = """`ebbtide advise` was asked about eighteen clusters of plain Kafka processes. For the lines with
acks=all, `--scenario` wrote scenarios, which then ran on real Kafka. Lines that are alike on several clusters ran once.

{counts}"""
_CELLS = """A cell has the committed records that the run lost, and the release. *contradicted*: the loss breaks the
protocol, as a [finding](findings/README.md) says. Cells in brackets are answers whose scenarios were not run. `-`: the
advice has no such line."""


def _advised() -> Iterator[Measured]:
    lines = list(read_advised().values())
    clusters = Measured(
        title="Is the advice right?",
        about=_ADVISED.format(counts=counts_in_words(lines)),
        command="python -m bench.advise_clusters read FOLDER",
        commit="several",
        date="2026-11",
        host="two cores with other work",
        columns=CLUSTER_COLUMNS,
        rows=cluster_rows(lines),
    )
    yield clusters
    for found in tables(lines):
        yield Measured(
            title=f"What did each line of the advice lose? {found.kind}",
            about=_CELLS,
            command="python -m bench.advise_clusters run FOLDER",
            commit=clusters.commit,
            date=clusters.date,
            host=clusters.host,
            columns=found.columns,
            rows=found.rows,
        )


def _files() -> Iterator[Path]:
    """Yield the files that are one table, in the order of the page."""
    names = [path.stem for path in RESULTS.glob("*.json") if path.stem not in KEPT]
    yield from (RESULTS / f"{name}.json" for name in sorted(names, key=lambda name: (name not in FIRST, name)))


def measurements() -> Iterator[Measured]:
    """Yield every measurement, in the order of the page."""
    files = {path.stem: read_measured(path) for path in _files()}
    yield from (files.pop(name) for name in FIRST)
    yield from recovery.measured(read_figures(recovery.FIGURES))
    yield replays.measured([row for _, row in sorted(replays.read_stored().items())])
    yield from _advised()
    yield from files.values()


def section(measured: Measured) -> str:
    """Return a measurement as a section of the page."""
    made = f"`{measured.command}`; commit: {measured.commit}; date: {measured.date}; host: {measured.host}."
    return f"\n## {measured.title}\n\n{measured.about}\n\n{made}\n\n{table(measured)}\n"


def page() -> str:
    """Return the whole page."""
    return _INTRO + "".join(section(measured) for measured in measurements())


def main() -> int:
    """Write the page."""
    PAGE.write_text(page())
    print(f"{PAGE.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
