"""Records of several modules of tests, reconciled in the same jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from records import RecordBuilder, as_record

from analysis.reconcile.model import Reconciliation
from analysis.record.record import Record
from bench.reconciling import reconcile_all

Make = Callable[[Path], Record]
"""Makes a record in a folder that is not there yet."""


class Together(NamedTuple):
    """The records of one module and what was found in them, by the names that the module gave them."""

    made: Mapping[Any, Record]
    found: Mapping[Any, Reconciliation]


def record_of(build: Callable[[], RecordBuilder], scenario: str | None = None) -> Make:
    """Return what makes the record of a builder, with such a scenario."""

    def make(folder: Path) -> Record:
        builder = build()
        builder.write(folder)
        if scenario is not None:
            (folder / "scenario.toml").write_text(scenario)
        return as_record(folder, builder.manifest())

    return make


def reconcile_together(
    spark: SparkSession, folder: Path, asked: Mapping[str, Mapping[Any, Make]]
) -> dict[str, Together]:
    """Make and reconcile the records of each module."""
    numbers = count()
    made = {
        module: {name: make(folder / str(next(numbers))) for name, make in makes.items()}
        for module, makes in asked.items()
    }
    found = iter(reconcile_all(spark, [record for records in made.values() for record in records.values()]))
    return {module: Together(records, {name: next(found) for name in records}) for module, records in made.items()}
