"""Histories of one topic, as Hypothesis draws them, and runs of many topics, as a seed does.

They have few possible outcomes, so that rows meet. A history is composed of parts, each of which may be there or not:
what clients say, stretches that all agree on, logs that are cut off and filled again, elections, replicas, policies.
Or it is healthy except for a known number of anomalies.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar

from anomaly_kinds import Planted, planters
from healthy_history import COORDINATORS, healthy_history
from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter
from reconcile_parts import FIRST_MEMBER, MEMBERS, PARTS, draw_group_reads
from records import FINAL_CONSUMER, RecordBuilder

from ebbtide.record.clients import ClientEvent
from ebbtide.record.manifest import FinalOffsets, Status
from ebbtide.record.tables import TABLES

Row = dict[str, Any]
T = TypeVar("T")


TOPICS = 25
"""Topics of a run that a seed draws: a history each, all reconciled in the same jobs."""


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


PLAIN, TRANSACTIONS = Setup(), Setup(transactions=True)
SETUPS = (
    PLAIN,
    Setup(idempotent=True),
    TRANSACTIONS,
    Setup(transactions=True, transactional=True, idempotent=True),
    Setup(transactions=True, state="Ongoing"),
    Setup(transactions=True, transactional=True, idempotent=True, final_isolation="read_committed"),
    Setup(transactional=True, final_isolation="read_committed"),
    Setup(final_isolation="read_committed"),
    Setup(status="interrupted"),
    Setup(
        status="interrupted", transactions=True, transactional=True, idempotent=True, final_isolation="read_committed"
    ),
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
    groups: Mapping[int, str] = field(default_factory=dict)
    events: Mapping[int, list[ClientEvent]] = field(default_factory=dict)
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
        lines += [f"{self.groups[member]} {member}: {each}" for member, some in self.events.items() for each in some]
        return "\n".join([*lines, *(f"{table:<10} {_describe_row(row)}" for table, row in self.rows)])


def _describe_row(row: Row) -> str:
    return " ".join(f"{name}={value}" for name, value in row.items() if name != "topic" and value not in (None, []))


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


@cache
def _numbers(low: int, high: int) -> st.SearchStrategy[int]:
    # Making a strategy takes longer than drawing from it.
    return st.integers(low, high)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A history composed of parts."""
    d = Draws(lambda low, high: draw(_numbers(low, high)))
    setup = d.one_of(*SETUPS)
    builder = RecordBuilder()
    _draw_parts(d, builder, setup)
    return _history(builder, setup)


def random_run(dice: random.Random) -> RecordBuilder:
    """A run with a history a topic."""
    d = Draws(dice.randint)
    setup = d.one_of(*SETUPS)
    run = setup.empty_run()
    for topic in range(TOPICS):
        _draw_parts(d, run.on(f"topic-{topic}", base=topic * 1_000), setup, FIRST_MEMBER + MEMBERS * topic)
    return run.in_order()


def _draw_parts(d: Draws, b: RecordBuilder, setup: Setup, first_member: int = FIRST_MEMBER) -> None:
    for part, per_cent in PARTS.items():
        if d.is_drawn(per_cent):
            part(d, b, setup)
    if d.is_drawn(40):
        draw_group_reads(d, b, setup, first_member)


@st.composite
def planted_histories(draw: st.DrawFn) -> tuple[History, ...]:
    """A healthy history for each kind of anomaly, with a known number of it planted."""
    d = Draws(lambda low, high: draw(_numbers(low, high)))
    found = []
    for plant in planters(beside_tables=False):
        builder = RecordBuilder()
        planted = plant(healthy_history(builder), d.number(1, 20))
        # Other topics' transactions change nothing about it, but its own may change other topics of its run.
        own = any(row["txn"] is not None for row in builder.tables["sends"])
        setup = TRANSACTIONS if own else d.one_of(PLAIN, PLAIN, Setup(idempotent=True), TRANSACTIONS)
        found.append(replace(_history(builder, setup), planted=planted))
    return tuple(found)


def _history(builder: RecordBuilder, setup: Setup) -> History:
    rows = tuple((table, row) for table, of_table in builder.in_order().tables.items() for row in of_table)
    return History(
        setup=setup,
        rows=rows,
        ends=builder.ends,
        unread=frozenset(builder.unread),
        groups=builder.groups,
        events=builder.events,
    )
