"""Says which values an idempotent producer sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis.rows.facts import Facts
from analysis.spark.columns import runs_where
from analysis.spark.sql import Column, F


def is_idempotent(runs: Sequence[Facts]) -> Column:
    """Return whether the value's producer was idempotent: it must not append twice."""
    found = F.lit(False)
    for producers in sorted({facts.idempotent for facts in runs if facts.idempotent}):
        found = found | (F.col("producer").isin(*producers) & runs_where(runs, _with_is_idempotent(producers)))
    return F.coalesce(found, F.lit(False))


def _with_is_idempotent(producers: tuple[int, ...]) -> Callable[[Facts], bool]:
    return lambda facts: facts.idempotent == producers
