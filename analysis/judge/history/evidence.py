"""Holds the question that a cause answers, the answer, and the anomalies that have one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar, cast

import msgspec

from analysis.reconcile.model import G, ItemGroup
from analysis.record.elections import ElectionEvent
from ebbtide.record.verdict import Cause, LossEvent, RecordedElection

Row = dict[str, Any]
"""One piece of evidence, as verdict.json lists it."""


class LostOffset(msgspec.Struct, frozen=True, kw_only=True):
    """An offset that a leader must have lost: it was acked or served, and is missing.

    It was acked or served at `since_ns`, under an epoch of at most `since_epoch`. `until_epoch`
    bounds the guilty election from above; None: any later election. `exact`: the record itself says
    that it was appended under `since_epoch`, so no election up to that epoch is guilty.
    """

    topic: str
    partition: int
    offset: int
    since_ns: int
    since_epoch: int
    until_epoch: int | None = None
    exact: bool = False

    @property
    def name(self) -> str:
        """The partition as `topic-partition`."""
        return f"{self.topic}-{self.partition}"


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """A cause with its election, and the reason in a sentence; cause None: not known.

    `is_allowed`: whatever the cause, every history that fits the evidence allows it. `breaks_kip_903`: unexplained
    because a broker joined the ISR without its log although KIP-903 was in force.
    """

    cause: Cause | None
    election: ElectionEvent | None
    why: str
    is_allowed: bool = False
    breaks_kip_903: bool = False


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
