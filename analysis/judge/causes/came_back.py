"""Finds out whether a record that a leader lacked came back under a later leader.

A record that is not committed may be absent from the next leader's log, and no clause is broken. A
replica that has not followed that leader keeps it, and may lead after that: then the record can be
committed (compare Raft, figure 8). If it is lost in the end, a later election is guilty.

A consumer's rows say when it returned a record, and not when it had fetched it, or from which
leader. Only a prompt consumer shows the return, together with HWs. If the return is neither shown
nor contradicted, it is not known which election is guilty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analysis.judge.history.evidence import LostOffset
from analysis.judge.history.following import has_followed
from analysis.record.elections import ElectionEvent, elections_of
from analysis.record.files import of_partition
from analysis.record.record import Record
from analysis.record.timeline import MILLISECOND_NS

PROMPT_NS = 2_000_000_000
"""Within this time a prompt consumer returns what a leader has answered."""


class PossibleReturn(msgspec.Struct, frozen=True, kw_only=True):
    """The elections whose leaders may have had the record again, and the one whose leader surely had it.

    `shown_by` None: nothing shows that any of them had it.
    """

    elections: tuple[ElectionEvent, ...]
    shown_by: ElectionEvent | None = None


class _Written(msgspec.Struct, frozen=True, kw_only=True):
    """The leader epoch under which the record was appended; it is `certain` unless consumers read several."""

    epoch: int
    certain: bool


def possible_return(record: Record, lost_offset: LostOffset, lacked_by: ElectionEvent) -> PossibleReturn | None:
    """Return the elections after `lacked_by` whose leaders may have had the record again.

    None: there are none, or the record was committed before `lacked_by`.
    """
    later = [
        one
        for one in elections_of(record.timeline, lost_offset.topic, lost_offset.partition)
        if one.epoch > lacked_by.epoch
    ]
    elections = tuple(_that_may_have_kept(record, later, lost_offset, lacked_by))
    written = _written(record, lost_offset, lacked_by)
    if not elections or _was_committed_before(record, lost_offset, lacked_by, elections[0], written):
        return None
    at = _epoch_of_the_return(record, lost_offset, lacked_by, written)
    return PossibleReturn(elections=elections, shown_by=next((one for one in elections if one.epoch == at), None))


def _written(record: Record, lost_offset: LostOffset, lacked_by: ElectionEvent) -> _Written:
    """Return under which epoch the record was appended, by what consumers read at its offset.

    An ack may come late. So a record that is not `exact` may be of an older epoch than `since_epoch`, though of none
    that lacked it.
    """
    if lost_offset.exact:
        return _Written(epoch=lost_offset.since_epoch, certain=True)
    newest = min(lost_offset.since_epoch, lacked_by.epoch - 1)
    read = (pc.field("offset") == lost_offset.offset) & (pc.field("leader_epoch") <= newest)
    rows = record.batches("polls", ["leader_epoch"], of_partition(lost_offset.topic, lost_offset.partition) & read)
    epochs = {epoch for batch in rows for epoch in batch["leader_epoch"].to_pylist()}
    return _Written(epoch=max(epochs, default=newest), certain=len(epochs) == 1)


def _was_committed_before(
    record: Record, lost_offset: LostOffset, lacked_by: ElectionEvent, restored: ElectionEvent, written: _Written
) -> bool:
    """Return whether anything shows that the record was committed before the election that lacked it.

    A later record of the log that held it shows that, too: what is below it is committed with it.
    """
    until_ns = lacked_by.after.at_ns + MILLISECOND_NS
    begun_ns = record.timeline.epoch_start_ns(lost_offset.topic, lost_offset.partition, written.epoch) or 0
    at_or_behind = pc.field("offset") >= lost_offset.offset
    in_its_time = (pc.field("at_ns") >= begun_ns) & (pc.field("at_ns") <= until_ns)
    shown_by = {
        # Until a leader may have it again, only what was fetched before can be returned.
        "polls": at_or_behind
        & _of_its_log(lacked_by, written)
        & (pc.field("polled_ns") <= restored.after.at_ns + MILLISECOND_NS),
        # Of any source. Without an epoch, the clock says whose HW it was.
        "watermarks": _is_above(lost_offset)
        & (_of_its_log(lacked_by, written) | (pc.field("leader_epoch").is_null() & in_its_time)),
        "sends": at_or_behind
        & (pc.field("acks") == -1)
        & (pc.field("status") == "acked")
        & (pc.field("sent_ns") >= begun_ns)
        & (pc.field("done_ns") <= until_ns),
    }
    return any(_has_row(record, lost_offset, table, shown) for table, shown in shown_by.items())


def _epoch_of_the_return(
    record: Record, lost_offset: LostOffset, lacked_by: ElectionEvent, written: _Written
) -> int | None:
    """Return the leader epoch under which a leader surely had the record again; None: not shown.

    It is shown if a prompt consumer returned the record, the leader of that time served an HW above it, and a leader
    before `lacked_by` served one that was not, after the ack if there was one.
    """
    prompt = pc.field("consumer").isin(pa.array([*record.prompt_consumers], pa.int32()))
    read = (pc.field("offset") == lost_offset.offset) & (pc.field("leader_epoch") == written.epoch) & prompt
    rows = record.batches("polls", ["polled_ns"], of_partition(lost_offset.topic, lost_offset.partition) & read)
    first_ns = min((at_ns for batch in rows for at_ns in batch["polled_ns"].to_pylist()), default=None)
    if first_ns is None or not written.certain:
        return None
    state = record.timeline.state_at_time(lost_offset.topic, lost_offset.partition, first_ns - PROMPT_NS)
    if state is None:
        return None
    passed = _is_above(lost_offset) & (pc.field("leader_epoch") == state.leader_epoch)
    # An HW from before the ack may be older than the record. When a record was appended that nobody acked, nobody says.
    acked_ns = 0 if lost_offset.exact else lost_offset.since_ns
    not_passed = ~_is_above(lost_offset) & _of_its_log(lacked_by, written) & (pc.field("at_ns") >= acked_ns)
    shown = all(_has_row(record, lost_offset, "watermarks", one) for one in (passed, not_passed))
    return state.leader_epoch if shown else None


def _that_may_have_kept(
    record: Record, later: Sequence[ElectionEvent], lost_offset: LostOffset, lacked_by: ElectionEvent
) -> Iterator[ElectionEvent]:
    """Yield the elections whose leaders may have the record, because they had not followed a leader without it."""
    lacking = [lacked_by]
    for one in later:
        held = record.epochs.has_held(lost_offset.topic, lost_offset.partition, one.epoch, lost_offset.offset)
        followed = any(_has_followed(record, one.leader, lacks, lost_offset) for lacks in lacking)
        if held is False:
            lacking.append(one)
        elif one.leader != lacked_by.leader and not followed:
            yield one


def _has_followed(record: Record, broker: int, elected: ElectionEvent, lost_offset: LostOffset) -> bool:
    """Return whether a broker has truncated its log to that of an elected leader which lacked the record."""
    states = record.timeline.states(lost_offset.topic, lost_offset.partition)
    led = [one for one in states if one.leader_epoch == elected.epoch]
    return has_followed(record, broker, elected, led, _is_above(lost_offset))


def _of_its_log(lacked_by: ElectionEvent, written: _Written) -> pc.Expression:
    """Match rows of the leaders that had the record before `lacked_by`."""
    return (pc.field("leader_epoch") >= written.epoch) & (pc.field("leader_epoch") < lacked_by.epoch)


def _is_above(lost_offset: LostOffset) -> pc.Expression:
    return pc.field("high_watermark") > lost_offset.offset


def _has_row(record: Record, lost_offset: LostOffset, table: str, where: pc.Expression) -> bool:
    return record.has_row(table, of_partition(lost_offset.topic, lost_offset.partition) & where)
