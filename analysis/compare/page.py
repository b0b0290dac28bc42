"""Renders a comparison of runs, on one time axis, as one HTML page that needs no network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from analysis.compare.differences import (
    ComparedRow,
    election_rows,
    failures_of,
    rows_of,
    sentences_of,
    why_incomplete_of,
)
from analysis.record.record import Record
from analysis.record.whole import ended_before_sending
from analysis.report.drawing.layout import LEGEND, draw
from analysis.report.drawing.model import DrawnPartition
from analysis.report.html import REPORT
from analysis.report.model import scenario_title
from analysis.report.pages import render_page, write_page
from analysis.report.picture.building import picture_of
from analysis.report.picture.model import RunPicture, StepSpan
from analysis.report.summary import JudgedRun, judged_run
from analysis.sentences.words import has_sends, headline, release_text
from ebbtide.errors import UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_run
from ebbtide.record.outcomes import next_command, outcome_word
from ebbtide.record.verdict import not_judged, read_judgement, unfinished_verdict


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the page: its `record`, its verdict in a sentence, and its picture if there is one.

    `report` is the address of its report from the page; empty: it has none. `failure` says why the run did not
    complete. If it then sent no record, nothing `is_compared`.
    """

    record: str
    target: str
    run_id: str
    report: str
    outcome: str
    headline: str
    loses: bool
    failure: str | None
    is_compared: bool
    drawn: DrawnPartition | None


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Some judged runs, side by side.

    `partition` is the partition that the page shows, None where the runs have none in common; `step` is the step at
    which the time axes meet. `sentences` say what differs; the first of them are the `failures`: which runs did not
    complete, and why.
    """

    runs: tuple[ComparedRun, ...]
    scenarios: tuple[str, ...]
    title: str
    partition: str | None
    step: StepSpan | None
    failures: tuple[str, ...]
    sentences: tuple[str, ...]
    elections: tuple[ComparedRow, ...]
    rows: tuple[ComparedRow, ...]


def write_comparison(records: Sequence[Path], path: Path) -> RunComparison:
    """Write the page that compares some judged records, and return what it says. Raises `UsageError`."""
    compared = compare_runs(records, path.parent)
    write_page(path, render_comparison(compared))
    return compared


def compare_runs(paths: Sequence[Path], folder: Path) -> RunComparison:
    """Return the comparison of some judged records; its page links their reports from `folder`.

    A run that ended before it sent a record is said to have, and is compared with none. Raises `UsageError` when a
    record is damaged, was not judged, or has no metadata timeline, and when no run sent a record.
    """
    records = [RecordFolder(path) for path in paths]
    manifests = [read_run(record) for record in records]
    read = [Record(record, manifest) for record, manifest in zip(records, manifests, strict=True)]
    runs = [judged_run(record, read_judgement(record.folder)) for record in read]
    without = {
        at
        for at, (record, run) in enumerate(zip(read, runs, strict=True))
        if ended_before_sending(record, run.verdict.counts)
    }
    pictures = [None if at in without else _picture(record, runs[at]) for at, record in enumerate(read)]
    failures = failures_of(runs, pictures)
    if len(without) == len(records):
        raise UsageError(
            "there is nothing to compare: no run sent a record",
            where=", ".join(map(str, records)),
            got=" ".join(failures),
            next=next_command(str(records[0]), manifests[0], runs[0].verdict),
        )
    aligned = align([one for one in pictures if one is not None])
    partition = common_partition(aligned.pictures)
    rest = iter(aligned.pictures)
    pictures = [None if one is None else next(rest) for one in pictures]
    drawn = [
        next((part for part in draw(one, f"r{at}p").partitions if part.name == partition), None) if one else None
        for at, one in enumerate(pictures)
    ]
    scenarios = tuple(dict.fromkeys(run.manifest.scenario for run in runs))
    return RunComparison(
        runs=tuple(
            _run(record, run, picture, one, folder)
            for record, run, picture, one in zip(records, runs, pictures, drawn, strict=True)
        ),
        scenarios=scenarios,
        title=scenario_title(read[0]) if len(scenarios) == 1 else "",
        partition=partition,
        step=aligned.step,
        failures=tuple(failures),
        sentences=tuple(sentences_of(runs, pictures, partition, failures=failures)),
        elections=tuple(election_rows(pictures, partition)) if partition is not None else (),
        rows=tuple(rows_of(runs, without=without)),
    )


def _picture(record: Record, run: JudgedRun) -> RunPicture:
    """Return the picture of a run to compare. Raises `UsageError`."""
    if run.verdict == unfinished_verdict(run.manifest.run_id):
        raise not_judged(record.folder)
    picture = picture_of(record, run.verdict)
    if picture is None:
        raise UsageError("there is nothing to compare: no event of the run has a time", where=str(record))
    return picture


def render_comparison(compared: RunComparison) -> str:
    """Return the page of a comparison."""
    values = {name: getattr(compared, name) for name in compared.__struct_fields__}
    return render_page("analysis.compare", "compare", **values, signs=LEGEND)


def _run(
    record: RecordFolder, run: JudgedRun, picture: RunPicture | None, drawn: DrawnPartition | None, folder: Path
) -> ComparedRun:
    report = record / REPORT
    return ComparedRun(
        record=str(record),
        target=release_text(run.target),
        run_id=run.manifest.run_id,
        report=quote(os.path.relpath(report, folder)) if report.is_file() else "",
        outcome=outcome_word(run.verdict),
        headline=headline(run.verdict, run.target, sends=has_sends(record, run.verdict)),
        loses=any(loss.committed for loss in run.verdict.losses),
        failure=None if run.manifest.status == "complete" else why_incomplete_of(run),
        is_compared=picture is not None,
        drawn=drawn,
    )


class AlignedPictures(msgspec.Struct, frozen=True, kw_only=True):
    """Pictures that begin, end and count their time alike.

    `step` is the step at which the time is 0 in every picture; None: no step fired in all of them,
    and the time is 0 at the start of each run.
    """

    pictures: tuple[RunPicture, ...]
    step: StepSpan | None


def align(pictures: Sequence[RunPicture]) -> AlignedPictures:
    """Return the pictures with the first step that fired in all of them at the same place.

    A step is the same in two runs if it has the same index in the schedule and the same kind.
    """
    by_key = [{(step.index, step.kind): step for step in reversed(one.steps)} for one in pictures]
    common = [step for step in pictures[0].steps if all((step.index, step.kind) in steps for steps in by_key)]
    first = min(common, key=lambda step: step.begin_ns, default=None)
    zeros = [
        one.zero_ns if first is None else steps[first.index, first.kind].begin_ns
        for one, steps in zip(pictures, by_key, strict=True)
    ]
    before_ns = max(zero - one.begin_ns for one, zero in zip(pictures, zeros, strict=True))
    after_ns = max(one.end_ns - zero for one, zero in zip(pictures, zeros, strict=True))
    return AlignedPictures(
        pictures=tuple(
            msgspec.structs.replace(one, zero_ns=zero, begin_ns=zero - before_ns, end_ns=zero + after_ns)
            for one, zero in zip(pictures, zeros, strict=True)
        ),
        step=first,
    )


def common_partition(pictures: Sequence[RunPicture]) -> str | None:
    """Return the partition to compare: one that is blamed in any run, else the first; None: none is in all."""
    names = [{one.name for one in picture.partitions} for picture in pictures]
    shared = [one for picture in pictures for one in picture.partitions if all(one.name in some for some in names)]
    blamed = next((one.name for one in shared if one.is_blamed), None)
    return blamed or (shared[0].name if shared else None)
