"""What the clauses on transactions share: whether a log of the run may have lost records."""

from __future__ import annotations

from analysis.record.record import Record
from ebbtide.record.log_losses import log_losses

_CLEAN_ROADS = ("isr", "elr", "reassignment")


def why_lossy(record: Record) -> str | None:
    """Return why a log of the run may have lost records; None if none can have."""
    steps = record.split_steps
    if steps is None:
        return "steps.jsonl is missing: whether a log lost records is not known"
    if "partitions" in record.timeline.missing:
        return "the metadata timeline is missing: whether an unclean election cost a marker is not known"
    if any(one.lost_bytes != 0 for one in log_losses(list(steps))):
        return "a log of the run lost records, perhaps a marker or what the coordinator knew"
    if any(one.road not in _CLEAN_ROADS or one.removes_isr for one in record.elections):
        return "an election outside ISR and ELR may have cost a marker, or what the coordinator knew"
    return None
