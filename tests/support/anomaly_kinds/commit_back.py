"""Commits that went back."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from reconcile_cases import Cases, Found, Mutant, Unknown
from reconcile_oracle_commits import (
    UNKNOWN_COMMITS,
    beside_a_record,
    coordinated,
    counting_answers,
    is_settled,
    registers,
    shows_older,
    writes,
)
from reconcile_oracle_tables import Item, PlacedTables, Row
from records import RecordBuilder

from analysis.judge.rules.groups import commit_back as rule
from analysis.reconcile.model import LostCommits
from ebbtide.record.manifest import Manifest

KIND = "commit-back"

CASES: Cases = {
    coordinated: beside_a_record(
        {
            "a commit without an outcome is not lost, but goes back once it was served": (
                lambda b: b.commit(1, 10).commit(2, 20, status="unknown").answer(1, 10).answer(2, 20).answer(1, 10),
                {"commit-back": [(20, None)]},
            ),
            "a coordinator whose HW nobody had seen yet lost nothing, but what it served went back": (
                lambda b: (
                    b.commit(1, 10).commit(2, 20).answer(2, 20).answer(1, 10, broker=3, asked_ns=50_003, done_ns=50_004)
                ),
                {"commit-back": [(20, None)]},
            ),
            "what a coordinator whose HW nobody had seen served was maybe never committed": (
                lambda b: (
                    b.commit(1, 10)
                    .commit(2, 20, status="unknown")
                    .answer(2, 20, broker=3, asked_ns=50_002, done_ns=50_003)
                    .answer(1, 10, broker=3, asked_ns=50_007, done_ns=50_008)
                ),
                {"commit-back": [(20, None)]},
            ),
        }
    ),
}


UNKNOWN: Unknown = UNKNOWN_COMMITS

MUTANTS: tuple[Mutant, ...] = (
    (rule, "served.offset IS NULL OR (made.once AND", "(made.once AND"),
    (rule, " AND before.served.done_ns < asked_ns", ""),
    (rule, 'F.col("settled") & F.col("before.settled")', 'F.col("settled")'),
    (rule, "made.once AND ", ""),
    (rule, "made.done_ns < before.made.asked_ns", "made.asked_ns < before.made.asked_ns"),
    (rule, 'F.col("settled") & F.col("before.settled")', 'F.col("before.settled")'),
)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """A commit that a coordinator showed, and after it an older one."""
    return [item for rows in registers(tables, manifest) for item, _ in _back(rows, tables)]


def told(found: Found) -> Counter[tuple[str, int, str, bool]]:
    """How many the judge gets, by (topic, partition, group, settled)."""
    counts: Counter[tuple[str, int, str, bool]] = Counter()
    for one in found.groups(LostCommits, KIND):
        counts[one.topic, one.partition, one.group, one.settled] += one.count
    return counts


def expected(tables: PlacedTables, manifest: Manifest) -> Counter[tuple[str, int, str, bool]]:
    """The same by the rule: whether both answers are settled."""
    return Counter(
        (rows[0]["topic"], rows[0]["partition"], rows[0]["group"], settled)
        for rows in registers(tables, manifest)
        for _, settled in _back(rows, tables)
    )


def _back(rows: list[Row], tables: PlacedTables) -> list[tuple[Item, bool]]:
    """Every commit that went back, and whether both answers are settled."""
    answers = sorted(
        counting_answers(rows, tables),
        key=lambda row: (row["asked_ns"], row["done_ns"], -1 if row["commit"] is None else row["commit"]),
    )
    items = []
    for before, after in pairwise(answers):
        shown = [row for row in writes(rows) if row["commit"] == before["commit"]]
        in_turn = before["done_ns"] < after["asked_ns"]
        if shown and in_turn and shows_older(after, shown[0], rows):
            item = (KIND, before["topic"], before["partition"], before["offset"], None)
            items.append((item, is_settled(before, tables) and is_settled(after, tables)))
    return items


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Commits without an outcome that were shown, and then the ones before them."""
    for number in range(n):
        group = f"g{number}"
        b.commit(1, 10, group=group).commit(2, 20, status="unknown", group=group)
        b.answer(2, 20, group=group).answer(1, 10, group=group).answer(1, 10, group=group)
    return {"commit-back": n}


def plant_before_all_was_settled(b: RecordBuilder, n: int) -> dict[str, int]:
    """One of the two answers comes before its coordinator has shown its HW: the first one, or the second one."""
    for number in range(n):
        group, at_ns = f"g{number}", 10 * (number % 2)
        b.commit(1, 10, group=group, asked_ns=at_ns, done_ns=at_ns + 1)
        b.commit(2, 20, group=group, asked_ns=at_ns + 2, done_ns=None, status="unknown")
        if number % 2:
            b.answer(2, 20, group=group, asked_ns=20, done_ns=21)
            b.answer(1, 10, group=group, asked_ns=31, done_ns=32, broker=2)
        else:
            b.answer(2, 20, group=group, asked_ns=4, done_ns=5)
            b.answer(1, 10, group=group, asked_ns=20, done_ns=21)
    return {"commit-back": n}
