"""Attributes a record that a leader lacked, and that a later leader had again.

A record that is not committed may be absent from the next leader's log, and no clause is broken. A
replica that has not followed that leader keeps it, and may lead after that: then the record can be
committed (compare Raft, figure 8). If it is lost in the end, a later election is guilty.

The evidence is twofold. A consumer read the record, as its own leader epoch says, after the first
election that lacked it. And nothing shows that the record was committed before: no consumer had
read it, and no leader had served a HW above it, so that no deposed leader gave it to the consumer.
"""

from __future__ import annotations

import msgspec
import pyarrow.compute as pc

from analysis.judge.history.batches import batches
from analysis.judge.history.elections import ElectionEvent
from analysis.judge.history.evidence import Evidence, LostOffset
from analysis.judge.history.timeline import MILLISECOND_NS


def as_of_its_return(evidence: Evidence, lost_offset: LostOffset, lacked_by: ElectionEvent) -> LostOffset | None:
    """Return the offset as of the first time that it was read; None if that was not after `lacked_by`.

    `lost_offset` was written under its `since_epoch`.
    """
    of_partition = (pc.field("topic") == lost_offset.topic) & (pc.field("partition") == lost_offset.partition)
    read = (
        of_partition
        & (pc.field("offset") == lost_offset.offset)
        & (pc.field("leader_epoch") == lost_offset.since_epoch)
    )
    times = [
        at_ns
        for batch in batches(evidence.record, "polls", ["polled_ns"], read)
        for at_ns in batch["polled_ns"].to_pylist()
    ]
    committed_before = (
        of_partition
        & (pc.field("source") == "list_offsets")
        & (pc.field("leader_epoch") < lacked_by.epoch)
        & (pc.field("high_watermark") > lost_offset.offset)
    )
    first_ns = min(times, default=None)
    if first_ns is None or first_ns <= lacked_by.after.at_ns + MILLISECOND_NS:
        return None
    if any(True for _ in batches(evidence.record, "watermarks", ["broker"], committed_before)):
        return None
    state = evidence.timeline.state_at_time(lost_offset.topic, lost_offset.partition, first_ns)
    if state is None or state.leader_epoch <= lacked_by.epoch:
        return None
    return msgspec.structs.replace(lost_offset, since_ns=first_ns, since_epoch=state.leader_epoch)
