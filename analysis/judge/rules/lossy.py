"""What the clauses on transactions share: whether a log of the run may have lost records."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.judge.history.elections import all_elections
from analysis.judge.history.evidence import Evidence
from ebbtide.record.log_losses import log_losses
from ebbtide.record.steps import StepEntry

_CLEAN_ROADS = ("isr", "elr", "reassignment")


def why_lossy(evidence: Evidence, steps: Sequence[StepEntry] | None) -> str | None:
    """Return why a log of the run may have lost records; None if none can have."""
    if steps is None:
        return "steps.jsonl is missing: whether a log lost records is not known"
    if "partitions" in evidence.timeline.missing:
        return "the metadata timeline is missing: whether an unclean election cost a marker is not known"
    if any(one.lost_bytes != 0 for one in log_losses(list(steps))):
        return "a log of the run lost records, perhaps a marker or what the coordinator knew"
    if any(one.road not in _CLEAN_ROADS or one.removes_isr for one in all_elections(evidence.timeline)):
        return "an election outside ISR and ELR may have cost a marker, or what the coordinator knew"
    return None
