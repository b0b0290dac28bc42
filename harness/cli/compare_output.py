"""What `ebbtide runs compare` prints with --json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from analysis.compare.differences import ComparedRow
from analysis.compare.page import RunComparison


class ComparedVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a comparison; `loses`: it lost committed records.

    `failure` says why the run did not complete, null if it did. `is_compared` is false for a run that then sent no
    record, so that nothing can be compared for it.
    """

    record: str
    run_id: str
    target: str
    outcome: str
    headline: str
    loses: bool
    failure: str | None
    is_compared: bool


class CompareOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between runs, and the page that shows it.

    `sentences` say it in words. `rows` and `elections` have a cell for each run; `elections` are those of `partition`,
    which is null if the runs have no partition in common.
    """

    page: str
    runs: tuple[ComparedVerdict, ...]
    partition: str | None
    sentences: tuple[str, ...]
    elections: tuple[ComparedRow, ...]
    rows: tuple[ComparedRow, ...]


def compare_output(compared: RunComparison, records: Sequence[Path], page: Path) -> CompareOutput:
    """Return a comparison without its pictures."""
    runs = (
        ComparedVerdict(
            record=str(record),
            run_id=run.run_id,
            target=run.target,
            outcome=run.outcome,
            headline=run.headline,
            loses=run.loses,
            failure=run.failure,
            is_compared=run.is_compared,
        )
        for record, run in zip(records, compared.runs, strict=True)
    )
    return CompareOutput(
        page=str(page),
        runs=tuple(runs),
        partition=compared.partition,
        sentences=compared.sentences,
        elections=compared.elections,
        rows=compared.rows,
    )
