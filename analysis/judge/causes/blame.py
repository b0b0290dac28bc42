"""Attributes anomalies, and groups them as verdict.json lists them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from analysis.causes.from_record import EvidentRecord
from analysis.judge.causes.attribution import LostPart, attribute_loss, attribute_regression
from analysis.judge.causes.gone_topics import of_gone_topics
from analysis.judge.causes.lost_commits import attributed_commits, attributed_repeats
from analysis.judge.causes.vanished import attribute_vanished
from analysis.judge.history.evidence import (
    AnyAnomaly,
    AttributedAnomaly,
    blamed_of,
    election_of,
)
from analysis.judge.rules.groups.copied_offsets import copied_offsets, promised_groups
from analysis.reconcile.model import (
    HwRegression,
    LostCommits,
    LostRange,
    Reconciliation,
    VanishedRange,
    WrongCopies,
)
from analysis.record.record import Record
from analysis.record.timeline import MILLISECOND_NS
from ebbtide.record.log_losses import BrokerLogLoss
from ebbtide.record.verdict import Blamed, Cause, CommitLoss, Loss, LossEvent, RecordedElection, Regression

_BY_DISK: frozenset[Cause] = frozenset(
    {"last-replica-standing", "beyond-tolerance", "last-known-leader", "unexplained"}
)
"""The causes of a record that the elected broker may have had and lost."""


def attributed(record: Record, found: Reconciliation) -> list[AnyAnomaly]:
    """Return the anomalies that elections or disks may explain, each with its attribution. The order is that of kinds.

    Raises `UsageError` when a table is damaged.
    """
    evident = EvidentRecord(record)
    promised = promised_groups(copied_offsets(record.readable_scenario))
    blamed: list[AnyAnomaly] = [
        *attributed_losses(evident, found.groups_of(LostRange)),
        # However many answers show it, it is one drop.
        *(
            AttributedAnomaly(
                items=msgspec.structs.replace(one, count=1),
                committed=True,
                attribution=attribute_regression(evident, one),
            )
            for one in found.groups_of(HwRegression)
        ),
        # `committed` is false where only the place of a record vanished, not the record.
        *(
            AttributedAnomaly(items=one, committed=one.committed, attribution=attribute_vanished(evident, one))
            for one in found.groups_of(VanishedRange)
        ),
        *attributed_commits(evident, found.groups_of(LostCommits)),
        *attributed_repeats(evident, found.groups_of(WrongCopies), promised),
    ]
    return of_gone_topics(record, blamed)


def attributed_losses(evident: EvidentRecord, lost: Iterable[LostRange]) -> list[AttributedAnomaly[LostRange]]:
    """Return the losses, in parts of one cause each."""
    found = []
    for one in lost:
        for part in attribute_loss(evident, one):
            age = _age_of(evident.record, one.topic, one.partition, part)
            found.append(
                AttributedAnomaly(
                    items=msgspec.structs.replace(
                        one, first_offset=part.first_offset, last_offset=part.last_offset, count=part.count
                    ),
                    committed=one.committed or one.acks == -1,
                    attribution=part.attribution,
                    oldest_s=age.oldest_s if age is not None else None,
                    lost_by=age.lost_by if age is not None else None,
                )
            )
    return found


class _LossAge(NamedTuple):
    """The age of the oldest record of some lost ones, and the event that lost them."""

    oldest_s: float
    lost_by: LossEvent


def _age_of(record: Record, topic: str, partition: int, part: LostPart) -> _LossAge | None:
    """Return the age of the oldest record of a part: the RPO in seconds. None where the event is not known.

    A record's age is the time from its ack to the event that lost it. The event is one of two:

    - *disk*: the broker that the guilty election made leader had the record, and lost it by a power
      loss or another fault of its disk. The moment is that at which the step fired. It counts for the
      causes that such a fault explains, and where no election is guilty.
    - *election*: the guilty election, at the controller's time. It counts for every other cause: up to
      then some replica still had the record, or it was never replicated.

    Where several faults hit that disk, the last one before the election counts that took the record:
    its log ended behind the record before, as far as that was measured.
    """
    found, acked_ns = part.attribution, part.first_done_ns
    if found.cause is None or acked_ns is None:
        return None
    disk = _disk_loss(record, topic, partition, part, acked_ns)
    if disk is not None:
        return _LossAge(_seconds(disk.fired_ns - acked_ns), "disk")
    if found.election is None:
        return None
    return _LossAge(_seconds(found.election.after.at_ns - acked_ns), "election")


def _disk_loss(record: Record, topic: str, partition: int, part: LostPart, acked_ns: int) -> BrokerLogLoss | None:
    """Return the fault of the guilty leader's disk that took the first record of the part."""
    election = part.attribution.election
    if election is None:
        leaders = {state.leader for state in record.timeline.states(topic, partition)}
        until_ns = None
    elif part.attribution.cause in _BY_DISK:
        leaders, until_ns = {election.leader}, election.after.at_ns + MILLISECOND_NS
    else:
        return None
    took_it = [
        loss
        for loss in record.log_losses or ()
        if loss.broker in leaders
        and (until_ns is None or loss.fired_ns <= until_ns)
        and loss.can_reach(topic, partition, part.first_offset)
        and _had(loss, f"{topic}-{partition}", part.first_offset, acked_ns)
    ]
    return took_it[-1] if took_it else None


def _had(loss: BrokerLogLoss, name: str, offset: int, acked_ns: int) -> bool:
    """Return whether the log had the offset before, by its measured end, else by the clock."""
    return loss.starts[name] > offset if name in loss.starts else loss.fired_ns >= acked_ns


def _seconds(length_ns: int) -> float:
    """Return the seconds; a client may note an ack after the event that lost its record."""
    return round(max(0, length_ns) / 1e9, 3)


def losses_of(blamed: Sequence[AnyAnomaly]) -> list[Loss]:
    """Group lost records by partition, acks, commitment, cause and election.

    Losses without a known cause are left out.
    """
    groups: dict[tuple[str, int, int, bool, Cause, RecordedElection | None], list[AttributedAnomaly[LostRange]]] = {}
    for one in blamed_of(blamed, LostRange):
        if one.attribution.cause is not None:
            at, election = one.items, election_of(one.attribution)
            key = (at.topic, at.partition, at.acks, one.committed, one.attribution.cause, election)
            groups.setdefault(key, []).append(one)
    return [
        Loss(
            topic=topic,
            partition=partition,
            acks=acks,
            committed=committed,
            cause=cause,
            count=sum(one.items.count for one in group),
            first_offset=min(one.items.first_offset for one in group),
            last_offset=max(one.items.last_offset for one in group),
            election=election,
            oldest_s=oldest.oldest_s,
            lost_by=oldest.lost_by,
        )
        for (topic, partition, acks, committed, cause, election), group in groups.items()
        # A part whose age is not known counts as the oldest.
        for oldest in [max(group, key=lambda one: math.inf if one.oldest_s is None else one.oldest_s)]
    ]


def regressions_of(blamed: Sequence[AnyAnomaly]) -> list[Regression]:
    """Return the HW regressions whose cause is known."""
    return [
        Regression(
            topic=one.items.topic,
            partition=one.items.partition,
            from_=one.items.from_,
            to=one.items.to,
            leader_epoch=one.items.leader_epoch,
            cause=one.attribution.cause,
            election=election_of(one.attribution),
        )
        for one in blamed_of(blamed, HwRegression)
        if one.attribution.cause is not None
    ]


def commit_losses_of(blamed: Sequence[AnyAnomaly]) -> list[CommitLoss]:
    """Return the lost and fallen commits whose cause is known."""
    return [
        CommitLoss(
            kind=one.items.kind,
            group=one.items.group,
            topic=one.items.topic,
            partition=one.items.partition,
            count=one.items.count,
            offset=one.items.last.offset,
            served=one.items.last.served_offset,
            offsets_partition=one.items.log.partition,
            cause=one.attribution.cause,
            election=election_of(one.attribution),
        )
        for one in blamed_of(blamed, LostCommits)
        if one.attribution.cause is not None
    ]


def listed(blamed: Sequence[AnyAnomaly]) -> list[Blamed]:
    """Group anomalies of any kind by place, cause and election; those without a known cause, too."""
    groups: dict[tuple[object, ...], list[Blamed]] = {}
    for one in map(_listed, blamed):
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


def _listed(one: AnyAnomaly) -> Blamed:
    items = one.items
    first, last = items.span
    return Blamed(
        kind=items.kind,
        topic=items.topic,
        partition=items.partition,
        group=items.group if isinstance(items, LostCommits | WrongCopies) else None,
        count=items.count,
        first=first,
        last=last,
        committed=one.committed,
        cause=one.attribution.cause,
        election=election_of(one.attribution),
        why=one.attribution.why,
    )
