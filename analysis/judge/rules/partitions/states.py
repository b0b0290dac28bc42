"""What the clauses on partitions share: the states of a record, and the specification's table of rules on one state."""

from __future__ import annotations

from collections.abc import Callable

from analysis.judge.rules.clause import Finding, Judged, finding, state_row
from analysis.judge.trace.world import model_of
from analysis.record.timeline import Timeline
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


def finding_on_states(judged: Judged, invariant: str, is_looked_at: Callable[[PartitionState], object]) -> Finding:
    """Return a violation for each state that breaks a rule of the specification's table, of those looked at."""
    states = [state for state in all_states(judged.record.timeline) if is_looked_at(state)]
    broken = [state_row(state) for state in states if is_broken_by(invariant, state)]
    return finding(exercised=len(states), violations=broken)
