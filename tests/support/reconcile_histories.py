"""Histories of one topic, as Hypothesis draws them, and runs of many topics, as a seed does.

They have few possible outcomes, so that rows meet. A history is composed of parts, each of which may be there or not:
what clients say, stretches that all agree on, logs that are cut off and filled again, elections, replicas, policies.
Or it is healthy except for a known number of anomalies.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar

from anomaly_kinds import Planted, modules, planters
from healthy_history import healthy_history
from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter
from reconcile_draws import Draws, Parts, Setup
from reconcile_parts import FIRST_MEMBER, MEMBERS, PARTS, draw_group_reads
from records import RecordBuilder

from ebbtide.record.clients import ClientEvent
from ebbtide.record.manifest import FinalOffsets

Row = dict[str, Any]
T = TypeVar("T")


TOPICS = 25
"""Topics of a run that a seed draws: a history each, all reconciled in the same jobs."""


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


@cache
def _all_parts() -> Parts:
    """The parts of each kind of anomaly, after those of no kind alone."""
    return {**PARTS, **{part: per_cent for kind in modules() for part, per_cent in getattr(kind, "PARTS", {}).items()}}


def _draw_parts(d: Draws, b: RecordBuilder, setup: Setup, first_member: int = FIRST_MEMBER) -> None:
    for part, per_cent in _all_parts().items():
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
