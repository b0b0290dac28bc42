"""HWs that went back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from reconcile_cases import Cases, Found, Mutant, complete
from reconcile_draws import Draws, Parts, Setup
from reconcile_oracle_run import clock_went_back, served_marks
from reconcile_oracle_tables import Item, PlacedTables, place_of
from records import RecordBuilder

from analysis.judge.rules.losses import hw_regression as rule
from analysis.reconcile.model import HwRegression
from ebbtide.record.manifest import Manifest

KIND = "hw-regression"

CASES: Cases = {
    complete: {
        "a HW below an earlier one of the same epoch went back": (
            lambda b: b.served(5).served(4),
            {"hw-regression": [(4, None)]},
        ),
        "a HW below an earlier one of an older epoch went back": (
            lambda b: b.served(5, epoch=1).served(6, epoch=3).served(4, epoch=7),
            {"hw-regression": [(4, None)]},
        ),
        "every observation below an earlier one counts": (
            lambda b: b.served(5).served(3, epoch=1).served(4, epoch=1).served(5, epoch=1).served(4, epoch=2),
            {"hw-regression": [(3, None), (4, None), (4, None)]},
        ),
        "an equal HW did not go back": (lambda b: b.served(5).served(5, epoch=1), {}),
        "a deposed leader's late answer is none": (lambda b: b.served(3).served(9, epoch=1).served(4, epoch=0), {}),
        "a deposed leader may still regress against its own epoch": (
            lambda b: b.served(5).served(9, epoch=1).served(4, epoch=0),
            {"hw-regression": [(4, None)]},
        ),
        "an older epoch is found behind many others": (
            lambda b: [b.served(hw, epoch=epoch) for epoch, hw in enumerate((9, 1, 2, 3, 4, 5, 6))][-1].served(
                7, epoch=7
            ),
            {"hw-regression": [(hw, None) for hw in range(1, 8)]},
        ),
        "what was asked before the other was answered does not count": (
            lambda b: b.served(5, asked_ns=100, at_ns=200).served(4, asked_ns=150, at_ns=300),
            {},
        ),
        "what was asked the moment the other was answered does not count": (
            lambda b: b.served(5, asked_ns=100, at_ns=200).served(4, asked_ns=200, at_ns=300),
            {},
        ),
        "without a leader epoch a HW is not judged": (
            lambda b: b.served(5, epoch=None).served(4).served(3, epoch=None),
            {},
        ),
        "without the time of asking a HW counts as the earlier one only": (
            lambda b: b.served(5, asked_ns=None).served(4, asked_ns=None).served(3),
            {"hw-regression": [(3, None)]},
        ),
        "fetch and checkpoint HWs may lag": (
            lambda b: (
                b.served(5).served(4, source="fetch").served(3, source="checkpoint").served(5, source="list_offsets")
            ),
            {},
        ),
        "partitions have HWs of their own": (lambda b: b.served(5).served(4, partition=1), {}),
    },
}


MUTANTS: tuple[Mutant, ...] = (
    (rule, "min(struct(offset, at_ns, leader_epoch, broker)).offset AS to", "max(offset) AS to"),
    (
        rule,
        'earlier["high_watermark"] > F.col("high_watermark")',
        'earlier["high_watermark"] >= F.col("high_watermark")',
    ),
    (rule, 'F.greatest("own", "previous", "older")', 'F.greatest("own", "previous")'),
    (rule, 'F.col("anew") | own | ~passed', 'F.col("anew")'),
)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """An answer that is lower than an earlier one of the same or an older epoch."""
    marks = served_marks(tables)
    if clock_went_back(marks):
        return []
    return [
        ("hw-regression", *place_of(later), later["high_watermark"], None)
        for later in marks
        if later["asked_ns"] is not None
        and any(
            place_of(earlier) == place_of(later)
            and earlier["leader_epoch"] <= later["leader_epoch"]
            and earlier["at_ns"] < later["asked_ns"]
            and earlier["high_watermark"] > later["high_watermark"]
            for earlier in marks
        )
    ]


def told(found: Found) -> object:
    """The items outside all drops that the judge gets."""
    return unnamed_drops(found.items(KIND), found.groups(HwRegression, KIND))


def expected(tables: PlacedTables, manifest: Manifest) -> object:
    """None."""
    return []


def unnamed_drops(items: Sequence[Mapping[str, Any]], named: Sequence[HwRegression]) -> list[Mapping[str, Any]]:
    """Return the items outside all named drops."""
    details = [(row, json.loads(row["details"])) for row in items]
    return [
        row
        for row, one in details
        if not any(
            (drop.topic, drop.partition) == (row["topic"], row["partition"])
            and one["earlier"]["leader_epoch"] <= drop.leader_epoch <= one["leader_epoch"]
            and drop.to <= one["high_watermark"] < drop.from_
            for drop in named
        )
    ]


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Answers that are too low."""
    for number in range(n):
        b.served(number)
    return {"hw-regression": n}


def _draw_questions(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw answers of one or of many leader epochs, to questions that overlap."""
    epochs = d.one_of(1, 2, 3, 6, 13, 40)
    for _ in range(d.number(0, 59)):
        asked_ns = d.number(0, 99)
        epoch = min(epochs, asked_ns * epochs // 100 + d.number(0, 2)) * 5
        times = {"asked_ns": asked_ns, "at_ns": asked_ns + d.number(0, 19)}
        b.served(asked_ns + d.number(0, 39), epoch=epoch, partition=4, **times)


PARTS: Parts = {_draw_questions: 15}
