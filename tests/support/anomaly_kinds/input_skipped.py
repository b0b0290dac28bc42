"""Inputs without a copy."""

from __future__ import annotations

from collections import defaultdict

from healthy_history import HEALTHY
from reconcile_cases import Cases, Mutant, Unknown
from reconcile_oracle_copies import (
    add_copy,
    can_judge,
    copied,
    copy,
    copying,
    input_of,
    inputs,
    is_visible,
    may_be_hidden,
    show,
)
from reconcile_oracle_run import is_final
from reconcile_oracle_tables import Item, PlacedTables
from records import RecordBuilder

from analysis.judge.rules.groups import input_skipped as rule
from analysis.reconcile import copies
from ebbtide.record.manifest import Manifest

KIND = "input-skipped"

CASES: Cases = {
    copying: {
        "an offset was committed beyond an input that nobody copied": (
            lambda b: copy(inputs(b, 1, 2), 12, of=1).answer(None, 2, group="copiers"),
            {"input-skipped": [(0, 1)]},
        ),
        "an input whose only copy is aborted is skipped": (
            lambda b: copy(inputs(b, 1), 11, of=0, outcome="aborted").answer(None, 1, group="copiers"),
            {"input-skipped": [(0, 1)]},
        ),
        "an offset that a coordinator showed once counts, also if it went back": (
            lambda b: (
                copy(inputs(b, 1), 11, of=0, outcome="aborted")
                .answer(None, 1, group="copiers")
                .answer(None, 0, group="copiers")
            ),
            {"input-skipped": [(0, 1)]},
        ),
        "an input whose copy in doubt a read_committed session passed over is skipped": (
            lambda b: passed_over(copy(inputs(b, 1, 2, 3), 12, of=1, outcome="unknown")),
            {"input-skipped": [(1, 2)]},
        ),
        "a copy in doubt was not passed over where the session got another record, which was cut since": (
            lambda b: passed_over(
                copy(inputs(b, 1, 2, 3), 12, of=1, outcome="unknown").read(
                    98, at=12, partition=1, isolation="read_committed", session=11
                )
            ),
            {"inconsistent-offset": [(12, None)], "vanished": [(12, 98)]},
        ),
        "an input at the committed offset is not due yet": (
            lambda b: copy(inputs(b, 1, 2), 11, of=0).answer(None, 1, group="copiers"),
            {},
        ),
        "an input of an aborted transaction may be skipped": (
            lambda b: (
                copy(b.send(1, at=0, txn=3, txn_outcome="aborted").final(1, at=0), 12, of=1)
                .acked(2, at=1)
                .final(2, at=1)
                .answer(None, 2, group="copiers")
            ),
            {},
        ),
    },
}


def passed_over(b: RecordBuilder) -> RecordBuilder:
    """A read_committed session gets the copies at 11 and 13, which are committed, and not the one between them."""
    for value in (11, 13):
        copy(b, value, of=value - 11).read(value, at=value, partition=1, isolation="read_committed", session=11)
    return b.answer(None, 3, group="copiers")


def answered() -> RecordBuilder:
    """A run in which the group committed both inputs, of which it copied one."""
    return copied().answer(None, 2, group="copiers")


def _interrupted() -> RecordBuilder:
    builder = answered()
    builder.status = "interrupted"
    return builder


UNKNOWN: Unknown = {
    "nobody asked": (copied, "no coordinator was asked what the group copiers has committed for t-0"),
    "interrupted": (_interrupted, "the run is not complete: a copy may have no row"),
    "compacted": (lambda: answered().compacted(), "records of t may be deleted, or compacted"),
    "deleted": (
        lambda: answered().end(partition=1, log_start=3, high_watermark=13),
        "records of t may be deleted, or compacted",
    ),
    "not read": (lambda: answered().not_in_final_read(), "the final read does not cover t-0"),
}


MUTANTS: tuple[Mutant, ...] = (
    (rule, "offset < committed", "offset <= committed"),
    (rule, 'F.max("offset")', 'F.min("offset")'),
    (rule, 'where("may_be_visible")', 'where("visible")'),
    (copies, "OR NOT passed", "OR TRUE"),
    (copies, "NOT final AND isolation", "final AND isolation"),
    (copies, "offset < one.last", "TRUE"),
    (rule, "NOT txn_outcome <=> 'committed'", "txn_outcome = 'unknown'"),
    (rule, "NOT txn_outcome <=> 'committed'", "txn_outcome = 'aborted'"),
    (rule, 'where("final AND counts AND value IS NOT NULL")', 'where("value IS NOT NULL")'),
    (rule, "facts.complete and facts.final_consumer", "facts.final_consumer"),
    (rule, "if _why_not_judged(facts, one)}", "if False}"),
)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """An input below what its group committed, without a visible copy."""
    if manifest.status != "complete" or manifest.final_consumer is None:
        return []
    items: list[Item] = []
    for place in {input_of(row) for row in tables["copies"]}:
        copies = [row for row in tables["copies"] if input_of(row) == place]
        served = [row["offset"] for row in tables["commits"] if row["status"] == "served" and input_of(row) == place]
        if not served or not all(can_judge(row, tables, manifest) for row in copies):
            continue
        with_copy = {row["offset"] for row in copies if is_visible(row["value"], tables, manifest, certainly=False)}
        end = max((offset for offset in served if offset is not None), default=0)
        found: dict[int, list[int]] = defaultdict(list)
        for row in tables["polls"]:
            is_input = is_final(row, manifest) and (row["topic"], row["partition"]) == place[1:]
            if is_input and row["value"] is not None and not may_be_hidden(row["value"], tables):
                found[row["offset"]].append(row["value"])
        for offset, values in found.items():
            if offset < end and offset not in with_copy:
                items.append((KIND, place[1], place[2], offset, min(values)))
    return items


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Inputs without a copy, with one that is aborted, and with one that is in no log; then some that are copied."""
    # A read_committed consumer reads the partitions from their first records on.
    b.acked(199, at=199, partition=9).acked(397, at=397, partition=3)
    show(b, 199)
    show(b, 397, partition=3)
    add_copy(b, 303, of=397, partition=3)
    for number in range(n):
        if number % 3:
            outcome = "aborted" if number % 3 == 1 else "committed"
            b.copy(200 + number, of=number)
            b.send(200 + number, at=None, status="unknown", partition=9, txn=1, txn_outcome=outcome)
        if number % 3 == 1:
            b.final(200 + number, at=200 + number, partition=9)
    add_copy(b, 300, of=n, outcome="unknown")
    b.final(300, at=300, partition=9)
    add_copy(b, 301, of=n + 1)
    show(b, 301)
    for value, outcome in ((399, "unknown"), (400, "aborted")):
        b.send(value, at=value, partition=3, txn=2, txn_outcome=outcome).final(value, at=value, partition=3)
    add_copy(b, 302, of=401, partition=3)
    b.acked(401, at=401, partition=3)
    show(b, 401, partition=3)
    show(b, 302, 303)
    show(b, 0, HEALTHY - 1, partition=0)
    b.answer(None, n + 2, group="copiers").answer(None, 1, group="copiers")
    b.answer(None, 402, group="copiers", partition=3)
    # A record that is in the final log no more is no input.
    b.read(398, at=398, consumer=5, partition=3)
    return {"input-skipped": n, "vanished": 1}
