"""Reconciles records alone, for benchmarks and tests: no verdict is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from analysis.items import check_record, reconcile_checked
from analysis.reconcile.model import Reconciliation
from analysis.record.record import Record
from ebbtide.errors import EbbtideError

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark


def reconcile(spark: Spark, record: Record, stage: Callable[[str], None] = lambda _: None) -> Reconciliation:
    """Find the anomalies of a record, and write all of them to its anomalies/; `stage` is called with each stage.

    Raises `UsageError` when a file of the record is damaged or does not fit the record format, `HarnessError`
    when the record cannot be written to.
    """
    return reconcile_all(spark, [record], stage)[0]


def reconcile_all(
    spark: Spark,
    records: Sequence[Record],
    stage: Callable[[str], None] = lambda _: None,
) -> list[Reconciliation]:
    """Reconcile several records in the same jobs; `stage` is called with each stage.

    Raises as `reconcile` does, for the first of the records that cannot be reconciled.
    """
    for record in records:
        check_record(record)
    found = []
    for one in reconcile_checked(spark, records, stage):
        if isinstance(one, EbbtideError):
            raise one
        found.append(one)
    return found
