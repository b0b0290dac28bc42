"""Commits that are gone."""

from __future__ import annotations

from reconcile_cases import Cases, Mutant, Unknown
from reconcile_oracle_commits import (
    UNKNOWN_COMMITS,
    beside_a_record,
    coordinated,
    counting_answers,
    is_acked,
    is_settled,
    registers,
    shows_older,
    writes,
)
from reconcile_oracle_tables import Item, PlacedTables, Row
from records import RecordBuilder

from analysis.judge.rules.groups import commit_lost as rule
from ebbtide.record.manifest import Manifest

KIND = "commit-lost"

CASES: Cases = {
    coordinated: beside_a_record(
        {
            "a group that has nothing any more lost its newest commit": (
                lambda b: b.commit(1, 10).commit(2, 20).answer(None, None),
                {"commit-lost": [(20, None)]},
            ),
            "a group that has an older commit lost the newer one": (
                lambda b: b.commit(1, 10).commit(2, 20).answer(1, 10).answer(1, 10),
                {"commit-lost": [(20, None)]},
            ),
            "a member that sets its group back loses nothing": (
                lambda b: b.commit(1, 20).commit(2, 10).answer(2, 10),
                {},
            ),
            "a set back that was lost gives back a higher offset": (
                lambda b: b.commit(1, 20).commit(2, 10).answer(1, 20),
                {"commit-lost": [(10, None)]},
            ),
            "what was served and is served no more went back": (
                lambda b: b.commit(1, 10).answer(1, 10).answer(None, None),
                {"commit-lost": [(10, None)], "commit-back": [(10, None)]},
            ),
            "a commit without an outcome explains an offset, however late": (
                lambda b: b.commit(1, 10, status="unknown", done_ns=None).commit(2, 20).answer(2, 20).answer(1, 10),
                {},
            ),
            "a commit that was still under way explains an offset": (
                lambda b: b.commit(1, 10, asked_ns=1, done_ns=50).commit(2, 20, asked_ns=40, done_ns=45).answer(1, 10),
                {},
            ),
            "a commit that was sent again by its client may be stored once more, however late": (
                lambda b: (
                    b.commit(1, 10, asked_ns=1, done_ns=60_000_001)
                    .commit(2, 20, asked_ns=60_000_002, done_ns=60_000_003)
                    .answer(1, 10, broker=3, asked_ns=60_000_004, done_ns=60_000_005)
                ),
                {},
            ),
            "a commit of nobody that is known is no evidence": (
                lambda b: b.commit(1, 10).commit(2, 20).answer(None, 10).answer(99, 5),
                {},
            ),
            "a commit that comes back was not lost": (
                lambda b: b.commit(1, 10).commit(2, 20).answer(1, 10).answer(2, 20),
                {},
            ),
            "a commit that was replaced before anybody asked was lost to nobody": (
                lambda b: b.commit(1, 10).commit(2, 20).commit(3, 30).answer(3, 30),
                {},
            ),
            "what a broker says that does not lead is no evidence": (
                lambda b: b.commit(1, 10).commit(2, 20).answer(1, 10, broker=2),
                {},
            ),
            "a coordinator that had answered one question for its HW may have told an old one": (
                lambda b: b.commit(1, 10).commit(2, 20).answer(1, 10, broker=3, asked_ns=50_004, done_ns=50_005),
                {},
            ),
            "a coordinator that had answered two questions for its HW is settled": (
                lambda b: b.commit(1, 10).commit(2, 20).answer(1, 10, broker=3, asked_ns=50_007, done_ns=50_008),
                {"commit-lost": [(20, None)]},
            ),
            "a question that was asked before the ack is no evidence": (
                lambda b: b.commit(1, 10, asked_ns=1, done_ns=50).answer(None, None, asked_ns=50, done_ns=60),
                {},
            ),
            "groups and partitions are apart": (
                lambda b: (
                    b.commit(1, 10)
                    .answer(None, None, group="h")
                    .acked(2, at=0, partition=1)
                    .final(2, at=0, partition=1)
                    .answer(None, None, partition=1)
                ),
                {},
            ),
        }
    ),
}


UNKNOWN: Unknown = UNKNOWN_COMMITS

MUTANTS: tuple[Mutant, ...] = (
    (rule, "served.offset IS NULL OR (made.once AND made.done_ns < newest.asked_ns)", "served.offset IS NULL"),
    (rule, "made.done_ns < newest.asked_ns", "made.asked_ns < newest.asked_ns"),
    (rule, "made.once AND ", ""),
    (rule, "made.once AND ", "made.acked AND "),
    (rule, "shown_ns IS NULL OR shown_ns <= done_ns", "true"),
    (rule, "shown_ns IS NULL OR shown_ns <= done_ns", "shown_ns IS NULL"),
    (rule, '.where("made.acked")', ""),
    (rule, 'F.col("made.done_ns").alias("time")', 'F.col("made.asked_ns").alias("time")'),
    (rule, 'F.max("made_then")', 'F.min("made_then")'),
    (rule, "settled AND ", ""),
)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """A commit that was acked, and that a coordinator lacked later."""
    return [item for rows in registers(tables, manifest) for item in _lost(rows, tables)]


def _lost(rows: list[Row], tables: PlacedTables) -> list[Item]:
    lost = {}
    for answer in counting_answers(rows, tables):
        if not is_settled(answer, tables):
            continue
        promised = [row for row in writes(rows) if is_acked(row) and row["done_ns"] < answer["asked_ns"]]
        if not promised:
            continue
        newest = max(promised, key=lambda row: (row["asked_ns"], row["done_ns"], row["commit"]))
        shown_again = any(
            row["status"] == "served" and row["commit"] == newest["commit"] and row["asked_ns"] > answer["done_ns"]
            for row in rows
        )
        if shows_older(answer, newest, rows) and not shown_again:
            lost[newest["commit"]] = newest
    return [(KIND, row["topic"], row["partition"], row["offset"], None) for row in lost.values()]


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Commits that a coordinator shows no more; every second one shows an older one first."""
    for number in range(n):
        group = f"g{number}"
        b.commit(1, 10, group=group).answer(1, 10, group=group)
        b.commit(2, 20, group=group).answer(*((1, 10) if number % 2 else (None, None)), group=group)
        b.commit(3, 30, group=group).answer(3, 30, group=group)
    return {"commit-lost": n, "commit-back": (n + 1) // 2}
