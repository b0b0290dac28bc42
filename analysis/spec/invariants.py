"""What must hold in every state of a partition, as one table: name, KIP clause, predicate."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from analysis.spec.partition import Cluster, Partition


class Invariant(NamedTuple):
    """`holds(partition, cluster)` must be true after every event; `source` names the KIP clause or the code."""

    name: str
    source: str
    holds: Callable[[Partition, Cluster], bool]


def invariants_of(variant: str) -> tuple[Invariant, ...]:
    """The invariants of a variant, in the order they are checked."""
    raise NotImplementedError


def broken(variant: str, partition: Partition, cluster: Cluster) -> list[Invariant]:
    """Those that do not hold."""
    return [rule for rule in invariants_of(variant) if not rule.holds(partition, cluster)]
