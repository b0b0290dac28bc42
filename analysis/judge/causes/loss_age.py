"""Says how old the oldest lost record was when it was lost: the RPO in seconds.

A record's age is the time from its ack to the event that lost it. The event is one of two:

- *disk*: the broker that the guilty election made leader had the record, and lost it by a power
  loss or another fault of its disk. The moment is that at which the step fired. It counts for the
  causes that such a fault explains, and where no election is guilty.
- *election*: the guilty election, at the controller's time. It counts for every other cause: up to
  then some replica still had the record, or it was never replicated.

Where several faults hit that disk, the last one before the election counts that took the record:
its log ended behind the record before, as far as that was measured.
"""

from __future__ import annotations

from typing import NamedTuple

from analysis.judge.causes.attribution import LostPart
from analysis.record.record import Record
from analysis.record.timeline import MILLISECOND_NS
from ebbtide.record.log_losses import BrokerLogLoss
from ebbtide.record.verdict import Cause, LossEvent

_BY_DISK: frozenset[Cause] = frozenset(
    {"last-replica-standing", "beyond-tolerance", "last-known-leader", "unexplained"}
)
"""The causes of a record that the elected broker may have had and lost."""


class LossAge(NamedTuple):
    """The age of the oldest record of some lost ones, and the event that lost them."""

    oldest_s: float
    lost_by: LossEvent


def age_of(record: Record, topic: str, partition: int, part: LostPart) -> LossAge | None:
    """Return the age of the oldest record of a part; None where the event is not known."""
    found, acked_ns = part.attribution, part.first_done_ns
    if found.cause is None or acked_ns is None:
        return None
    disk = _disk_loss(record, topic, partition, part, acked_ns)
    if disk is not None:
        return LossAge(_seconds(disk.fired_ns - acked_ns), "disk")
    if found.election is None:
        return None
    return LossAge(_seconds(found.election.after.at_ns - acked_ns), "election")


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
