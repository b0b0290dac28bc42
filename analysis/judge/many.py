"""Judges many run records in the same Spark jobs, some hundred at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.judge.judging import conclude, ready
from analysis.verdict import Verdict
from harness.errors import EbbtideError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analysis.reconcile.model import Reconciliation
    from harness.record.manifest import Manifest

Stage = Callable[[str], None]
"""Hears what is being done, for a display."""

BATCH = 200
"""Records in the same jobs: what is known of each of them beforehand is in memory at once, and no more."""


def judge_many(
    records: Sequence[Path], spark: SparkSession, stage: Stage = lambda _: None
) -> Iterator[tuple[Path, Verdict | EbbtideError]]:
    """Each record with its verdict, or with why it could not be judged; in the order given.

    What is written, and what a verdict says, is as by `judging.judge`.
    """
    for first in range(0, len(records), BATCH):
        yield from _judged(records[first : first + BATCH], spark, stage)


def _judged(batch: Sequence[Path], spark: SparkSession, stage: Stage) -> Iterator[tuple[Path, Verdict | EbbtideError]]:
    manifests: dict[Path, Manifest] = {}
    errors: dict[Path, EbbtideError] = {}
    stage("reading")
    for record in batch:
        try:
            manifests[record] = ready(record)
        except EbbtideError as error:
            errors[record] = error
    found = _reconciled(list(manifests.items()), spark, stage)
    stage("judging")
    for record in batch:
        ended: Reconciliation | EbbtideError = errors[record] if record in errors else found[record]
        try:
            done = ended if isinstance(ended, EbbtideError) else conclude(record, manifests[record], ended)
        except EbbtideError as error:
            done = error
        yield record, done


def _reconciled(
    records: list[tuple[Path, Manifest]], spark: SparkSession, stage: Stage
) -> dict[Path, Reconciliation | EbbtideError]:
    """All at once; where that fails, each half for itself: some damage shows only when rows are read."""
    from analysis.reconcile import reconcile_all

    if not records:
        return {}
    try:
        done = reconcile_all(spark, records, stage)
        return {record: one for (record, _), one in zip(records, done, strict=True)}
    except EbbtideError as error:
        if len(records) == 1:
            return {records[0][0]: error}
    half = len(records) // 2
    return _reconciled(records[:half], spark, stage) | _reconciled(records[half:], spark, stage)
