"""Renders a comparison of runs as one HTML page that needs no network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from analysis.compare.aligning import align, common_partition
from analysis.compare.differences import ComparedRow, election_rows, rows_of, sentences_of
from analysis.report.drawing.layout import LEGEND, draw
from analysis.report.drawing.model import DrawnPartition
from analysis.report.html import REPORT, fit_class, page_script, page_style
from analysis.report.model import scenario_title
from analysis.report.pages import page_templates, script_hash
from analysis.report.picture.building import picture_of, read_source
from analysis.report.picture.model import StepSpan
from analysis.report.summary import JudgedRun, judged_run
from analysis.report.words import has_sends, headline, release_text
from ebbtide.errors import UsageError
from ebbtide.record.files import write_atomically
from ebbtide.record.manifest import read_run
from ebbtide.record.verdict import read_judgement


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the page: its verdict in a sentence, and its picture if there is one.

    `report` is the address of its report from the page; empty: it has none.
    """

    target: str
    run_id: str
    report: str
    outcome: str
    headline: str
    loses: bool
    drawn: DrawnPartition | None


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Some judged runs, side by side.

    `partition` is the partition that the page shows, None where the runs have none in common; `step` is the step at
    which the time axes meet. `sentences` say what differs.
    """

    runs: tuple[ComparedRun, ...]
    scenarios: tuple[str, ...]
    title: str
    partition: str | None
    step: StepSpan | None
    sentences: tuple[str, ...]
    elections: tuple[ComparedRow, ...]
    rows: tuple[ComparedRow, ...]


def write_comparison(records: Sequence[Path], path: Path) -> RunComparison:
    """Write the page that compares some judged records, and return what it says. Raises `UsageError`."""
    compared = compare_runs(records, path.parent)
    write_atomically(path, render_comparison(compared).encode())
    return compared


def compare_runs(records: Sequence[Path], folder: Path) -> RunComparison:
    """Return the comparison of some judged records; its page links their reports from `folder`.

    Raises `UsageError` when a record is damaged, was not judged, or has no metadata timeline.
    """
    manifests = [read_run(record) for record in records]
    runs = [judged_run(record, read_judgement(record)) for record in records]
    pictures = []
    for record, manifest, run in zip(records, manifests, runs, strict=True):
        picture = picture_of(read_source(record, manifest, run.verdict))
        if picture is None:
            raise UsageError("there is nothing to compare: no event of the run has a time", where=str(record))
        pictures.append(picture)
    aligned = align(pictures)
    partition = common_partition(aligned.pictures)
    drawn = [
        next((one for one in draw(picture, f"r{at}p").partitions if one.name == partition), None)
        for at, picture in enumerate(aligned.pictures)
    ]
    scenarios = tuple(dict.fromkeys(run.manifest.scenario for run in runs))
    return RunComparison(
        runs=tuple(_run(record, run, one, folder) for record, run, one in zip(records, runs, drawn, strict=True)),
        scenarios=scenarios,
        title=scenario_title(records[0]) if len(scenarios) == 1 else "",
        partition=partition,
        step=aligned.step,
        sentences=tuple(sentences_of(runs, aligned.pictures, partition)),
        elections=tuple(election_rows(aligned.pictures, partition)) if partition is not None else (),
        rows=tuple(rows_of(runs)),
    )


def render_comparison(compared: RunComparison) -> str:
    """Return the page of a comparison."""
    script = page_script()
    return (
        page_templates("analysis.compare")
        .get_template("compare.html.j2")
        .render(
            **{name: getattr(compared, name) for name in compared.__struct_fields__},
            style=page_style(),
            script=script,
            signs=LEGEND,
            script_hash=script_hash(script),
            fit_class=fit_class,
        )
    )


def _run(record: Path, run: JudgedRun, drawn: DrawnPartition | None, folder: Path) -> ComparedRun:
    report = record / REPORT
    return ComparedRun(
        target=release_text(run.target),
        run_id=run.manifest.run_id,
        report=quote(os.path.relpath(report, folder)) if report.is_file() else "",
        outcome=run.verdict.outcome,
        headline=headline(run.verdict, run.target, sends=has_sends(record, run.verdict)),
        loses=any(loss.committed for loss in run.verdict.losses),
        drawn=drawn,
    )
