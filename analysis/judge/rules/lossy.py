"""What clauses share: whether a log of the run may have lost records, and which elections from the ELR lost some."""

from __future__ import annotations

from analysis.judge.history.evidence import AttributedAnomaly
from analysis.judge.rules.clause import Judged
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
    """Return the elections from the ELR that lost committed records, or may have.

    The clause on committed losses judges these losses. Replicas that follow such a leader cut off what it never had, as
    KIP-101 demands. Where it is not known which election lost a record, each one of its partition counts. Records that
    were never committed do not count: a member of the ELR need not have them.
    """
    lost = [one for one in judged.blamed_of(LostRange) if one.committed]
    elections = judged.record.elections if lost else ()
    return [one for one in elections if one.road == "elr" and any(_may_have_lost(one, group) for group in lost)]


def _may_have_lost(election: ElectionEvent, lost: AttributedAnomaly[LostRange]) -> bool:
    guilty, after, items = lost.attribution.election, election.after, lost.items
    return guilty == election or (guilty is None and (after.topic, after.partition) == (items.topic, items.partition))
