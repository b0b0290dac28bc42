"""Packs a state: one small integer a broker, and two for what the brokers share.

A log is a bit mask of record numbers. Records are numbered as they are appended. So a log, which
only ever grows by newer records and is cut at its end, is the ascending list of its bits. The
common prefix of two logs is their intersection (log matching, which the search checks as a property
of its own). Of two logs, the log with the higher last bit has the newer last epoch or, in one
epoch, is the longer log. So no leader epoch needs storing.

A broker's word is `control << DATA_BITS | flushed << MAX_RECORDS | log`: control bits high, so that
sorting brokers by their words also groups them by control bits. All that distinguishes brokers is
in their words, so states that differ by a renaming of brokers have the same sorted words.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_RECORDS = 6
DATA_BITS = 2 * MAX_RECORDS
LOG = (1 << MAX_RECORDS) - 1
_SHARED_BITS = 4
"""Bits of each field of `SharedState`: its values are at most `bounds.MAX_BUDGET`."""

REPLICA = 1 << 0
"""In the controller's replica list."""
ADDING = 1 << 1
REMOVING = 1 << 2
IN_ISR = 1 << 3
IN_ELR = 1 << 4
LAST_KNOWN = 1 << 5
"""In the LastKnownElr field."""
LAST_LEADER = 1 << 6
"""The LastKnownLeader field (KIP-966's text only)."""
LEADER = 1 << 7
REGISTERED = 1 << 8
UNFENCED = 1 << 9
SHUTTING_DOWN = 1 << 10
UP = 1 << 11
"""The process runs."""
CLEAN = 1 << 12
"""Down, with a clean-shutdown file that names the epoch of the registration."""
PROPOSED = 1 << 13
"""In the ISR that an AlterPartition in flight asks for."""
STALE = 1 << 14
"""Proposed, and registered again since: the request carries an older broker epoch."""
ANSWERED = 1 << 15
"""KIP-966's text only: the controller has, or will have, its answer to GetReplicaLogInfo."""
OLD_INCARNATION = 1 << 16
"""Answered, and registered again since."""
OLD_LEADER_EPOCH = 1 << 17
"""Answered in an older leader epoch of the partition."""
ANSWER_AT = 18
"""From this bit on: the log as it was when the broker answered."""
ANSWER_BITS = ANSWERED | OLD_INCARNATION | OLD_LEADER_EPOCH | LOG << ANSWER_AT


_FLAGS = frozenset({"elr", "recovering", "in_flight", "nobody_known"})


class SharedState(NamedTuple):
    """What the brokers share apart from their logs; the budgets count what was used.

    `min_isr` is the configured min.insync.replicas, `leader_min_isr` the value that the leader's
    broker has applied. `first_replicas` is the length of the replica list of the topic's partition
    0, by which releases cap the effective min ISR of all partitions; 0 while it is this partition's
    own. `nobody_known`: LastKnownElr is [-1], a bug of 4.0 and 4.1.0 (apache/kafka#20629).
    """

    min_isr: int
    leader_min_isr: int
    elr: bool
    first_replicas: int = 0
    recovering: bool = False
    in_flight: bool = False
    nobody_known: bool = False
    power_losses: int = 0
    kills: int = 0
    disks: int = 0
    stops: int = 0
    admin: int = 0

    def pack(self) -> int:
        """Return it as one integer, the same in every process of a search."""
        number = 0
        for value in self:
            number = number << _SHARED_BITS | value
        return number


def unpack_shared(number: int) -> SharedState:
    """Return the `SharedState` that `SharedState.pack` packed."""
    fields = SharedState._fields
    values = [number >> _SHARED_BITS * at & (1 << _SHARED_BITS) - 1 for at in reversed(range(len(fields)))]
    pairs = zip(fields, values, strict=True)
    return SharedState._make(bool(value) if field in _FLAGS else value for field, value in pairs)


class Data(NamedTuple):
    """What the logs are compared with: masks of records, and how many were appended.

    `committed`: the HW of some leader passed it. `acked`: a producer got its ack, under acks=all.
    `older`: appended before the present leader epoch began. `strong`: sent with acks=all.
    """

    appended: int = 0
    older: int = 0
    committed: int = 0
    acked: int = 0
    strong: int = 0

    def pack(self) -> int:
        """Return it as one integer."""
        number = self.appended
        for mask in (self.older, self.committed, self.acked, self.strong):
            number = number << MAX_RECORDS | mask
        return number


def unpack(number: int) -> Data:
    """Return the `Data` that `Data.pack` packed."""
    masks = [(number >> MAX_RECORDS * place) & LOG for place in (3, 2, 1, 0)]
    return Data(number >> 4 * MAX_RECORDS, *masks)


State = tuple[int, ...]
"""`(packed SharedState, packed Data, word, word, ...)` with the words ascending.

Each number is below 2**64.
"""
