"""Losses and falls of the HW with their causes: attributed, grouped as verdict.json lists them, and told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from analysis.evidence.wholeness import OF_LOSSES, Gap
from analysis.judge.causes.attribution import attribute_loss, attribute_regression
from analysis.judge.causes.gone import READ
from analysis.judge.clauses.outcome_checks import Blamed, by_election, election_of
from analysis.judge.history.evidence import Attribution, Evidence
from ebbtide.record.verdict import Cause, Loss, RecordedElection, Regression

if TYPE_CHECKING:
    from analysis.reconcile.model import Reconciliation

_TOLD_MAX = 20
_DIFFER = "offset at which replicas differ|offsets at which replicas differ"


def blamed_losses(evidence: Evidence, reconciliation: Reconciliation) -> list[Blamed]:
    """What was lost, in parts that have one cause each."""
    return [
        Blamed(
            topic=lost.topic,
            partition=lost.partition,
            what={"acks": lost.acks, "first_offset": part.first_offset, "last_offset": part.last_offset},
            count=part.count,
            committed=lost.committed or lost.acks == -1,
            attribution=part.attribution,
        )
        for lost in reconciliation.lost
        for part in attribute_loss(evidence, lost)
    ]


def blamed_regressions(evidence: Evidence, reconciliation: Reconciliation) -> list[Blamed]:
    """Each fall of the HW."""
    return [
        Blamed(
            topic=back.topic,
            partition=back.partition,
            what={"from": back.from_, "to": back.to, "leader_epoch": back.leader_epoch},
            count=1,
            committed=True,
            attribution=attribute_regression(evidence, back, reconciliation.lost),
        )
        for back in reconciliation.regressions
    ]


def without_causes_where_gaps(blamed: Sequence[Blamed], gaps: Sequence[Gap]) -> list[Blamed]:
    """`blamed`, without causes if a part of the record has a gap in which a cause may be."""
    gap = next((one for one in gaps if one.part in OF_LOSSES), None)
    if gap is None:
        return list(blamed)
    unknown = Attribution(cause=None, election=None, why=f"the record is not whole: {gap.why}")
    return [msgspec.structs.replace(one, attribution=unknown) for one in blamed]


def losses_of(blamed: Sequence[Blamed]) -> list[Loss]:
    """Lost records by partition, acks, commitment, cause and election; those without a cause are not among them."""
    groups: dict[tuple[str, int, int, bool, Cause, RecordedElection | None], list[Blamed]] = {}
    for one in blamed:
        if one.attribution.cause is not None:
            election = election_of(one.attribution)
            key = (one.topic, one.partition, one.what["acks"], one.committed, one.attribution.cause, election)
            groups.setdefault(key, []).append(one)
    return [
        Loss(
            topic=topic,
            partition=partition,
            acks=acks,
            committed=committed,
            cause=cause,
            count=sum(one.count for one in group),
            first_offset=min(one.what["first_offset"] for one in group),
            last_offset=max(one.what["last_offset"] for one in group),
            election=election,
        )
        for (topic, partition, acks, committed, cause, election), group in groups.items()
    ]


def regressions_of(blamed: Sequence[Blamed]) -> list[Regression]:
    """The falls of the HW; those without a cause are not among them."""
    return [
        Regression(
            topic=one.topic,
            partition=one.partition,
            from_=one.what["from"],
            to=one.what["to"],
            leader_epoch=one.what["leader_epoch"],
            cause=one.attribution.cause,
            election=election_of(one.attribution),
        )
        for one in blamed
        if one.attribution.cause is not None
    ]


def reasons_of(losses: Sequence[Blamed], regressions: Sequence[Blamed], gone: Sequence[Blamed]) -> list[str]:
    """Each different cause in a sentence: which records, by which election, and why that broker could lead.

    What is unexplained stands among the reasons for the outcome already.
    """
    groups: dict[tuple[str, str, str], int] = {}
    for kind, blamed in (
        ("lost record", losses),
        ("vanished record", [one for one in gone if one.what["kind"] == READ]),
        (_DIFFER, [one for one in gone if one.what["kind"] != READ]),
        ("fall of the HW|falls of the HW", regressions),
    ):
        for one in blamed:
            if one.attribution.cause == "unexplained":
                continue
            cause = one.attribution.cause or "cause not known"
            reason = f"{cause}: {one.attribution.why}{by_election(one.attribution)}"
            key = (kind, f"{one.topic}-{one.partition}", reason)
            groups[key] = groups.get(key, 0) + one.count
    told_ = [f"{name}, {_counted(count, kind)}, {reason}" for (kind, name, reason), count in groups.items()]
    return told_[:_TOLD_MAX] + ([f"and {len(told_) - _TOLD_MAX} more"] if len(told_) > _TOLD_MAX else [])


def _counted(count: int, noun: str) -> str:
    """`1 lost record`, `2 lost records`; a noun with a plural of its own is given as `one|many`."""
    one, _, many = noun.partition("|")
    return f"{count:,} {one if count == 1 else many or one + 's'}"
