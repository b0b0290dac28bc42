"""Cases of the counting rules: what to build, and the items it must lead to.

Each case is a topic of one record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from pyspark.sql import SparkSession
from records import RecordBuilder, as_record

from analysis.items import reconcile, reconcile_all
from analysis.reconcile.model import Reconciliation

Case = Callable[[RecordBuilder], object]
Expected = dict[str, list[tuple[int | None, int | None]]]
"""By kind, the (offset, value) of each item."""

_VALUES_A_CASE = 1_000


def reconcile_cases(
    spark: SparkSession, folder: Path, builder: RecordBuilder, cases: dict[str, tuple[Case, Expected]]
) -> Reconciliation:
    """All cases as one record, reconciled."""
    for number, (build, _) in enumerate(cases.values()):
        build(builder.on(f"case-{number}", base=number * _VALUES_A_CASE))
    return reconcile(spark, as_record(builder.write(folder / "run"), builder.manifest()))


def reconcile_builders(spark: SparkSession, folder: Path, builders: Iterable[RecordBuilder]) -> list[Reconciliation]:
    """Each as a record of its own; all in the same jobs, which cost more than what the records differ in."""
    records = [as_record(one.write(folder / str(number)), one.manifest()) for number, one in enumerate(builders)]
    return reconcile_all(spark, records)


def items_of(found: Reconciliation, number: int) -> Expected:
    """The items of one case."""
    items: Expected = {}
    for anomaly in found.anomalies:
        if anomaly.topic == f"case-{number}":
            assert anomaly.count == len(anomaly.examples)
            for example in anomaly.examples:
                value = example.get("value")
                place = (example.get("offset"), None if value is None else value - number * _VALUES_A_CASE)
                items.setdefault(anomaly.kind, []).append(place)
    return items
