"""Committed records that are gone though no loss tells of them, with their causes: read once, or kept by a replica.

A record that a consumer has read was below the HW, so it was committed, whether its producer heard of it or not. Where
it was cut off, the losses' machinery says which election did it and why that was allowed; unexplained is a violation
as for a loss. Its leader epoch says under which it was written; without one, nothing is held against Kafka.

Two replicas that differ below both HWs: the older record was committed, and the election of the newer one's leader cut
it off. A broker that is down keeps its checkpoint, whatever became of its log, so this alone never is a violation.

An offset that held two values needs no rule of its own: one of the two does not stand, and is lost or has vanished,
or it was acked only and its value stands elsewhere or is of a transaction that is not known to be committed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from analysis.judge.causes.attribution import attribute, cuts_of
from analysis.judge.causes.lost_offsets import lowest_between
from analysis.judge.clauses.outcome_checks import Blamed
from analysis.judge.history.evidence import Attribution, Evidence, Gone

if TYPE_CHECKING:
    from analysis.reconcile.model import GoneRange, Reconciliation

READ = "vanished"
_GRAVEST = ("unexplained", None)


def blamed_gone(evidence: Evidence, reconciliation: Reconciliation) -> list[Blamed]:
    """What is gone besides what was lost; `committed` is false where no record is, only its place."""
    return [
        Blamed(
            topic=one.topic,
            partition=one.partition,
            what={"kind": one.kind, "first_offset": one.first_offset, "last_offset": one.last_offset},
            count=one.count,
            committed=one.committed,
            attribution=_attributed(evidence, one),
        )
        for one in reconciliation.gone
    ]


def _attributed(evidence: Evidence, gone: GoneRange) -> Attribution:
    """The gravest that any of the range's items has.

    Between two cuts all have the same one. Where anomalies/ does not say which stretches a range with holes has items
    in, its first and its last decide, which surely are items.
    """
    states = evidence.timeline.states(gone.topic, gone.partition)
    if any(after.follows_recreation(before) for before, after in pairwise(states)):
        return Attribution(cause=None, election=None, why="its topic was deleted and made again")
    offsets = {gone.first_offset, *_first_of_each_stretch(evidence, gone), gone.last_offset}
    of_offset = _read if gone.kind == READ else _diverged
    found = [of_offset(evidence, gone, offset) for offset in sorted(offsets)]
    return min(found, key=lambda one: _GRAVEST.index(one.cause) if one.cause in _GRAVEST else len(_GRAVEST))


def _first_of_each_stretch(evidence: Evidence, gone: GoneRange) -> list[int]:
    """The lowest item of the range in each stretch between cuts that has any, as far as that is known."""
    cuts = cuts_of(evidence, gone)
    if not cuts or gone.count == gone.last_offset - gone.first_offset + 1:
        return cuts
    return lowest_between(evidence.record, gone, cuts) or []


def _read(evidence: Evidence, gone: GoneRange, offset: int) -> Attribution:
    """Without a leader epoch the clock says since when the record was there, which may explain, and never accuses."""
    read_ns = gone.read_ns if gone.read_ns is not None else 0
    if gone.leader_epoch is not None:
        return _since(evidence, gone, offset, read_ns, gone.leader_epoch)
    state = evidence.timeline.at_time(gone.topic, gone.partition, read_ns)
    found = _since(evidence, gone, offset, read_ns, state.leader_epoch if state is not None else -1, exact=False)
    return _unless_unexplained(found, "the leader epoch under which it was written is not known")


def _diverged(evidence: Evidence, gone: GoneRange, offset: int) -> Attribution:
    epoch = gone.leader_epoch
    if epoch is None:
        return Attribution(cause=None, election=None, why="they are of one leader epoch")
    begun_ns = _begun_ns(evidence, gone.topic, gone.partition, epoch)
    found = _since(evidence, gone, offset, begun_ns if begun_ns is not None else 0, epoch)
    return _unless_unexplained(found, found.why)


def _since(
    evidence: Evidence, range_: GoneRange, offset: int, since_ns: int, since_epoch: int, *, exact: bool = True
) -> Attribution:
    """The cause for an offset that is known to have had a committed record.

    A slow consumer returns out of its buffer what was cut off before it says so. Where nothing after its poll explains
    that the record is gone, what came after the beginning of the record's leader epoch may.
    """
    gone = Gone(
        topic=range_.topic,
        partition=range_.partition,
        offset=offset,
        committed=True,
        since_ns=since_ns,
        since_epoch=since_epoch,
        exact=exact,
    )
    found = attribute(evidence, gone)
    if not exact or found.cause not in ("unexplained", None) or not evidence.timeline.partitions:
        return found
    begun_ns = _begun_ns(evidence, gone.topic, gone.partition, gone.since_epoch)
    if begun_ns is None:
        why = f"the metadata timeline of {gone.name} lacks leader epoch {gone.since_epoch}, under which it was written"
        return Attribution(cause=None, election=None, why=why)
    earlier = attribute(evidence, msgspec.structs.replace(gone, since_ns=min(gone.since_ns, begun_ns)))
    return found if earlier.cause in ("unexplained", None) else earlier


def _begun_ns(evidence: Evidence, topic: str, partition: int, epoch: int) -> int | None:
    """When the partition's leader epoch began, by the controller's clock; None: the timeline does not have it."""
    states = evidence.timeline.states(topic, partition)
    return next((one.at_ns for one in states if one.leader_epoch == epoch), None)


def _unless_unexplained(found: Attribution, why: str) -> Attribution:
    """`found`, or that the cause cannot be told, where nothing explains what the evidence does not prove."""
    return Attribution(cause=None, election=found.election, why=why) if found.cause == "unexplained" else found
