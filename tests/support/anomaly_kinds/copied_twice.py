"""Inputs with two copies."""

from __future__ import annotations

from collections import defaultdict

from healthy_history import HEALTHY
from reconcile_cases import Cases, Mutant, Unknown
from reconcile_oracle_copies import Input, add_copy, copied, copy, copying, input_of, inputs, is_visible, show, shown
from reconcile_oracle_tables import Item, PlacedTables
from records import RecordBuilder

from analysis.judge.rules.groups import copied_twice as rule
from ebbtide.record.manifest import Manifest

KIND = "copied-twice"

CASES: Cases = {
    copying: {
        "each input has one copy": (
            lambda b: copy(copy(inputs(b, 1, 2), 11, of=0), 12, of=1).answer(None, 2, group="copiers"),
            {},
        ),
        "two committed copies of one input in the final log": (
            lambda b: copy(copy(inputs(b, 1), 11, of=0), 12, of=0).answer(None, 1, group="copiers"),
            {"copied-twice": [(0, 11)]},
        ),
        "a copy in doubt that a read_committed consumer got is committed": (
            lambda b: shown(copy(copy(inputs(b, 1), 11, of=0), 12, of=0, outcome="unknown"), 12).answer(
                None, 1, group="copiers"
            ),
            {"copied-twice": [(0, 11)]},
        ),
        "a copy in doubt that none of them got proves nothing": (
            lambda b: copy(copy(inputs(b, 1), 11, of=0), 12, of=0, outcome="unknown").answer(None, 1, group="copiers"),
            {},
        ),
        "an aborted copy is no copy": (
            lambda b: copy(copy(inputs(b, 1), 11, of=0), 12, of=0, outcome="aborted").answer(None, 1, group="copiers"),
            {},
        ),
        "each group has a copy of its own": (
            lambda b: copy(copy(inputs(b, 1), 11, of=0), 12, of=0, group="others").answer(None, 1, group="copiers"),
            {},
        ),
    },
}


UNKNOWN: Unknown = {
    "a copy in doubt that no read_committed consumer reached": (
        lambda: copy(copied(), 13, of=1, outcome="unknown").answer(None, 2, group="copiers"),
        "no read_committed consumer read all of t-1",
    ),
    "a copy in doubt before the first that one got": (
        lambda: copy(copied(), 11, of=1, outcome="unknown").answer(None, 2, group="copiers"),
        "no read_committed consumer read all of t-1",
    ),
}


MUTANTS: tuple[Mutant, ...] = (
    (rule, "copies > 1", "copies > 2"),
    (
        rule,
        ".groupBy(*copies.INPUT)",
        '.groupBy("run", "topic", "partition", "offset", F.lit("g").alias("group"))',
    ),
)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """An input with more than one visible copy of a group."""
    found: dict[tuple[Input, int], set[int]] = defaultdict(set)
    for row in tables["copies"]:
        if is_visible(row["value"], tables, manifest, certainly=True):
            found[input_of(row), row["offset"]].add(row["value"])
    return [
        (KIND, topic, partition, offset, min(values))
        for ((_, topic, partition), offset), values in found.items()
        if len(values) > 1
    ]


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Inputs with two copies; others have a second one that is aborted, in doubt, or of another group."""
    show(b, 0, HEALTHY - 1, partition=0)
    for number in range(n + 3):
        add_copy(b, 100 + number, of=number)
        show(b, 100 + number)
    for number in range(n):
        add_copy(b, 200 + number, of=number, outcome="unknown" if number % 2 else "committed")
        if number % 2:
            show(b, 200 + number)
        else:
            b.final(200 + number, at=200 + number, partition=9)
    add_copy(b, 300, of=n, outcome="aborted")
    add_copy(b, 301, of=n + 1, outcome="unknown")
    # A consumer that gets an aborted copy has no second copy, but reads what was aborted.
    show(b, 300)
    b.final(301, at=301, partition=9)
    add_copy(b, 302, of=n + 2, group="others")
    b.copy(302, of=n + 2, group="others")
    show(b, 302)
    b.answer(None, n + 3, group="copiers").answer(None, 0, group="others")
    return {"copied-twice": n, "aborted-read": 1}
