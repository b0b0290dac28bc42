"""Attributes losses and HW regressions, grouped as verdict.json lists them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from analysis.causes.from_record import EvidentRecord
from analysis.judge.causes.attribution import attribute_loss, attribute_regression
from analysis.judge.causes.loss_age import age_of
from analysis.judge.history.attributed import (
    A,
    AnyAnomaly,
    AttributedAnomaly,
    FallenHw,
    LostCommit,
    LostRecords,
    RepeatedInput,
    election_of,
    elections_in_brackets,
    group_alike,
    places_of,
)
from analysis.judge.history.evidence import Attribution
from analysis.record.whole import OF_LOSSES, Gap
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.verdict import Blamed, Cause, CommitLoss, Loss, RecordedElection, Regression
from ebbtide.rules.table import ANOMALIES

if TYPE_CHECKING:
    from analysis.reconcile.model import Reconciliation

_TOLD_MAX = 20


def attributed_losses(evident: EvidentRecord, reconciliation: Reconciliation) -> list[AttributedAnomaly[LostRecords]]:
    """Return the losses, in parts of one cause each."""
    found = []
    for lost in reconciliation.lost:
        for part in attribute_loss(evident, lost):
            age = age_of(evident.record, lost.topic, lost.partition, part)
            found.append(
                AttributedAnomaly(
                    topic=lost.topic,
                    partition=lost.partition,
                    what=LostRecords(acks=lost.acks, first_offset=part.first_offset, last_offset=part.last_offset),
                    count=part.count,
                    committed=lost.committed or lost.acks == -1,
                    attribution=part.attribution,
                    oldest_s=age.oldest_s if age is not None else None,
                    lost_by=age.lost_by if age is not None else None,
                )
            )
    return found


def attributed_regressions(evident: EvidentRecord, reconciliation: Reconciliation) -> list[AttributedAnomaly[FallenHw]]:
    """Return each HW regression with its cause."""
    return [
        AttributedAnomaly(
            topic=back.topic,
            partition=back.partition,
            what=FallenHw(from_=back.from_, to=back.to, leader_epoch=back.leader_epoch),
            count=1,
            committed=True,
            attribution=attribute_regression(evident, back),
        )
        for back in reconciliation.regressions
    ]


def drop_causes_where_gaps(blamed: Sequence[A], gaps: Sequence[Gap]) -> list[A]:
    """Remove the causes if a part of the record that may hold a cause has a gap."""
    gap = next((one for one in gaps if one.part in OF_LOSSES), None)
    if gap is None:
        return list(blamed)
    unknown = Attribution(cause=None, election=None, why=f"the record is not whole: {gap.why}")
    return [msgspec.structs.replace(one, attribution=unknown) for one in blamed]


def losses_of(blamed: Sequence[AttributedAnomaly[LostRecords]]) -> list[Loss]:
    """Group lost records by partition, acks, commitment, cause and election.

    Losses without a known cause are left out.
    """
    groups: dict[tuple[str, int, int, bool, Cause, RecordedElection | None], list[AttributedAnomaly[LostRecords]]] = {}
    for one in blamed:
        if one.attribution.cause is not None:
            election = election_of(one.attribution)
            key = (one.topic, one.partition, one.what.acks, one.committed, one.attribution.cause, election)
            groups.setdefault(key, []).append(one)
    return [
        Loss(
            topic=topic,
            partition=partition,
            acks=acks,
            committed=committed,
            cause=cause,
            count=sum(one.count for one in group),
            first_offset=min(one.what.first_offset for one in group),
            last_offset=max(one.what.last_offset for one in group),
            election=election,
            oldest_s=oldest.oldest_s,
            lost_by=oldest.lost_by,
        )
        for (topic, partition, acks, committed, cause, election), group in groups.items()
        for oldest in [_oldest(group)]
    ]


def _oldest(group: Sequence[AnyAnomaly]) -> AnyAnomaly:
    """Return the part with the oldest record; a part whose age is not known, if there is one."""
    return max(group, key=lambda one: math.inf if one.oldest_s is None else one.oldest_s)


def regressions_of(blamed: Sequence[AttributedAnomaly[FallenHw]]) -> list[Regression]:
    """Return the HW regressions whose cause is known."""
    return [
        Regression(
            topic=one.topic,
            partition=one.partition,
            from_=one.what.from_,
            to=one.what.to,
            leader_epoch=one.what.leader_epoch,
            cause=one.attribution.cause,
            election=election_of(one.attribution),
        )
        for one in blamed
        if one.attribution.cause is not None
    ]


def commit_losses_of(blamed: Sequence[AttributedAnomaly[LostCommit]]) -> list[CommitLoss]:
    """Return the lost and fallen commits whose cause is known."""
    return [
        CommitLoss(
            kind=one.what.kind,
            group=one.what.group,
            topic=of.topic,
            partition=of.partition,
            count=one.count,
            offset=one.what.offset,
            served=one.what.served,
            offsets_partition=one.partition,
            cause=one.attribution.cause,
            election=election_of(one.attribution),
        )
        for one in blamed
        if one.attribution.cause is not None
        for of in [TopicPartition.parse(one.what.of)]
    ]


def blamed_of(anomalies: Sequence[AnyAnomaly]) -> list[Blamed]:
    """Group anomalies of any kind by place, cause and election; those without a known cause, too."""
    groups: dict[tuple[object, ...], list[Blamed]] = {}
    for one in map(_blamed, anomalies):
        key = (one.kind, one.topic, one.partition, one.group, one.committed, one.cause, one.election, one.why)
        groups.setdefault(key, []).append(one)
    return [
        msgspec.structs.replace(
            alike[0],
            count=sum(one.count for one in alike),
            first=min((one.first for one in alike if one.first is not None), default=None),
            last=max((one.last for one in alike if one.last is not None), default=None),
        )
        for alike in groups.values()
    ]


def _blamed(one: AnyAnomaly) -> Blamed:
    what = one.what
    at, group = TopicPartition(one.topic, one.partition), None
    if isinstance(what, LostCommit | RepeatedInput):
        at, group = TopicPartition.parse(what.of), what.group
    first, last = what.span
    return Blamed(
        kind=what.kind,
        topic=at.topic,
        partition=at.partition,
        group=group,
        count=one.count,
        first=first,
        last=last,
        committed=one.committed,
        cause=one.attribution.cause,
        election=election_of(one.attribution),
        why=one.attribution.why,
    )


def reasons_of(anomalies: Sequence[AnyAnomaly]) -> list[str]:
    """Say each different cause in a sentence, kind by kind, with the partitions, the records and the elections.

    Unexplained anomalies are left out: the reasons for the outcome already name them.
    """
    told: dict[str, list[AnyAnomaly]] = {}
    for one in anomalies:
        if one.attribution.cause != "unexplained":
            told.setdefault(one.what.kind, []).append(one)
    sentences = []
    for kind, blamed in told.items():
        for alike in group_alike(blamed):
            attribution, count = alike[0].attribution, sum(one.count for one in alike)
            reason = f"{attribution.cause or 'cause not known'}: {attribution.why}{elections_in_brackets(alike)}"
            sentences.append(f"{places_of(alike)}, {ANOMALIES[kind].count(count)}, {reason}")
    return sentences[:_TOLD_MAX] + ([f"and {len(sentences) - _TOLD_MAX} more"] if len(sentences) > _TOLD_MAX else [])
