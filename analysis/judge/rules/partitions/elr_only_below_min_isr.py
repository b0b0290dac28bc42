"""KIP-966, ELR invariants: "If ELR is not empty, the ISR is under min ISR."

The min ISR is the effective one at that metadata offset. A change of min.insync.replicas is
written before the record that clears the ELR, so the next state of the partition is checked. A
record that completes a reassignment counts the replicas before it, even if it is the only
record of the reassignment: all releases do so.
"""

from __future__ import annotations

import msgspec

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding, state_row
from analysis.judge.rules.partitions.states import all_states, is_broken_by
from analysis.record.record import Record
from ebbtide.record.rows import PartitionState
from ebbtide.record.topic_lives import is_deleted

_ELR_BELOW = "elr-below-configured-min-isr"
"""The rule that takes the effective min ISR as given.

The KIP's own rule caps it by the replicas of this partition, releases by those of another.
"""


def _check(judged: Judged) -> Finding:
    with_elr = [state for state in all_states(judged.record.timeline) if state.elr]
    counted = {
        after.metadata_offset: msgspec.structs.replace(after, replicas=max(before.replicas, after.replicas, key=len))
        for before, after in judged.record.timeline.pairs()
        if after.elr and set(before.replicas) - set(after.replicas)
    }
    violations: list[Row] = []
    unknown: list[Row] = []
    for state in with_elr:
        min_isr = judged.record.protocol.min_isr(counted.get(state.metadata_offset, state), state.metadata_offset)
        if min_isr is None:
            unknown.append(state_row(state, why="the effective min ISR is not known"))
        elif is_broken_by(_ELR_BELOW, state, min_isr):
            violations.append(state_row(state, min_isr=min_isr))
        violations += _elr_kept_after_change(judged.record, state)
    return finding(exercised=len(with_elr), violations=violations, unknown=unknown)


def _elr_kept_after_change(record: Record, state: PartitionState) -> list[Row]:
    """Return the min ISR change that leaves the last state with a forbidden ELR.

    The deletion of a topic ends its configs too, and clears no ELR.
    """
    if is_deleted(state.topic):
        return []
    following = [
        later
        for later in record.timeline.states(state.topic, state.partition)
        if later.metadata_offset > state.metadata_offset
    ]
    if following or record.protocol.is_elr_on(state.metadata_offset) is False:
        return []
    for at in record.protocol.min_isr_changes(state.topic):
        min_isr = record.protocol.min_isr(state, at)
        if at > state.metadata_offset and min_isr is not None and is_broken_by(_ELR_BELOW, state, min_isr):
            return [state_row(state, min_isr=min_isr, min_isr_changed_at=at)]
    return []


RULE = Clause(
    kip="KIP-966",
    check=_check,
    is_shown_without_steps=True,
    unknown_when="the effective min ISR is not known",
    example="""
        The ISR has 2 members, as many as min ISR, and the ELR is not empty.
        partitions: leader=1; isr=1,2 elr=3
        gives: isr=1,2 elr=3
    """,
)
