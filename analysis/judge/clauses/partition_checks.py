"""Checks each partition state and transition of the metadata log.

A rule on a single state is a predicate of the specification's table, `analysis.spec.invariants`.
"""

from __future__ import annotations

import msgspec

from analysis.judge.clauses.findings import NOT_IN_EVIDENCE, Finding, Row, election_row, finding, state_row
from analysis.judge.history.elections import all_elections
from analysis.judge.history.evidence import Evidence
from analysis.judge.history.timeline import Timeline
from analysis.judge.trace.world import model_of
from analysis.spec.invariants import invariants_of
from analysis.spec.partition import NOBODY, Cluster
from analysis.spec.variants import VARIANTS
from ebbtide.record.rows import PartitionState
from ebbtide.record.topic_lives import is_deleted

_TABLE = {rule.name: rule for variant in VARIANTS for rule in invariants_of(variant)}

_ELR_BELOW = "elr-below-configured-min-isr"
"""The rule that takes the effective min ISR as given.

The KIP's own rule caps it by the replicas of this partition, releases by those of another.
"""


def _is_broken_by(invariant: str, state: PartitionState, min_isr: int = 0) -> bool:
    """Whether the state breaks a rule of the specification's table."""
    return not _TABLE[invariant].holds(model_of(state), Cluster(registered=NOBODY, unfenced=NOBODY, min_isr=min_isr))


def _all_states(timeline: Timeline) -> list[PartitionState]:
    return [state for states in timeline.partitions.values() for state in states]


def isr_elr_disjoint(evidence: Evidence) -> Finding:
    """KIP-966, ELR invariants: no member of the ELR is in the ISR."""
    with_elr = [state for state in _all_states(evidence.timeline) if state.elr]
    return finding(
        exercised=len(with_elr),
        violations=[state_row(state) for state in with_elr if _is_broken_by("elr-not-in-isr", state)],
    )


def elr_only_below_min_isr(evidence: Evidence) -> Finding:
    """KIP-966, ELR invariants: "If ELR is not empty, the ISR is under min ISR."

    The min ISR is the effective one at that metadata offset. A change of min.insync.replicas is
    written before the record that clears the ELR, so the next state of the partition is checked. A
    record that completes a reassignment counts the replicas before it, even if it is the only
    record of the reassignment: all releases do so.
    """
    with_elr = [state for state in _all_states(evidence.timeline) if state.elr]
    counted = {
        after.metadata_offset: msgspec.structs.replace(after, replicas=max(before.replicas, after.replicas, key=len))
        for before, after in evidence.timeline.pairs()
        if after.elr and set(before.replicas) - set(after.replicas)
    }
    violations: list[Row] = []
    unknown: list[Row] = []
    for state in with_elr:
        min_isr = evidence.rules.min_isr(counted.get(state.metadata_offset, state), state.metadata_offset)
        if min_isr is None:
            unknown.append(state_row(state, why="the effective min ISR is not known"))
        elif _is_broken_by(_ELR_BELOW, state, min_isr):
            violations.append(state_row(state, min_isr=min_isr))
        violations += _elr_kept_after_change(evidence, state)
    return finding(exercised=len(with_elr), violations=violations, unknown=unknown)


def _elr_kept_after_change(evidence: Evidence, state: PartitionState) -> list[Row]:
    """Return the min ISR change that leaves the last state with a forbidden ELR.

    The deletion of a topic ends its configs too, and clears no ELR.
    """
    if is_deleted(state.topic):
        return []
    following = [
        later
        for later in evidence.timeline.states(state.topic, state.partition)
        if later.metadata_offset > state.metadata_offset
    ]
    if following or evidence.rules.is_elr_on(state.metadata_offset) is False:
        return []
    for at in evidence.rules.min_isr_changes(state.topic):
        min_isr = evidence.rules.min_isr(state, at)
        if at > state.metadata_offset and min_isr is not None and _is_broken_by(_ELR_BELOW, state, min_isr):
            return [state_row(state, min_isr=min_isr, min_isr_changed_at=at)]
    return []


def recovering_has_an_isr_of_one(evidence: Evidence) -> Finding:
    """KIP-704, Topic Partition Leader: the ISR has one member while RECOVERING.

    "the ISR size is 1 while the leader recovery state field is RECOVERING." The record that grows
    the ISR therefore ends RECOVERING. A partition without a leader may have lost that one member
    too (KIP-966: the ISR can be empty).
    """
    recovering = [state for state in _all_states(evidence.timeline) if state.recovering]
    return finding(
        exercised=len(recovering),
        violations=[state_row(state) for state in recovering if _is_broken_by("recovering-alone", state)],
    )


def recovering_begins_with_an_election(evidence: Evidence) -> Finding:
    """KIP-704, KRaft Controller: only an unclean election itself sets RECOVERING."""
    began = [
        (before, after) for before, after in evidence.timeline.pairs() if after.recovering and not before.recovering
    ]
    wrong = [after for before, after in began if after.leader < 0 or after.leader_epoch == before.leader_epoch]
    return finding(exercised=len(began), violations=[state_row(state) for state in wrong])


def election_outside_candidates_shows_recovering(evidence: Evidence) -> Finding:
    """KIP-704: a leader elected from outside the ISR is RECOVERING.

    KIP-966 counts the ELR among the candidates. So no leader comes from outside ISR and ELR unless
    the record that elects it says RECOVERING. The last known leader comes from outside.
    """
    outside = [one for one in all_elections(evidence.timeline) if one.is_from_outside]
    hidden = [one for one in outside if not one.after.recovering]
    return finding(
        exercised=len(outside),
        violations=[election_row(one) for one in hidden if not one.after.lacks_record_since(one.before)],
        unknown=[
            election_row(one) | {"why": NOT_IN_EVIDENCE} for one in hidden if one.after.lacks_record_since(one.before)
        ],
    )


def leader_in_isr(evidence: Evidence) -> Finding:
    """KIP-966, Leader election: an elected leader is in the ISR from that record on.

    This includes a leader elected from the ELR.
    """
    led = [state for state in _all_states(evidence.timeline) if state.leader >= 0]
    return finding(
        exercised=len(led), violations=[state_row(state) for state in led if _is_broken_by("leader-in-isr", state)]
    )


def partition_epoch_rises_by_one(evidence: Evidence) -> Finding:
    """KIP-631: every change of a partition raises its partition epoch by one.

    So the log has no fork. A jump by more means that the evidence lacks a record: unknown. An epoch
    that goes back, or that stays while the state changes, is a violation.
    """
    pairs = list(evidence.timeline.pairs())
    violations = [
        state_row(after, partition_epoch_before=before.partition_epoch)
        for before, after in pairs
        if after.partition_epoch <= before.partition_epoch
    ]
    gaps = [
        state_row(after, partition_epoch_before=before.partition_epoch, why=NOT_IN_EVIDENCE)
        for before, after in pairs
        if after.lacks_record_since(before)
    ]
    return finding(exercised=len(pairs), violations=violations, unknown=gaps)


def leader_epoch_rises_by_one(evidence: Evidence) -> Finding:
    """KIP-631: the leader epoch never goes back and rises by one with each new leader.

    No change raises it by more than one.
    """
    pairs = list(evidence.timeline.pairs())
    violations: list[Row] = []
    for before, after in pairs:
        rise = after.leader_epoch - before.leader_epoch
        steps = after.partition_epoch - before.partition_epoch
        moved = after.leader != before.leader
        if rise < 0 or (moved and rise == 0) or (steps >= 1 and rise > steps):
            violations.append(state_row(after, leader_before=before.leader, leader_epoch_before=before.leader_epoch))
    return finding(exercised=len(pairs), violations=violations)
