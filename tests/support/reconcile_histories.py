"""Histories of one topic as Hypothesis draws them.

They have few possible outcomes, so that rows meet. A history is composed of parts, each of which may be there or not:
what clients say, stretches that all agree on, logs that are cut off and filled again, elections, replicas, policies.
Or it is healthy except for a known number of anomalies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter
from reconcile_history_copies import draw_copies
from reconcile_planted import PLANTERS, Planted, healthy_history
from records import FINAL_CONSUMER, RecordBuilder

from ebbtide.record.manifest import FinalOffsets, Status

Row = dict[str, Any]
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


PLAIN, TRANSACTIONS = Setup(), Setup(transactions=True)
SETUPS = (
    PLAIN,
    Setup(idempotent=True),
    TRANSACTIONS,
    Setup(transactions=True, transactional=True),
    Setup(transactions=True, transactional=True, final_isolation="read_committed"),
    Setup(transactional=True, final_isolation="read_committed"),
    Setup(final_isolation="read_committed"),
    Setup(status="interrupted"),
    Setup(status="interrupted", transactions=True, transactional=True, final_isolation="read_committed"),
    Setup(final_read=False, transactions=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The rows of topic `t`, by table.

    `planted` has what a check must find in it, if that is known beforehand.
    """

    setup: Setup
    rows: tuple[tuple[str, Row], ...]
    ends: Mapping[str, FinalOffsets] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    planted: Planted | None = None

    def without_rows(self, dropped: frozenset[int]) -> History:
        """Return the same history without some of its rows.

        What was planted is then no longer known.
        """
        rows = tuple(row for number, row in enumerate(self.rows) if number not in dropped)
        return replace(self, rows=rows, planted=self.planted if not dropped else None)

    def _repr_pretty_(self, printer: RepresentationPrinter, _cycle: bool) -> None:
        # How Hypothesis tells an example; the whole is so long that it warns of it.
        printer.text(f"<history of {len(self.rows)} rows>")

    def describe(self) -> str:
        """Return the whole history, a line a row."""
        lines = [str(self.setup), *(f"{name}: {end}" for name, end in self.ends.items())]
        lines += [f"{name} is not in the final read" for name in sorted(self.unread)]
        return "\n".join([*lines, *(f"{table:<10} {_describe_row(row)}" for table, row in self.rows)])


def _describe_row(row: Row) -> str:
    return " ".join(f"{name}={value}" for name, value in row.items() if name != "topic" and value not in (None, []))


class Draws:
    """What the parts of a history are drawn with."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def one_of(self, *options: T) -> T:
        return options[self._draw(_numbers(0, len(options) - 1))]

    def number(self, low: int, high: int) -> int:
        return self._draw(_numbers(low, high))

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


@cache
def _numbers(low: int, high: int) -> st.SearchStrategy[int]:
    # Making a strategy takes longer than drawing from it.
    return st.integers(low, high)


Part = Callable[[Draws, RecordBuilder, Setup], None]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A history composed of parts."""
    d = Draws(draw)
    setup = d.one_of(*SETUPS)
    builder = RecordBuilder()
    for part, per_cent in PARTS.items():
        if d.is_drawn(per_cent):
            part(d, builder, setup)
    return _history(builder, setup)


@st.composite
def planted_histories(draw: st.DrawFn) -> tuple[History, ...]:
    """A healthy history for each kind of anomaly, with a known number of it planted."""
    d = Draws(draw)
    found = []
    for plant in PLANTERS:
        builder = RecordBuilder()
        planted = plant(healthy_history(builder), d.number(1, 20))
        # Other topics' transactions change nothing about it, but its own may change other topics of its run.
        own = any(row["txn"] is not None for row in builder.tables["sends"])
        setup = TRANSACTIONS if own else d.one_of(PLAIN, PLAIN, Setup(idempotent=True), TRANSACTIONS)
        found.append(replace(_history(builder, setup), planted=planted))
    return tuple(found)


def _history(builder: RecordBuilder, setup: Setup) -> History:
    rows = tuple((table, row) for table, of_table in builder.in_order().tables.items() for row in of_table)
    return History(setup=setup, rows=rows, ends=builder.ends, unread=frozenset(builder.unread))


def _epoch(offset: int, value: int | None) -> int:
    """A record is appended under one leader epoch."""
    return (offset + (value or 0)) % 5


def _outcome(d: Draws, setup: Setup) -> dict[str, Any]:
    outcome = d.one_of(None, None, "committed", "aborted", "unknown") if setup.transactions else None
    return {"txn": None if outcome is None else 1, "txn_outcome": outcome}


def _sends(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """What producers say of values that may be read anywhere."""
    for value in d.numbers_between(1, 6):
        b.send(
            value,
            at=d.maybe(d.offset()),
            status=d.one_of("acked", "acked", "acked", "failed", "unknown"),
            acks=d.one_of(-1, 0, 1),
            producer=d.one_of(1, 1, 2),
            partition=d.number(0, 1),
            sent_ns=d.number(1, 40),
            done_ns=d.maybe(d.number(1, 40)),
            **_outcome(d, setup),
        )


def _polls(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw what two consumers and the final read say.

    The final read may be at other times than at the end.
    """
    other = d.one_of("read_uncommitted", "read_committed")
    for consumer, isolation in ((1, "read_uncommitted"), (2, other), (FINAL_CONSUMER, setup.final_isolation)):
        final = consumer == FINAL_CONSUMER
        for _ in range(d.number(0, 6)):
            value, offset = None if d.is_drawn(10) else d.number(1, 6), d.offset()
            b.read(
                value,
                at=offset,
                consumer=consumer,
                session=1 if final else d.one_of(1, 1, 2),
                prev_offset=d.maybe(d.offset()),
                isolation=isolation,
                polled_ns=d.number(1, 40) + (d.one_of(40, 40, 40, 0) if final else 0),
                leader_epoch=None if d.is_drawn(10) else _epoch(offset, value),
                partition=d.number(0, 1),
            )


def _draw_agreeing_stretch(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw a healthy stretch, so that blocks agree.

    Sometimes it is out of order, or a value is out of place.
    """
    partition = d.number(0, 1)
    at, first, before, backwards = 128, 20 + 20 * partition, None, d.is_drawn(30)
    for value in range(first, first + d.number(1, 5)):
        b.acked(value, at=at, partition=partition, sequence=200 - value if backwards else value)
        if d.is_drawn(90):
            b.final(value, at=at, partition=partition, leader_epoch=0, isolation=setup.final_isolation)
        if d.is_drawn(70):
            b.read(value, at=at, consumer=3, partition=partition, leader_epoch=0, prev_offset=before)
            before = at
        at += d.one_of(1, 1, 1, 64)
    if d.is_drawn(30):
        place = d.one_of(0, 63, 128, 500)
        b.final(first, at=place, partition=d.number(0, 1), isolation=setup.final_isolation)


def _cut_off(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw a log that is cut off and filled again under the next leader epoch.

    Sessions jumped in it before.
    """
    partition = d.number(0, 1)
    values = iter(range(60 + 20 * partition, 80 + 20 * partition))
    at = d.one_of(190, 600)
    old = {offset: next(values) for offset in range(at, at + d.number(3, 8))}
    cut = d.number(at, at + len(old))
    again = {
        offset: old[offset] if offset < cut or (offset in old and d.is_drawn(20)) else next(values)
        for offset in range(at, at + len(old) + d.number(-1, 2))
    }
    logs = {0: old, 1: {offset: value for offset, value in again.items() if offset >= cut}}
    for offset, value in sorted({place for log in logs.values() for place in log.items()}):
        if d.is_drawn(90):
            b.send(value, at=offset, partition=partition, **_outcome(d, setup))
    for consumer in (4, 5):
        before, isolation = None, d.one_of("read_uncommitted", "read_committed")
        for epoch, log in logs.items():
            for offset in sorted(log):
                if (before is None or offset > before) and d.is_drawn(50):
                    columns = {"prev_offset": before, "leader_epoch": epoch, "partition": partition}
                    b.read(log[offset], at=offset, consumer=consumer, isolation=isolation, **columns)
                    before = offset
    for offset, value in again.items():
        columns = {"leader_epoch": int(offset >= cut), "partition": partition}
        b.final(value, at=offset, isolation=setup.final_isolation, **columns)


def _elections(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw values that replace each other over some elections, and falling HWs.

    They are acked in time and later.
    """
    values = iter(range(26, 40))
    for epoch in range(d.number(0, 4)):
        b.led_by(d.number(1, 3), epoch=epoch, at_ns=10 * epoch, partition=2)
    for epoch in range(4):
        for offset in d.numbers_between(4, 6):
            value, acked_ns = next(values), 10 * epoch + d.one_of(0, 5, 15, 25)
            columns = {"partition": 2, "leader_epoch": epoch if d.is_drawn(80) else None}
            if d.is_drawn(70):
                acks = d.one_of(1, 1, 1, -1)
                b.send(value, at=offset, acks=acks, partition=2, sent_ns=acked_ns - 3, done_ns=acked_ns)
            if d.is_drawn(20):
                b.read(value, at=offset, consumer=6, polled_ns=acked_ns + d.one_of(0, 30), **columns)
            if d.is_drawn(20):
                b.final(value, at=offset, polled_ns=90, isolation=setup.final_isolation, **columns)
            if d.is_drawn(20):
                b.replica(d.number(1, 3), value, at=offset, epoch=epoch, partition=2)
    for leader_epoch in (None, *d.numbers_between(0, 3)):
        # Half of them fall from the start, so that a record may be passed by a lower HW only.
        falls = d.is_drawn(50)
        for number in range(d.number(0, 4)):
            at_ns, high_watermark = d.number(1, 60), d.number(3, 8)
            if falls:
                at_ns, high_watermark = 10 + 15 * number, 9 - number
            b.served(high_watermark, epoch=leader_epoch, asked_ns=at_ns - 2, at_ns=at_ns, partition=2)


def _evidence(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """HWs of every source, logs of replicas, and who led."""
    partition = d.number(0, 1)
    for _ in range(d.number(0, 8)):
        asked = d.maybe(d.number(1, 40))
        b.served(
            d.number(0, 6),
            epoch=d.maybe(d.number(0, 9)),
            source=d.one_of("list_offsets", "list_offsets", "fetch", "checkpoint"),
            broker=d.number(1, 3),
            asked_ns=asked,
            at_ns=(asked or 0) + d.number(0, 10),
            partition=partition,
        )
    for broker in d.numbers_between(1, 3):
        b.checkpoint(broker, d.number(0, 6), partition=partition)
        for offset in d.numbers_between(0, 4):
            value = None if d.is_drawn(20) else d.number(1, 6)
            b.replica(broker, value, at=offset, epoch=_epoch(offset, value), partition=partition)
    for epoch in d.numbers_between(0, 3):
        b.led_by(d.one_of(-1, 1, 2, 3), epoch=epoch, at_ns=d.number(1, 40), partition=partition)


def _draw_replicas(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw three replicas of a stretch over several blocks.

    They agree except for single rows, below a HW or above it.
    """
    partition, first = d.number(0, 1), d.one_of(0, 256)
    values = list(range(300, 300 + d.one_of(3, 70, 130)))
    for broker in (1, 2, 3):
        held = list(values)
        for place in d.numbers_between(0, 2) if d.is_drawn(40) else ():
            held[place] = 500 + broker * d.number(0, 1)
        b.replica(
            broker, *held[: len(held) - d.one_of(0, 0, 1, 2)], at=first, epoch=d.one_of(0, 0, 0, 1), partition=partition
        )
        b.checkpoint(broker, first + d.one_of(0, 1, 64, 1000), partition=partition)


def _draw_ends(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Log starts that moved, HWs and last stable offsets at the end, and what was read at the latter."""
    for partition in (0, 1):
        high_watermark = d.one_of(2, 7, 100, 1000)
        last_stable = d.one_of(None, None, min(d.offset(), high_watermark))
        log_start = d.one_of(0, 0, 2, 64, 130)
        b.end(partition=partition, log_start=log_start, high_watermark=high_watermark, last_stable=last_stable)
        if last_stable is not None:
            for consumer in d.one_of(
                (), (FINAL_CONSUMER,), (FINAL_CONSUMER, FINAL_CONSUMER), (FINAL_CONSUMER, 1), (1,)
            ):
                isolation = setup.final_isolation if consumer == FINAL_CONSUMER else "read_uncommitted"
                b.read(d.number(1, 6), at=last_stable, consumer=consumer, isolation=isolation, partition=partition)


def _left_out(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Partitions that the final read does not name."""
    for partition in d.numbers_between(0, 2):
        b.not_in_final_read(partition=partition)


def _draw_commits(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw commits of few groups, and answers of three coordinators in turn, some of which led no more.

    Times are few, so that commits and questions overlap.
    """
    for group in ("g", "h"):
        partition = d.number(0, 1)
        commits = {number: d.number(1, 3) for number in d.numbers_between(1, 5)}
        for number, offset in commits.items():
            asked_ns = d.number(1, 60)
            b.commit(
                number,
                offset,
                status=d.one_of("acked", "acked", "acked", "unknown", "failed"),
                group=group,
                partition=partition,
                asked_ns=asked_ns,
                done_ns=d.maybe(asked_ns + d.number(0, 10)),
            )
        for _ in range(d.number(0, 5)):
            asked_ns = d.number(1, 80)
            served = d.one_of(None, 9, *commits)
            offset = None if served is None else commits.get(served, 7)
            b.answer(
                None if served == 9 else served,
                offset,
                broker=d.one_of(1, 1, 2),
                group=group,
                partition=partition,
                asked_ns=asked_ns,
                done_ns=asked_ns + d.number(0, 5),
            )


PARTS: dict[Part, int] = {
    _sends: 80,
    _polls: 90,
    _draw_agreeing_stretch: 50,
    _cut_off: 50,
    _evidence: 70,
    _elections: 50,
    _draw_replicas: 15,
    _draw_ends: 50,
    _left_out: 10,
    lambda d, b, setup: b.compacted(): 7,
    _draw_commits: 50,
    draw_copies: 40,
}
"""How many of a hundred histories have each."""
