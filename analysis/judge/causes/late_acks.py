"""Attributes records whose ack a client noted late, as of the time at which they were sent.

With acks=all a leader acks only what its ISR holds. If the client notes the ack after a member of the ISR has lost its
log, that loss counts, too.
"""

from __future__ import annotations

import msgspec

from analysis.judge.causes.guilty_election import attribute, election_that_wrote_another
from analysis.judge.history.evidence import Attribution, LostOffset
from analysis.record.record import Record


def attribute_as_of_the_send(record: Record, lost_offset: LostOffset, sent_ns: int) -> Attribution | None:
    """Attribute a record as of its send time; None if that explains nothing.

    An answer may wait on the wire. So may the followers' last fetches, even those of a broker that died meanwhile: a
    leader that was cut off gets them only after the cut is healed, and acks then, although it was deposed and a
    follower lost its log. So the record counts as written when it was sent, if the disk that lost it is known to have
    had the offset.
    """
    state = record.timeline.state_at_time(lost_offset.topic, lost_offset.partition, sent_ns)
    if state is None or state.leader_epoch > lost_offset.since_epoch:
        return None
    sent = msgspec.structs.replace(lost_offset, since_ns=sent_ns, since_epoch=state.leader_epoch)
    found = attribute(record, sent)
    if found.cause in ("unexplained", None) or found.election is None:
        return None
    # The broker that lost the record did not write it after that, and neither did a leader that it had replaced by the
    # time of the ack; unless the log shows that the record is older.
    may_be_newer = found.election.leader == state.leader or found.election.epoch <= lost_offset.since_epoch
    if may_be_newer and election_that_wrote_another(record, lost_offset) is None:
        return None
    return found if lost_what_it_had(record, found.election.leader, lost_offset, sent_ns) else None


def lost_what_it_had(record: Record, broker: int, lost_offset: LostOffset, since_ns: int = 0) -> bool:
    """Return whether a broker's log was measured to have the offset before a loss that was over by the ack."""
    return any(
        loss.broker == broker
        and since_ns < loss.fired_ns
        and loss.done_ns < lost_offset.since_ns
        and loss.starts.get(lost_offset.name, -1) > lost_offset.offset
        for loss in record.log_losses or ()
    )
