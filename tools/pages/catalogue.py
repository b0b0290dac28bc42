"""Writes the pages of the scenarios, from their files and from measured runs.

Run `python -m tools.pages.catalogue [STORE...] [--runs DIR]`. docs/scenarios.md lists the scenarios, and
docs/scenarios/ has a page for each. The command also writes the tables of coverage facts (docs/coverage-facts.md),
of faults (docs/faults.md) and of steps (docs/scenario-steps.md).

Each STORE (`ebbtide nightly --store STORE`) replaces, in docs/measured.json, what was measured of every scenario,
target and runtime that it has runs of. So does DIR, a folder of judged records that `ebbtide run` made. Without any of
them the pages are written too; a test compares them with the files.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import msgspec
from packaging.version import Version

from analysis.judge.outcome.prediction import prediction_sentence
from ebbtide.scenario import catalogue
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.shipped import GROUPS, files_by_group, took_in_words, usual_s
from ebbtide.shown_text import plural
from harness.nightly.store import FinishedJob, Store
from tools.pages import facts, kinds
from tools.pages.recorded_runs import finished_jobs

DOCS = Path(__file__).resolve().parents[2] / "docs"
MEASURED = DOCS / "measured.json"
INDEX = DOCS / "scenarios.md"
PAGES = DOCS / "scenarios"

_INTRO = """# The scenarios

This page lists all scenarios, and on which releases recorded runs of each scenario lost acked records. The page of a
scenario has its predictions for each release and its measured runs.

[Concepts](concepts.md) explains the terms.

- `ebbtide run NAME --kafka RELEASE` runs a scenario. `ebbtide scenarios show NAME` prints its file.
- A run is *as predicted* only if each fault proved its effect and each fact that the prediction asks for came about.
- A usual run is the median of the measured runs on the local runtime, without the verdict.
- The last three columns name releases, each with its own feature levels. A release is in the column of its worst run.
- `-` in all three columns: no run of the scenario has been counted yet.
- Uncommitted records were acked with acks=1. Kafka does not promise to keep them
  ([Committed](concepts.md#committed)): even a clean rolling restart may lose some.
- Records with acks=0 do not count, because no broker acks them. [Your own
  settings](first-run.md#what-does-acks-buy) says what they lose.

`python -m tools.pages.catalogue` makes this page from the scenario files; do not edit it. The folder of a scenario's
file is its group.
"""
_HEADER = """
| scenario | shows | usual run | lost committed records | lost only uncommitted records | lost none |
|---|---|---|---|---|---|
"""
_NOT_COMMITTED = ("none", "uncommitted-at-failover")
_PAGE_INTRO = """
[All scenarios](../scenarios.md). `python -m tools.pages.catalogue` makes this page from the scenario file and from
recorded runs; do not edit it. A prediction names [causes](../causes.md) of losses and
[coverage facts](../coverage-facts.md), such as `elections`, that a run must have.
"""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of one scenario on one target and runtime.

    The newest runs have them; `took_s` is the median of a run. `odd` explains the runs that did
    not end as predicted, except for known bugs.
    """

    scenario: str
    target: str
    runtime: str
    date: str
    outcomes: dict[str, int]
    lost: tuple[str, ...]
    took_s: float
    odd: tuple[str, ...] = ()


def measurements_of(finished: Iterable[FinishedJob]) -> list[Measurement]:
    """Return one row for each scenario, target and runtime.

    Runs that failed because of the host measured nothing.
    """
    groups: dict[tuple[str, str, str], list[FinishedJob]] = {}
    for done in finished:
        if done.job.origin == "catalogue" and done.ended != "failed":
            groups.setdefault((done.job.scenario, str(done.job.target), done.job.runtime), []).append(done)
    return [
        Measurement(
            scenario=scenario,
            target=target,
            runtime=runtime,
            date=f"{datetime.fromtimestamp(max(one.ended_at_s for one in runs), UTC):%Y-%m-%d}",
            outcomes=dict(Counter(one.ended for one in runs)),
            lost=tuple(sorted({_losses_text(one) for one in runs})),
            took_s=round(median(one.took_s for one in runs), 1),
            odd=tuple(sorted({_odd(one) for one in runs if one.ended != "as-predicted" and one.known_bug is None})),
        )
        for (scenario, target, runtime), runs in sorted(groups.items())
    ]


def index(scenarios: Sequence[Scenario], rows: Sequence[Measurement]) -> str:
    """The whole of docs/scenarios.md."""
    named = {one.name: one for one in scenarios}
    tables = (
        f"\n## {GROUPS[group]}\n{_HEADER}" + "".join(_index_row(named[name], rows) for name in files if name in named)
        for group, files in files_by_group().items()
    )
    return _INTRO + "".join(tables)


def _index_row(scenario: Scenario, rows: Sequence[Measurement]) -> str:
    took_s = usual_s([row for row in rows if row.scenario == scenario.name])
    cells = (scenario.title, took_in_words(took_s), *_releases_by_worst_loss(scenario, rows))
    return f"| [{scenario.name}](scenarios/{scenario.name}.md) | {' | '.join(cells)} |\n"


def page(scenario: Scenario, rows: Sequence[Measurement]) -> str:
    """The whole page of a scenario."""
    return "\n".join(_page(scenario, rows)).rstrip("\n") + "\n"


def write(scenarios: Sequence[Scenario], rows: Sequence[Measurement]) -> None:
    """Write the index and the pages, and remove pages of scenarios that are removed."""
    INDEX.write_text(index(scenarios, rows))
    PAGES.mkdir(exist_ok=True)
    for old in PAGES.glob("*.md"):
        old.unlink()
    for scenario in scenarios:
        (PAGES / f"{scenario.name}.md").write_text(page(scenario, rows))


def _releases_by_worst_loss(scenario: Scenario, rows: Sequence[Measurement]) -> Iterator[str]:
    """The releases on which runs lost committed records, lost only other records, and lost none."""
    mine = [row for row in rows if row.scenario == scenario.name and ":" not in row.target]
    losing = {row.target for row in mine if row.lost != ("none",)}
    committed = {row.target for row in mine if any(cause not in _NOT_COMMITTED for cause in _causes(row))}
    for releases in (committed, losing - committed, {row.target for row in mine} - losing):
        yield ", ".join(sorted(releases, key=Version)) or "-"


def _causes(row: Measurement) -> Iterator[str]:
    """The cause of each loss, or none; `lost` has texts such as `1,781 unclean-election, 4 unexplained`."""
    for run in row.lost:
        yield from (loss.split()[-1] for loss in run.split(", "))


def _losses_text(done: FinishedJob) -> str:
    records = [f"{count:,} {cause}" for cause, count in sorted(done.causes.items())]
    commits = [f"{plural(count, 'commit')} of a group: {cause}" for cause, count in sorted(done.commits.items())]
    return ", ".join([*records, *commits]) or "none"


def _odd(done: FinishedJob) -> str:
    """The outcome and its first reason."""
    reasons = [why for why in done.why if not why.startswith(("predicted:", "seen:"))]
    return f"{done.ended}: {reasons[0] if reasons else 'no reason'}"


def _page(scenario: Scenario, rows: Sequence[Measurement]) -> Iterator[str]:
    yield f"# {scenario.name}"
    yield _PAGE_INTRO
    yield f"{scenario.title}.\n"
    yield scenario.description.strip() + "\n"
    for prediction in scenario.predictions:
        levels = ", ".join(f"{name} {level}" for name, level in prediction.features.items())
        expected = prediction_sentence(prediction).removeprefix("predicted: ")
        bug = f"; contradicted there: {prediction.known_bug}" if prediction.known_bug else ""
        yield f"- Kafka `{prediction.kafka}`{f' with {levels}' if levels else ''}: {expected}{bug}"
    mine = [row for row in rows if row.scenario == scenario.name]
    yield ""
    if not mine:
        yield "Not measured yet.\n"
        return
    yield "| release | runtime | runs | records lost | a run, s | measured |"
    yield "|---|---|---|---|---|---|"
    for row in sorted(mine, key=lambda row: (row.runtime != "local", row.target)):
        runs = ", ".join(f"{count} {outcome}" for outcome, count in sorted(row.outcomes.items()))
        lost = "; ".join(row.lost)
        yield f"| {row.target} | {row.runtime} | {runs} | {lost} | {row.took_s:.0f} | {row.date} |"
    yield ""
    odd = [f"- {row.target}, {row.runtime}, {one}" for row in mine for one in row.odd]
    yield from [*odd, ""] if odd else []


def scenarios() -> list[Scenario]:
    """The catalogue, in order of names."""
    return [catalogue.find(name) for name in catalogue.names()]


def read_stored() -> list[Measurement]:
    """What docs/measured.json holds."""
    return msgspec.json.decode(MEASURED.read_bytes(), type=list[Measurement]) if MEASURED.is_file() else []


def main(argv: Sequence[str]) -> int:
    """Take in the stores and write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="*", type=Path, metavar="STORE")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="a folder of judged records")
    args = parser.parse_args(argv)
    measured = [measurements_of(Store(folder).history()) for folder in args.stores]
    if args.runs is not None:
        measured.append(measurements_of(finished_jobs(args.runs)))
    rows = {(row.scenario, row.target, row.runtime): row for found in (read_stored(), *measured) for row in found}
    known = {one.name for one in scenarios()}
    kept = [row for _, row in sorted(rows.items()) if row.scenario in known]
    MEASURED.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
    write(scenarios(), kept)
    facts.write(scenarios())
    kinds.write()
    print(f"{len(kept)} rows in {MEASURED}; {INDEX}, {PAGES}, {facts.PAGE}, {kinds.FAULTS} and {kinds.STEPS} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
