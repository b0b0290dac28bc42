"""Anomalies with what explains them, and how sentences group and place them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar, cast

import msgspec

from analysis.judge.history.evidence import Attribution
from analysis.reconcile.model import G, ItemGroup
from ebbtide.record.verdict import LossEvent, RecordedElection

Items = TypeVar("Items", bound=ItemGroup, covariant=True)


class AttributedAnomaly(msgspec.Struct, Generic[Items], frozen=True, kw_only=True):
    """Items of a group that have one attribution.

    `items` is the group, or the part of it. `oldest_s` and `lost_by` of lost records are as in
    `ebbtide.record.verdict.Loss`.
    """

    items: Items
    committed: bool
    attribution: Attribution
    oldest_s: float | None = None
    lost_by: LossEvent | None = None


AnyAnomaly = AttributedAnomaly[ItemGroup]
"""One of whatever kind."""
A = TypeVar("A", bound=AnyAnomaly)


def blamed_of(blamed: Iterable[AnyAnomaly], sort: type[G]) -> list[AttributedAnomaly[G]]:
    """Return the anomalies whose items are groups of one sort."""
    return [cast("AttributedAnomaly[G]", one) for one in blamed if isinstance(one.items, sort)]


def election_of(attribution: Attribution) -> RecordedElection | None:
    """Return the guilty election as verdict.json names it."""
    return attribution.election.as_recorded if attribution.election is not None else None
