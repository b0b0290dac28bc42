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

from analysis.causes.evidence import NEVER
from analysis.causes.from_record import EvidentRecord
from analysis.causes.ranges import offset_cuts
from analysis.judge.causes.attribution import attribute, gravest, unknown
from analysis.judge.causes.lost_offsets import lowest_between
from analysis.judge.history.evidence import Attribution, LostOffset
from analysis.reconcile.model import VanishedRange
from ebbtide.rules.table import VANISHED


def attribute_vanished(evident: EvidentRecord, vanished: VanishedRange) -> Attribution:
    """Return the gravest attribution that any item of the range has.

    Between two cuts all items have the same attribution. Where anomalies/ does not say in which
    stretches a range with holes has items, its first and its last offset decide: both surely are
    items.
    """
    states = evident.record.timeline.states(vanished.topic, vanished.partition)
    if any(after.follows_recreation(before) for before, after in pairwise(states)):
        return unknown("its topic was deleted and made again")
    offsets = {vanished.first_offset, *_first_of_each_stretch(evident, vanished), vanished.last_offset}
    return gravest([_attribute_item(evident, vanished, offset) for offset in sorted(offsets)])


def _first_of_each_stretch(evident: EvidentRecord, vanished: VanishedRange) -> list[int]:
    """Return the lowest item of each stretch between cuts, as far as it is known."""
    cuts = offset_cuts(evident.partition(vanished.topic, vanished.partition))
    cuts = [cut for cut in cuts if vanished.first_offset < cut <= vanished.last_offset]
    if not cuts or vanished.count == vanished.last_offset - vanished.first_offset + 1:
        return cuts
    return lowest_between(evident.record, vanished, cuts) or []


def _attribute_item(evident: EvidentRecord, vanished: VanishedRange, offset: int) -> Attribution:
    """Attribute one record, which was committed. Only one that a consumer read under a known epoch accuses Kafka."""
    timeline, epoch, is_read = evident.record.timeline, vanished.leader_epoch, vanished.kind == VANISHED
    at = (vanished.topic, vanished.partition)
    if epoch is None and not is_read:
        return unknown("they are of one leader epoch")
    if epoch is not None and timeline.states(*at) and timeline.epoch_start_ns(*at, epoch) is None:
        lacks = f"the metadata timeline of {at[0]}-{at[1]} lacks leader epoch {epoch}"
        return unknown(f"{lacks}, under which it was written")
    # Nothing says by when a record was committed that only replicas have.
    since_ns = (vanished.read_ns or 0) if is_read else NEVER
    since_epoch = epoch
    if since_epoch is None:
        state = timeline.state_at_time(*at, since_ns)
        since_epoch = -1 if state is None else state.leader_epoch
    lost_offset = LostOffset(
        topic=vanished.topic,
        partition=vanished.partition,
        offset=offset,
        since_ns=since_ns,
        since_epoch=since_epoch,
        exact=epoch is not None,
    )
    found = attribute(evident, lost_offset)
    if found.cause != "unexplained" or (is_read and epoch is not None):
        return found
    why = found.why if epoch is not None else "the leader epoch under which it was written is not known"
    return Attribution(cause=None, election=found.election, why=why)
