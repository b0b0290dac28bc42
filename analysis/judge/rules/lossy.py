"""What clauses share: whether a log of the run may have lost records, and which elections from the ELR lost some."""

from __future__ import annotations

from analysis.judge.rules.judged import Judged
from analysis.reconcile.model import LostRange
from analysis.record.elections import ElectionEvent
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


def elections_from_a_wrong_elr(judged: Judged) -> list[ElectionEvent]:
    """Return the elections from the ELR that may have lost records; another clause accuses whoever kept that ELR.

    Replicas that follow such a leader cut off what it never had, as KIP-101 has it.
    """
    places = {
        (one.items.topic, one.items.partition)
        for one in judged.blamed_of(LostRange)
        if (guilty := one.attribution.election) is None or guilty.road == "elr"
    }
    elections = judged.record.elections if places else ()
    return [one for one in elections if one.road == "elr" and (one.after.topic, one.after.partition) in places]
