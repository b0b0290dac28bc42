"""Attributes committed records that vanished although no loss covers them.

A record that a consumer has read was below the HW, so it was committed, whether or not its producer
received an answer. If it was cut off, the same rules as for losses say which election did it and
why that was allowed. Unexplained is a violation, as for a loss. The record's leader epoch says
under which leader it was written; without an epoch, nothing is held against Kafka.

Two replicas may differ below both HWs. Then the older record was committed, and the election of the
newer record's leader cut it off. A broker that is down keeps its checkpoint, whatever became of its
log, so this alone is never a violation.

An offset that held two values needs no rule of its own. One of the two is missing from the final
log and counts as lost or vanished; or it was only acked, and its value is at another offset or
belongs to a transaction that is not known to be committed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from analysis.causes.from_record import EvidentRecord
from analysis.causes.history import NEVER
from analysis.judge.causes.attribution import attribute, cuts_of
from analysis.judge.causes.lost_offsets import lowest_between
from analysis.judge.history.attributed import AttributedAnomaly, VanishedPart
from analysis.judge.history.evidence import Attribution, LostOffset
from ebbtide.rules.table import VANISHED

if TYPE_CHECKING:
    from analysis.reconcile.model import Reconciliation, VanishedRange

_GRAVEST = ("unexplained", None)


def attributed_vanishings(
    evident: EvidentRecord, reconciliation: Reconciliation
) -> list[AttributedAnomaly[VanishedPart]]:
    """Return the vanished and diverged records with their causes.

    `committed` is false where only the place of the record vanished, not the record.
    """
    return [
        AttributedAnomaly(
            topic=one.topic,
            partition=one.partition,
            what=VanishedPart(kind=one.kind, first_offset=one.first_offset, last_offset=one.last_offset),
            count=one.count,
            committed=one.committed,
            attribution=_gravest_attribution(evident, one),
        )
        for one in reconciliation.vanished
    ]


def _gravest_attribution(evident: EvidentRecord, vanished: VanishedRange) -> Attribution:
    """Return the gravest attribution that any item of the range has.

    Between two cuts all items have the same attribution. Where anomalies/ does not say in which
    stretches a range with holes has items, its first and its last offset decide: both surely are
    items.
    """
    states = evident.record.timeline.states(vanished.topic, vanished.partition)
    if any(after.follows_recreation(before) for before, after in pairwise(states)):
        return Attribution(cause=None, election=None, why="its topic was deleted and made again")
    offsets = {vanished.first_offset, *_first_of_each_stretch(evident, vanished), vanished.last_offset}
    of_offset = _attribute_read_record if vanished.kind == VANISHED else _attribute_divergence
    found = [of_offset(evident, vanished, offset) for offset in sorted(offsets)]
    return min(found, key=lambda one: _GRAVEST.index(one.cause) if one.cause in _GRAVEST else len(_GRAVEST))


def _first_of_each_stretch(evident: EvidentRecord, vanished: VanishedRange) -> list[int]:
    """Return the lowest item of each stretch between cuts, as far as it is known."""
    cuts = cuts_of(evident, vanished)
    if not cuts or vanished.count == vanished.last_offset - vanished.first_offset + 1:
        return cuts
    return lowest_between(evident.record, vanished, cuts) or []


def _attribute_read_record(evident: EvidentRecord, vanished: VanishedRange, offset: int) -> Attribution:
    """Attribute a record that a consumer had read.

    Without a leader epoch only the clock says when the record was there: that may explain, but
    never accuses.
    """
    read_ns = vanished.read_ns if vanished.read_ns is not None else 0
    if vanished.leader_epoch is not None:
        lost_offset = _lost_offset(vanished, offset, read_ns, vanished.leader_epoch)
        return _attribute_offset(evident, lost_offset)
    state = evident.record.timeline.state_at_time(vanished.topic, vanished.partition, read_ns)
    lost_offset = _lost_offset(vanished, offset, read_ns, state.leader_epoch if state is not None else -1)
    found = attribute(evident, msgspec.structs.replace(lost_offset, exact=False))
    return _unknown_if_unexplained(found, "the leader epoch under which it was written is not known")


def _attribute_divergence(evident: EvidentRecord, vanished: VanishedRange, offset: int) -> Attribution:
    epoch = vanished.leader_epoch
    if epoch is None:
        return Attribution(cause=None, election=None, why="they are of one leader epoch")
    # It was committed, and nothing says by when.
    lost_offset = _lost_offset(vanished, offset, NEVER, epoch)
    found = _attribute_offset(evident, lost_offset)
    return _unknown_if_unexplained(found, found.why)


def _lost_offset(vanished: VanishedRange, offset: int, since_ns: int, since_epoch: int) -> LostOffset:
    """Return an offset that is known to have held a committed record of `since_epoch`."""
    return LostOffset(
        topic=vanished.topic,
        partition=vanished.partition,
        offset=offset,
        committed=True,
        since_ns=since_ns,
        since_epoch=since_epoch,
        exact=True,
    )


def _attribute_offset(evident: EvidentRecord, lost_offset: LostOffset) -> Attribution:
    """Attribute a record whose leader epoch is known."""
    begun_ns = evident.record.timeline.epoch_start_ns(lost_offset.topic, lost_offset.partition, lost_offset.since_epoch)
    if begun_ns is None and evident.record.timeline.states(lost_offset.topic, lost_offset.partition):
        why = (
            f"the metadata timeline of {lost_offset.name} lacks leader epoch {lost_offset.since_epoch}, "
            "under which it was written"
        )
        return Attribution(cause=None, election=None, why=why)
    return attribute(evident, lost_offset)


def _unknown_if_unexplained(found: Attribution, why: str) -> Attribution:
    """Return `found`, or an unknown cause if nothing explains it."""
    return Attribution(cause=None, election=found.election, why=why) if found.cause == "unexplained" else found
