"""What the clauses on producers' values share."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.judge.history.evidence import Row
from analysis.reconcile.model import ShownGroup


def client_row(one: ShownGroup) -> Row:
    """Return items of a kind on one partition as evidence."""
    return {"topic": one.topic, "partition": one.partition, "count": one.count, **one.first}


def unknown_rows(kind: str, exercised: int, unknown_kinds: Mapping[str, str]) -> list[Row]:
    """Return why a kind is unknown as evidence, if it matters."""
    return [{"why": unknown_kinds[kind]}] if exercised and kind in unknown_kinds else []
