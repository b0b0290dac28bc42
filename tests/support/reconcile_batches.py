"""Compares many histories in one call of the reconciliation with the rules.

The rules are in plain Python. It also finds the smallest history that differs. A call costs seconds whatever is in
it, so histories are topics of some runs. Each run has a topic `anchor` besides, by which what the rules ask of a
whole run (is there a transaction, a final read, a poll?) is the same whatever its other topics hold: a history
comes to the same items alone and among others.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from msgspec.structs import replace
from pyspark.sql import SparkSession
from reconcile_cases import Found
from reconcile_draws import Setup
from reconcile_histories import History, Row
from reconcile_oracle import anomalies, is_told, items_beside_tables, must_be_told
from reconcile_oracle_tables import Item
from reconcile_parts import FIRST_MEMBER, MEMBERS
from reconcile_planted import by_topic
from records import RecordBuilder, as_record

from analysis.reconcile.model import Reconciliation
from bench.reconciling import reconcile_all
from ebbtide.record.clients import ClientEvent
from ebbtide.scenario.internal_topics import OFFSETS_TOPIC

ANCHOR = "anchor"
_VALUES_OF_A_TOPIC = 1_000
_REDUCING_S_MAX = 90.0
_CANDIDATES_MAX = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One reconciled history; `wrong` says how it differs from the rules, or is None."""

    kinds: frozenset[str]
    wrong: str | None
    told: Mapping[str, Any] = field(default_factory=dict)
    """What is said of the items of some kinds."""


Compare = Callable[[Sequence[History]], list[Comparison]]


def compare(spark: SparkSession, folder: Path, histories: Sequence[History]) -> list[Comparison]:
    """Reconcile all in the same jobs; `folder` is for the records, and new."""
    by_setup: dict[Setup, list[int]] = defaultdict(list)
    for number, history in enumerate(histories):
        by_setup[history.setup].append(number)
    runs = {setup: _run(setup, [histories[number] for number in numbers]) for setup, numbers in by_setup.items()}
    records = [as_record(run.write(folder / str(number)), run.manifest()) for number, run in enumerate(runs.values())]
    compared: dict[int, Comparison] = {}
    for (setup, run), record, found in zip(runs.items(), records, reconcile_all(spark, records), strict=True):
        stored = _by_topic(pq.read_table(record.folder / "anomalies").to_pylist())
        tables = {table: _by_topic(rows) for table, rows in run.tables.items()}
        assert stored[ANCHOR] == [], "what agrees in everything has no anomaly"
        beside = items_beside_tables(run)
        for place, number in enumerate(by_setup[setup]):
            of_topic = {
                table: [*rows[ANCHOR], *rows[OFFSETS_TOPIC], *rows[f"h{place}"]] for table, rows in tables.items()
            }
            compared[number] = _compare_run(
                run, of_topic, beside, stored[f"h{place}"], found, histories[number], f"h{place}"
            )
    return [compared[number] for number in range(len(histories))]


def reduce_history(history: History, wrong: str, compare: Compare) -> tuple[History, str]:
    """Return the history without rows that it can lose and still differ.

    Also returns how it differs then. Halves, quarters and so on down to single rows are left out side by side, in one
    call; what may go alone may not all go together, so a second call asks for that. `wrong` is in what it differed
    among others. After a minute and a half it is left as it is.
    """
    (alone,) = compare([history])
    if alone.wrong is None:
        return history, f"{wrong}\nAlone it does not differ, only among the other histories of the run."
    wrong = alone.wrong
    began = time.monotonic()
    while history.rows and time.monotonic() - began < _REDUCING_S_MAX:
        cuts = _cuts(len(history.rows))
        told = compare([history.without_rows(cut) for cut in cuts])
        may_go = [cut for cut, one in zip(cuts, told, strict=True) if one.wrong is not None]
        if not may_go:
            break
        together = list(dict.fromkeys(frozenset().union(*may_go[:count]) for count in range(1, len(may_go) + 1)))
        told = compare([history.without_rows(cut) for cut in together])
        differing = [(cut, one.wrong) for cut, one in zip(together, told, strict=True) if one.wrong is not None]
        if not differing:
            # What differed in the call before did so only beside the other histories of that call.
            break
        most, wrong = max(differing, key=lambda differs: len(differs[0]))
        history = history.without_rows(most)
    return history, wrong


def _cuts(rows: int) -> list[frozenset[int]]:
    """Which rows to leave out, largest parts first."""
    cuts, size = [], max(rows // 2, 1)
    while size >= 1:
        cuts += [frozenset(range(first, min(first + size, rows))) for first in range(0, rows, size)]
        size //= 2
    # Of a long history the single rows come in later rounds, when it is shorter.
    return [cut for cut in dict.fromkeys(cuts) if cut][:_CANDIDATES_MAX]


def _run(setup: Setup, histories: Sequence[History]) -> RecordBuilder:
    """A run with each history as a topic, `h0` and so on."""
    run = setup.empty_run()
    run.on(ANCHOR).acked(1, 2, at=0).read(1, 2, at=0, leader_epoch=0)
    if setup.transactions:
        run.send(3, at=2, txn=1, txn_outcome="committed").read(3, at=2, leader_epoch=0)
    run.final(*range(1, 4 if setup.transactions else 3), leader_epoch=0, isolation=setup.final_isolation)
    for number, history in enumerate(histories):
        topic = f"h{number}"
        for table, row in history.rows:
            run.tables[table].append(_rename_topic(row, topic, (number + 1) * _VALUES_OF_A_TOPIC, number * MEMBERS))
        run.ends |= {f"{topic}{name.removeprefix('t')}": end for name, end in history.ends.items()}
        run.unread |= {f"{topic}{name.removeprefix('t')}" for name in history.unread}
        for member, events in history.events.items():
            run.groups[member + number * MEMBERS] = f"{history.groups[member]} of {topic}"
            run.events[member + number * MEMBERS] = [_rename_event(event, topic) for event in events]
    return run


def _rename_event(event: ClientEvent, topic: str) -> ClientEvent:
    partitions = tuple(f"{topic}{name.removeprefix('t')}" for name in event.partitions)
    return replace(event, partitions=partitions, topic=None if event.topic is None else topic)


def _rename_topic(row: Row, topic: str, base: int, members: int) -> Row:
    if "resource" in row:
        return {**row, "resource": f"topic:{topic}"}
    if "copied_to" in row:
        row = {**row, "copied_to": topic}
    if row.get("session") is not None and row["consumer"] in range(FIRST_MEMBER, FIRST_MEMBER + MEMBERS):
        row = {**row, "consumer": row["consumer"] + members}
    if row.get("value") is None:
        return {**row, "topic": topic}
    return {**row, "topic": topic, "value": row["value"] + base}


def _by_topic(rows: Sequence[Row]) -> defaultdict[str, list[Row]]:
    topics: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        topics[row["resource"].removeprefix("topic:") if "resource" in row else row["topic"]].append(row)
    return topics


def _compare_run(
    run: RecordBuilder,
    tables: dict[str, list[Row]],
    beside: list[Item],
    stored: list[Row],
    found: Reconciliation,
    history: History,
    topic: str,
) -> Comparison:
    manifest = run.manifest()
    items = [(row["kind"], row["topic"], row["partition"], row["offset"], row["value"]) for row in stored]
    expected = sorted((item for item in [*anomalies(tables, manifest), *beside] if item[1] == topic), key=repr)
    kinds = Counter(row["kind"] for row in stored)
    told, expected_of = is_told(Found(stored, found, topic)), must_be_told(tables, manifest)
    wrong = None
    if sorted(items, key=repr) != expected:
        wrong = f"only Spark finds: {_more(items, expected)}\nonly plain Python finds: {_more(expected, items)}"
    elif history.planted is not None and (seen := by_topic(found).get(topic, {})) != history.planted:
        wrong = f"planted: {history.planted}, found: {seen}"
    elif kind := next((kind for kind in told if told[kind] != expected_of[kind]), None):
        wrong = f"what is said of {kind}: {told[kind]}, not {expected_of[kind]}"
    return Comparison(kinds=frozenset(kinds), wrong=wrong, told=told)


def _more(items: Sequence[Item], others: Sequence[Item]) -> list[str]:
    more = sorted((Counter(items) - Counter(others)).elements(), key=repr)
    return [
        f"{kind} at {partition}:{offset}" + ("" if value is None else f" of value {value % _VALUES_OF_A_TOPIC}")
        for kind, _, partition, offset, value in more
    ]
