"""A value at very many offsets and an offset with very many values: found exactly, told in short, in linear work."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from anomaly_kinds.lost import committed_lost
from pyspark.sql import SparkSession
from reconcile_oracle import anomalies
from reconcile_oracle_tables import PlacedTables
from reconcile_together import record_of
from records import RecordBuilder, as_record

from analysis.reconcile.crowds import LISTED
from analysis.reconcile.model import LostRange, Reconciliation
from analysis.record.record import Record
from analysis.rows import summing
from bench.reconciling import reconcile
from ebbtide.record.tables import TABLES

pytestmark = pytest.mark.spark

CROWD = 100
AT = 1_000
"""The offset at which the crowd of values stood."""


def crowds() -> RecordBuilder:
    """A topic with one value at many offsets, and one with many values at one offset, over some elections.

    A control record stands there besides.
    """
    dice = random.Random(966)
    builder = RecordBuilder().producer(1, idempotent=True).empty(*TABLES)
    builder.on("places").acked(1, at=0).send(2, status="failed")
    for offset in range(CROWD):
        builder.final(1 + offset % 2, at=offset)
    builder.on("values", base=1_000)
    for epoch in range(0, 20, 4):
        builder.led_by(1, epoch=epoch, at_ns=epoch * 100)
        builder.served(AT + 1, epoch=epoch, asked_ns=epoch * 100 + 240, at_ns=epoch * 100 + 250)
    for value in range(CROWD):
        era = dice.randrange(0, 20, 4)
        told = dice.choice([era + 1, era + 2, era + 3, None])
        sent_ns = era * 100 + dice.randrange(400)
        if value % 3:
            builder.send(value, at=AT, acks=1, sent_ns=sent_ns, done_ns=sent_ns + dice.randrange(100))
        if value % 3 != 1:
            builder.read(value, at=AT, polled_ns=sent_ns + dice.randrange(500), leader_epoch=told)
    builder.final(CROWD, at=AT, polled_ns=9_000, leader_epoch=19).end(high_watermark=AT + 10)
    return builder.replica(1, None, at=AT, epoch=19, control=True)


def few_edge_and_many() -> RecordBuilder:
    """As many values at an offset as are listed, one more, and twice as many."""
    builder = RecordBuilder().on("few").acked(1, at=0).acked(2, at=0).final(3, at=0)
    builder.on("edge", base=500).led_by(1, epoch=0).replica(1, None, control=True)
    for value in range(LISTED + 1):
        builder.acked(value, at=0)
    builder.on("many", base=1_000)
    for value in range(2 * LISTED):
        builder.read(value, at=0)
    return builder.final(999)


def replicas_that_differ() -> RecordBuilder:
    """Twice as many records on one broker as are listed, and as many brokers."""
    builder = RecordBuilder().empty(*TABLES).on("records").checkpoint(1, 1).checkpoint(2, 1)
    builder.replica(2, LISTED)
    for value in range(2 * LISTED):
        builder.replica(1, value)
    builder.on("replicas")
    for broker in range(2 * LISTED):
        builder.checkpoint(broker, 1).replica(broker, 1 if broker == LISTED + 5 else 0)
    return builder


RECORDS = {make.__name__: record_of(make) for make in (crowds, few_edge_and_many, replicas_that_differ)}


def rows_of(record: Record) -> list[dict[str, Any]]:
    """The rows of anomalies/, with their details read."""
    rows = pq.read_table(record.folder / "anomalies").to_pylist()
    return [row | {"details": msgspec.json.decode(row["details"])} for row in rows]


def test_a_value_at_100_places_and_100_values_at_an_offset_are_judged_as_the_rules_say(
    found: Mapping[str, Reconciliation], made: Mapping[str, Record]
) -> None:
    assert_crowds_are_judged(found["crowds"], made["crowds"])


@pytest.mark.slow
def test_crowds_are_judged_the_same_if_all_rows_are_looked_at(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summing, "BLOCKS_MAX", -1)
    builder = crowds()
    record = as_record(builder.write(tmp_path / "run"), builder.manifest())
    assert_crowds_are_judged(reconcile(spark, record), record)


def assert_crowds_are_judged(found: Reconciliation, record: Record) -> None:
    builder, rows = crowds(), rows_of(record)
    items = [(row["kind"], row["topic"], row["partition"], row["offset"], row["value"]) for row in rows]
    assert sorted(items, key=repr) == anomalies(builder.tables, builder.manifest())
    details = {(row["kind"], row["value"]): row["details"] for row in rows}
    lost = {value: detail for (kind, value), detail in details.items() if kind == "lost"}
    committed = {value for value, detail in lost.items() if detail["committed"]}
    assert committed == committed_lost(PlacedTables.of(builder.tables), builder.manifest())
    assert sum(one.count for one in found.groups_of(LostRange) if one.committed) == len(committed)
    unread = {detail["passed_by_hw"] for detail in lost.values() if not detail["read_by_consumer"]}
    assert unread == {False, True}, "either comes about"
    of_values = details["inconsistent-offset", None]
    assert (of_values["values"], of_values["stood"]) == (list(range(1_000, 1_000 + LISTED)), CROWD + 1)
    duplicate, read = details["duplicate", 1], details["aborted-read", 2]
    assert [one["offset"] for one in duplicate["places"]] == list(range(0, 2 * LISTED, 2))
    assert (duplicate["stood"], duplicate["standing"]) == (CROWD // 2, CROWD // 2)
    assert [one["offset"] for one in read["places"]] == list(range(1, 2 * LISTED, 2))
    assert read["stood"] == CROWD // 2
    in_all = CROWD + 1
    assert {(len(one["others_at_offset"]), one["stood"]) for one in lost.values()} == {(LISTED, in_all)}
    told = [detail for (kind, _), detail in details.items() if kind == "vanished" and "replaced_by" in detail]
    assert told
    assert all(0 < len(one["replaced_by"]) <= LISTED and one["others_in_all"] == in_all for one in told)


def test_few_are_listed_whole_and_the_replacement_of_a_value_is_reported_though_it_is_not_listed(
    made: Mapping[str, Record],
) -> None:
    rows = rows_of(made["few_edge_and_many"])
    details = {(row["topic"], row["kind"], row["value"]): row["details"] for row in rows}
    assert details["few", "lost", 1]["others_at_offset"] == [2, 3]
    assert details["few", "inconsistent-offset", None] == {"values": [1, 2, 3]}
    assert "stood" not in details["few", "lost", 1]
    edge = details["edge", "lost", 500]
    assert (edge["others_at_offset"], edge["stood"]) == (list(range(501, 501 + LISTED)), LISTED + 1)
    first = details["many", "vanished", 1_000]
    assert [one["value"] for one in first["replaced_by"]] == list(range(1_001, 1_001 + LISTED))
    last = details["many", "vanished", 1_000 + 2 * LISTED - 1]
    assert [one["value"] for one in last["replaced_by"]] == [1_999]


def test_replicas_that_differ_are_shown_however_many_records_stood_there(made: Mapping[str, Record]) -> None:
    details = {row["topic"]: row["details"] for row in rows_of(made["replicas_that_differ"])}
    records, replicas = details["records"], details["replicas"]
    assert {one["broker"] for one in records["replicas"]} == {1, 2}
    assert (len(records["replicas"]), records["stood"]) == (LISTED, 2 * LISTED + 1)
    assert {one["value"] for one in replicas["replicas"]} == {0, 1}
    assert (len(replicas["replicas"]), replicas["stood"]) == (LISTED, 2 * LISTED)
