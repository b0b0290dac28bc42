"""Holds the metadata log of a run against the model of its releases, and counts the actions that explain it."""

from __future__ import annotations

from analysis.judge.trace.check import check_timeline
from analysis.judge.trace.results import TimelineTrace
from analysis.record.record import Record
from ebbtide.scenario.facts import ACTION_CLAUSES
from ebbtide.scenario.steps.table import KINDS

_TOUCH_DIRECTORIES = frozenset(kind for kind, one in KINDS.items() if one.changes_directory)
"""Steps after which a broker's log directory may be replaced or offline.

A power loss leaves the directory and its id.
"""


def trace_of(record: Record) -> TimelineTrace:
    """Check the run's metadata log against the model of its releases."""
    manifest, steps = record.manifest, record.proven_steps
    touched = {node for step in steps or () if step.step in _TOUCH_DIRECTORIES for node in step.nodes}
    brokers = frozenset(manifest.topology.brokers)
    failing: frozenset[int] = frozenset()
    if (manifest.log_dirs or 1) > 1:
        # Each broker reports where it put a new replica. Only one whose disk a step touched reports that one failed.
        failing = brokers & touched
        touched |= brokers
    return check_timeline(
        record.timeline,
        record.protocol,
        statics=record.statics,
        asked=record.requests,
        touched_disks=brokers & touched if steps is not None else None,
        failing_disks=failing,
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
