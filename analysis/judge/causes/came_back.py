"""Finds out whether a record that a leader lacked may have come back under a later leader.

A record that is not committed may be absent from the next leader's log, and no clause is broken. A
replica that has not followed that leader keeps it, and may lead after that: then the record can be
committed (compare Raft, figure 8). If it is lost in the end, a later election is guilty.

A consumer's rows say when it returned a record, and not when or from whom it had fetched it. So the
return is shown only by a consumer without a rate limit, together with the later leader's HW. If it
is neither shown nor contradicted, it is not known which election is guilty.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analysis.judge.history.batches import batches
from analysis.judge.history.elections import ElectionEvent, elections_of
from analysis.judge.history.evidence import Evidence, LostOffset
from analysis.judge.history.timeline import MILLISECOND_NS


class PossibleReturn(msgspec.Struct, frozen=True, kw_only=True):
    """The election whose leader may have had the record again; `is_shown`: it had."""

    election: ElectionEvent
    is_shown: bool


def possible_return(evidence: Evidence, lost_offset: LostOffset, lacked_by: ElectionEvent) -> PossibleReturn | None:
    """Return the first election after `lacked_by` whose leader may have had the record again.

    None: there is none, no consumer read the record, or the record was committed before `lacked_by`.
    """
    elections = elections_of(evidence.timeline, lost_offset.topic, lost_offset.partition)
    later = (one for one in elections if one.epoch > lacked_by.epoch and one.leader != lacked_by.leader)
    restored = next((one for one in later if _may_have_kept(evidence, one, lost_offset, lacked_by)), None)
    written_under = _epoch_of_the_read_record(evidence, lost_offset)
    if restored is None or written_under is None:
        return None
    if _was_committed_before(evidence, lost_offset, lacked_by, restored, written_under):
        return None
    served = _is_above(lost_offset) & (pc.field("leader_epoch") == restored.epoch)
    is_prompt = pc.field("consumer").isin(pa.array([*evidence.prompt_consumers], pa.int32()))
    return PossibleReturn(
        election=restored,
        is_shown=_has_row(evidence, lost_offset, "watermarks", served)
        and _has_row(evidence, lost_offset, "polls", _is_read(lost_offset, written_under) & is_prompt),
    )


def _epoch_of_the_read_record(evidence: Evidence, lost_offset: LostOffset) -> int | None:
    """Return the leader epoch of the record that a consumer read at the offset; None: nobody read it.

    An ack may come late, so a record that is not `exact` may be of an older epoch than `since_epoch`.
    """
    epoch = pc.field("leader_epoch")
    of_record = epoch == lost_offset.since_epoch if lost_offset.exact else epoch <= lost_offset.since_epoch
    read = _of_partition(lost_offset) & (pc.field("offset") == lost_offset.offset) & of_record
    found = (batch["leader_epoch"].to_pylist() for batch in batches(evidence.record, "polls", ["leader_epoch"], read))
    return max((max(epochs) for epochs in found), default=None)


def _was_committed_before(
    evidence: Evidence, lost_offset: LostOffset, lacked_by: ElectionEvent, restored: ElectionEvent, written_under: int
) -> bool:
    """Return whether anything shows that the record was committed before the election that lacked it.

    A later record of the log that held it shows that, too: what is below it is committed with it.
    """
    until_ns = lacked_by.after.at_ns + MILLISECOND_NS
    begun_ns = evidence.timeline.epoch_start_ns(lost_offset.topic, lost_offset.partition, written_under) or 0
    epoch = pc.field("leader_epoch")
    of_its_log = (epoch >= written_under) & (epoch < lacked_by.epoch)
    at_or_behind = pc.field("offset") >= lost_offset.offset
    in_its_time = (pc.field("at_ns") >= begun_ns) & (pc.field("at_ns") <= until_ns)
    shown_by = {
        # Until a leader may have it again, only what was fetched before can be returned.
        "polls": at_or_behind & of_its_log & (pc.field("polled_ns") <= restored.after.at_ns + MILLISECOND_NS),
        # Of any source. Without an epoch, the clock says whose HW it was.
        "watermarks": _is_above(lost_offset) & (of_its_log | (epoch.is_null() & in_its_time)),
        "sends": at_or_behind
        & (pc.field("acks") == -1)
        & (pc.field("status") == "acked")
        & (pc.field("sent_ns") >= begun_ns)
        & (pc.field("done_ns") <= until_ns),
    }
    return any(_has_row(evidence, lost_offset, table, shown) for table, shown in shown_by.items())


def _may_have_kept(
    evidence: Evidence, elected: ElectionEvent, lost_offset: LostOffset, lacked_by: ElectionEvent
) -> bool:
    """Return whether the elected leader may have the record, because it had not followed a leader without it."""
    topic, partition = lost_offset.topic, lost_offset.partition
    if evidence.epochs.has_held(topic, partition, elected.epoch, lost_offset.offset) is False:
        return False
    states = [one for one in evidence.timeline.states(topic, partition) if one.leader_epoch == lacked_by.epoch]
    in_sync = [elected.leader in one.isr for one in states]
    if any(not before and after for before, after in pairwise(in_sync)):
        return False  # it joined the ISR, for which it had to truncate its log
    # The HW passes an offset only when each member of the ISR has this leader's record there.
    passed = _is_above(lost_offset) & (pc.field("leader_epoch") == lacked_by.epoch)
    return not (all(in_sync) and _has_row(evidence, lost_offset, "watermarks", passed))


def _is_read(lost_offset: LostOffset, written_under: int) -> pc.Expression:
    return (pc.field("offset") == lost_offset.offset) & (pc.field("leader_epoch") == written_under)


def _is_above(lost_offset: LostOffset) -> pc.Expression:
    return pc.field("high_watermark") > lost_offset.offset


def _has_row(evidence: Evidence, lost_offset: LostOffset, table: str, where: pc.Expression) -> bool:
    found = batches(evidence.record, table, ["partition"], _of_partition(lost_offset) & where)
    return next(found, None) is not None


def _of_partition(lost_offset: LostOffset) -> pc.Expression:
    return (pc.field("topic") == lost_offset.topic) & (pc.field("partition") == lost_offset.partition)
