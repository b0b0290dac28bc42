"""What a history is drawn with: a run to be part of, and numbers of which few are possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from healthy_history import COORDINATORS
from records import FINAL_CONSUMER, RecordBuilder

from ebbtide.record.manifest import Status
from ebbtide.record.tables import TABLES

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a run is, apart from its topics; histories of one setup share a run."""

    status: Status = "complete"
    final_read: bool = True
    final_isolation: str = "read_uncommitted"
    transactions: bool = False
    transactional: bool = False
    idempotent: bool = False
    state: str | None = "CompleteCommit"
    """What the coordinator says of the transaction at the end."""

    def empty_run(self) -> RecordBuilder:
        """Return a run without topics but that of offsets; its groups have three coordinators in turn."""
        run = RecordBuilder(status=self.status, final_consumer=FINAL_CONSUMER if self.final_read else None)
        run.producer(1, idempotent=self.idempotent, transactional=self.transactional).empty(*TABLES)
        run.transactions(one=self.state)
        for epoch, (broker, at_ns) in enumerate(COORDINATORS):
            run.coordinated_by(broker, epoch=epoch, at_ns=at_ns)
        return run


class Draws:
    """What the parts of a history are drawn with."""

    def __init__(self, number: Callable[[int, int], int]) -> None:
        self.number = number

    def one_of(self, *options: T) -> T:
        return options[self.number(0, len(options) - 1)]

    def is_drawn(self, per_cent: int) -> bool:
        return self.number(1, 100) <= per_cent

    def maybe(self, drawn: T) -> T | None:
        return self.one_of(drawn, drawn, None)

    def numbers_between(self, low: int, high: int) -> list[int]:
        mask = self.number(0, 2 ** (high - low + 1) - 1)
        return [number for number in range(low, high + 1) if mask >> (number - low) & 1]

    def offset(self) -> int:
        """Few, of which some share a block of offsets and some do not."""
        return self.one_of(0, 1, 2, 3, 62, 63, 64)


Parts = Mapping[Callable[[Draws, RecordBuilder, Setup], None], int]
"""What draws a part of a history, and how many of a hundred histories have it."""


def epoch_of(offset: int, value: int | None) -> int:
    """A record is appended under one leader epoch."""
    return (offset + (value or 0)) % 5
