"""One replica of a partition: its log, what was flushed, and its part as leader or follower."""

from __future__ import annotations

from typing import Any

from analysis.spec.leader import Leader


class Entry:
    """A record in a log: a value, written in one leader epoch by one election at one offset."""

    __slots__ = ("acks", "committed_at", "copies", "epoch", "min_isr", "number", "offset", "reign", "value", "wrote_at")

    def __init__(self, number: int, value: int, epoch: int, reign: int, offset: int, acks: int, wrote_at: int) -> None:
        self.number = number
        self.value = value
        self.epoch = epoch
        self.reign = reign
        """The order of the election under which its leader wrote it."""
        self.offset = offset
        self.acks = acks
        self.wrote_at = wrote_at
        self.committed_at: int | None = None
        self.min_isr = 1
        """The effective min ISR when it was committed."""


class Waiting:
    """An acks=all request that waits for the HW."""

    __slots__ = ("entry", "request")

    def __init__(self, entry: Entry, request: Any) -> None:
        self.entry = entry
        self.request = request


class Replica:
    """The log of one partition on one broker; `fates` says how it came to lack a record that it once had.

    A fate is `D` (a disk took it), `T` (truncated), `S` (joined the ISR by a stale request without it;
    `V`: where KIP-903 forbids that), `K` (dropped
    by recovery after a kill, which the protocol forbids).
    """

    __slots__ = (
        "broker",
        "caught_at",
        "epoch",
        "fates",
        "fetch_at",
        "flushed",
        "follows",
        "hw",
        "hw_when_elected",
        "last_leo",
        "leader",
        "leads_since",
        "log",
        "number",
        "pending_since",
        "waiting",
    )

    def __init__(self, broker: int, number: int) -> None:
        self.broker = broker
        self.number = number
        self.log: list[Entry] = []
        self.flushed = 0
        self.hw = self.hw_when_elected = 0
        self.epoch = -1
        self.leader: Leader | None = None
        """What it knows as leader; None while it follows."""
        self.leads_since = -1
        """The order of the election by which it leads."""
        self.follows = -1
        self.fetch_at: int | None = None
        self.caught_at: dict[int, int] = {}
        self.last_leo: dict[int, tuple[int, int]] = {}
        self.waiting: list[Waiting] = []
        self.pending_since = 0
        self.fates: dict[int, str] = {}

    def append(self, entry: Entry) -> None:
        """Add a record, of its own or a copy."""
        self.log.append(entry)
        if self.fates:
            self.fates.pop(entry.number, None)

    def cut(self, end: int, fate: str) -> int:
        """Drop all records from `end` on; returns how many."""
        gone = self.log[end:]
        for entry in gone:
            self.fates[entry.number] = fate
        del self.log[end:]
        self.flushed = min(self.flushed, end)
        self.hw = min(self.hw, end)
        return len(gone)

    def common_end(self, other: Replica) -> int:
        """Return where this log and another part, by leader epochs, as Kafka finds it."""
        end = min(len(self.log), len(other.log))
        mine, theirs = self.log, other.log
        while end and mine[end - 1].epoch != theirs[end - 1].epoch:
            end -= 1
        return end
