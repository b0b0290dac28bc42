"""A history with its truth: what a run record holds of it, and which election lost each lost record, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ebbtide.record.clock import ClockReading
from ebbtide.record.steps import StepEntry
from simulator.script import Script

Row = dict[str, Any]
Answer = tuple[str, int | None]
"""A cause, and the metadata offset of the guilty election; None: with this cause, any election is right."""
Key = tuple[str, int, int]
"""What is gone: its kind, its partition, and its value or the epoch of a lower HW."""
LOST, VANISHED, FALL = "lost", "vanished", "hw-back"


@dataclass(frozen=True, kw_only=True)
class LostRecord:
    """A record that is gone; `right` has every answer that is right.

    `kind`: it was acked (lost), or only read (vanished), and is not in the final log; or it is the last one that an HW
    had covered which went back (hw-back), `until` the election of this leader epoch. `epoch` is the epoch of the
    record, or of the leader that served the higher HW; `done_ns` is when it was acked, read or served.
    `winner_lacks` says how the guilty election's winner came to lack it: N (never had it), D (its disk took it), T
    (truncated it), S (joined the ISR by a stale request), K (dropped it after a kill), R (was removed as a replica).
    `road` is how it was elected. `is_writer_shown`: a consumer read it, or only one leader can have written it.
    """

    partition: int
    value: int
    offset: int
    acks: int
    epoch: int
    committed: bool
    read: bool
    is_writer_shown: bool
    sent_ns: int
    done_ns: int
    right: frozenset[Answer]
    winner: int
    winner_lacks: str
    road: str
    kind: str = LOST
    until: int | None = None

    @property
    def key(self) -> Key:
        """What the answer is about."""
        return self.kind, self.partition, self.value if self.until is None else self.until

    @property
    def causes(self) -> frozenset[str]:
        """The causes that are right."""
        return frozenset(cause for cause, _ in self.right)


@dataclass(frozen=True, kw_only=True)
class TrueHistory:
    """One history; `tables` has the rows of a run record by table."""

    script: Script
    tables: dict[str, list[Row]]
    steps: list[StepEntry] | None
    final_offsets: dict[int, int]
    lost: tuple[LostRecord, ...]
    violated: bool
    """Whether the planted violation happened."""
    log_begins: int
    log_ends: int
    skipped: int
    """How many records of the metadata log are missing in the evidence, and are known to be."""
    end_ns: int
    led: frozenset[int]
    """The metadata offsets of the elections whose winner really led."""
    leaderless: tuple[int, ...] = ()
    is_torn: bool = False
    """Whether the end of the metadata log is missing, behind a damage."""
    readings: tuple[ClockReading, ...] = ()
    unsure_ns: tuple[tuple[int, int], ...] = ()
    """Spans in which times of the metadata log are not sure, because a clock was set."""
