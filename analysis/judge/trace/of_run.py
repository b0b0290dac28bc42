"""Holds the metadata log of a run against the model of its releases, and counts the actions that explain it."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.judge.history.steps import nodes_with_changed_directories
from analysis.judge.trace.check import check_timeline
from analysis.judge.trace.results import TimelineTrace
from analysis.record.record import Record
from ebbtide.coverage_fact import Fact

ACTION_CLAUSES: Mapping[str, str] = {
    "fence": "KIP-966, Controller behaviors 2",
    "controlled-shutdown": "KIP-966, Controller behaviors 2",
    "unregister": "KIP-966, Controller behaviors 2",
    "unfence": "KIP-966, Controller behaviors 3",
    "register": "KIP-966, Controller behaviors 4",
    "register-clean": "KIP-966, Detection of an unclean shutdown 3",
    "register-unclean": "KIP-966, Controller behaviors 4",
    "isr-expand": "KIP-966, Controller behaviors 1; KIP-903, Controller",
    "isr-shrink": "KIP-966, Controller behaviors 1",
    "isr-change": "KIP-966, Controller behaviors 1; KIP-903, Controller",
    "recovered": "KIP-704, KRaft Controller",
    "reassignment-completed": "KIP-966, Other behaviors 4",
    "preferred-election": "KIP-966, Leader election",
    "unclean-election": "KIP-704, KRaft Controller",
    "reassign": "KIP-966, Other behaviors 4",
    "cancel-reassignment": "KIP-966, Other behaviors 4b",
    "clear-elr": "KIP-966, Other behaviors 2",
    "elr-feature": "KIP-966, Compatibility: ELR",
    "assign-directory": "KIP-858",
    "directory-offline": "KIP-858",
    "create": "KIP-631",
}
"""The clause that each action stands on; where a release departs from it, docs/kips.md says how."""

FACTS = (
    Fact("actions", "transitions-explained", "records in the metadata log that the model explains"),
    *(
        Fact("actions", f"action-{name}", "such records that this action explains", clause)
        for name, clause in ACTION_CLAUSES.items()
    ),
)


def trace_of(record: Record) -> TimelineTrace:
    """Check the run's metadata log against the model of its releases."""
    manifest, brokers = record.manifest, frozenset(record.manifest.topology.brokers)
    touched = brokers & nodes_with_changed_directories(record)
    # Each broker reports where it put a new replica. Only one whose disk a step touched reports that one failed.
    has_several = (manifest.log_dirs or 1) > 1
    return check_timeline(
        record.timeline,
        record.protocol,
        statics=record.statics,
        asked=record.requests,
        touched_disks=None if record.proven_steps is None else brokers if has_several else touched,
        failing_disks=touched if has_several else frozenset(),
        in_final_read=frozenset(manifest.final_offsets),
    )


def seen_actions(trace: TimelineTrace) -> dict[str, int]:
    """Count the explained transitions by action, as coverage facts.

    Empty where no transition could be checked. That an action never was seen is known only if every
    transition has an action.
    """
    if trace.refused is not None:
        return {}
    unseen = {} if trace.unexplained else dict.fromkeys(ACTION_CLAUSES, 0)
    actions = {f"action-{name}": count for name, count in {**unseen, **trace.actions}.items()}
    return {"transitions-explained": len(trace.explained), **actions}
