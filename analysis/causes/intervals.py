"""What one replica may hold of one record: a set of possible states, and the rules that narrow and widen it.

A set without HAS_IT says that the record is above the ceiling of the replica. The set {HAS_IT} says that it is below
the floor.
Measurements count more than what the protocol says, and what the protocol says counts more than a mere possibility.
"""

from __future__ import annotations

from collections.abc import Mapping

from analysis.causes.evidence import NEVER, MeasuredEnds

HAS_IT, NEVER_HAD_IT, DISK_TOOK_IT, TRUNCATED_IT = 1, 2, 4, 8
JOINED_WITHOUT_IT, UNRECORDED_LOSS, CONTRADICTED = 16, 32, 64
STATES: Mapping[int, str] = {
    HAS_IT: "had the record",
    NEVER_HAD_IT: "never had the record",
    DISK_TOOK_IT: "had lost the record with its disk",
    TRUNCATED_IT: "had truncated the record, because it followed a leader without it",
    JOINED_WITHOUT_IT: "had entered the ISR by an old request, without the record",
    UNRECORDED_LOSS: "may have lost the record in a restart, because no steps were recorded",
    CONTRADICTED: "lacked the record, as a measurement shows, although the protocol says that it must have it",
}
"""The states of a replica; a set of them is a sum."""
LACKS_IT = sum(STATES) - HAS_IT
"""Every state without the record."""

Sets = tuple[int, ...]
"""The set of each replica of the partition, in the order of their ids."""


def states_in(found: int) -> list[str]:
    """Return the states of a set in words."""
    return [text for state, text in STATES.items() if found & state]


def lacking(found: int) -> int:
    """Return why a replica that turned out to lack the record may lack it."""
    return found & ~HAS_IT or CONTRADICTED


def after_commit(found: int) -> int:
    """The record was committed while the replica was in the ISR: it has had it, and its disk may have taken it.

    A replica that surely had not got it contradicts that.
    """
    return found & ~(NEVER_HAD_IT | TRUNCATED_IT) or CONTRADICTED


def after_disk(found: int, offset: int, ends: MeasuredEnds | None) -> int:
    """The disk of the replica lost records; a log is a prefix, so that measured ends decide."""
    if ends is None:
        return found | DISK_TOOK_IT if found & HAS_IT else found
    if ends.before <= offset:
        return lacking(found)
    if ends.after <= offset and found & HAS_IT:
        return (found & ~HAS_IT) | DISK_TOOK_IT
    return found


def at_measured_end(found: int, offset: int, ends: MeasuredEnds) -> int:
    """Return what a log held up to its measured end, where every log has the same record at the offset."""
    return HAS_IT if offset < ends.before < NEVER else found


def after_restart(found: int) -> int:
    """The broker registered again, and nobody recorded what had been done to it."""
    return found | UNRECORDED_LOSS if found & HAS_IT else found


def after_gap(found: int) -> int:
    """An election may be hidden here: the replica may have truncated the record, or fetched it."""
    return found | (TRUNCATED_IT if found & HAS_IT else HAS_IT)


def while_following(found: int, *, leader_has_it: bool) -> int:
    """The replica may have fetched from its leader, which has the record or lacks it."""
    return after_gap(found) if bool(found & HAS_IT) is not leader_has_it else found


def after_join(found: int, *, leader_has_it: bool, may_be_stale: bool) -> int:
    """The replica entered the ISR, so its log had reached the HW and the start of the leader's epoch.

    `may_be_stale`: the request to enter may be from before a disk loss, because the controller does not compare broker
    epochs.
    """
    if not leader_has_it:
        return (found & ~HAS_IT) | TRUNCATED_IT if found & HAS_IT else found
    stale = 0
    if may_be_stale:
        stale = found & UNRECORDED_LOSS | (JOINED_WITHOUT_IT if found & (DISK_TOOK_IT | JOINED_WITHOUT_IT) else 0)
    if found & (DISK_TOOK_IT | UNRECORDED_LOSS):
        return HAS_IT | stale | (found & NEVER_HAD_IT)
    return found | HAS_IT
