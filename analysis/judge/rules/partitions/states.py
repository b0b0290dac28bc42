"""What the clauses on partitions share: the states of a record, and the specification's table of rules on one state."""

from __future__ import annotations

from analysis.judge.history.timeline import Timeline
from analysis.judge.trace.world import model_of
from analysis.spec.invariants import invariants_of
from analysis.spec.partition import NOBODY, Cluster
from analysis.spec.variants import VARIANTS
from ebbtide.record.rows import PartitionState

_TABLE = {rule.name: rule for variant in VARIANTS for rule in invariants_of(variant)}


def is_broken_by(invariant: str, state: PartitionState, min_isr: int = 0) -> bool:
    """Whether the state breaks a rule of the specification's table."""
    return not _TABLE[invariant].holds(model_of(state), Cluster(registered=NOBODY, unfenced=NOBODY, min_isr=min_isr))


def all_states(timeline: Timeline) -> list[PartitionState]:
    """Return the states of every partition."""
    return [state for states in timeline.partitions.values() for state in states]
