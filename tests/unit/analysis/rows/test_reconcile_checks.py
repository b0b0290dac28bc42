"""Values that no footer vouches for are refused by name, and topics that brokers compact by default are not judged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from records import RecordBuilder, as_record

from analysis.record.scans import Rows, Scan
from analysis.rows.policies import PolicyFacts, compacted_topics, default_policy
from bench.reconciling import reconcile
from ebbtide.errors import UsageError
from ebbtide.record.tables import TABLES


def whole_record() -> RecordBuilder:
    return RecordBuilder().acked(1, 2, at=0).read(1, at=0).final(1, 2).served(1).led_by(1, epoch=0)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("table", "column", "value", "allowed"),
    [
        ("sends", "topic", None, "string, never null"),
        ("sends", "partition", None, "int32, never null"),
        ("sends", "status", None, "string, never null"),
        ("sends", "value", None, "int64, never null"),
        ("sends", "status", "ACKED", "acked, failed, unknown"),
        ("sends", "txn_outcome", "COMMITTED", "committed, aborted, unknown"),
        ("sends", "offset", -5, "0 to 2^63 - 1"),
        ("polls", "offset", None, "int64, never null"),
        ("polls", "offset", -1, "0 to 2^63 - 1"),
        ("polls", "consumer", None, "int32, never null"),
        ("polls", "isolation", "READ_COMMITTED", "read_committed, read_uncommitted"),
        ("watermarks", "source", "ListOffsets", "list_offsets, fetch, checkpoint"),
        ("watermarks", "high_watermark", None, "int64, never null"),
        ("partitions", "topic", None, "string, never null"),
    ],
)
def test_a_value_that_the_format_does_not_have_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, table: str, column: str, value: object, allowed: str
) -> None:
    builder = whole_record()
    record = builder.write(tmp_path / "run")
    rows = builder.tables[table]
    loose = pa.schema([field.with_nullable(True) for field in TABLES[table]])
    changed = pa.Table.from_pylist([{**rows[0], column: value}, *rows[1:]], schema=loose)
    pq.write_table(changed, record / table / "part-0.parquet", write_statistics=False)
    with pytest.raises(UsageError) as caught:
        reconcile(spark, as_record(record, builder.manifest()))
    assert caught.value.where == f"{record}: table {table}, column {column}"
    assert caught.value.got == ("null" if value is None else repr(value))
    assert caught.value.allowed == allowed


class Topics(Scan[int]):
    """Counts the rows, and decodes no text."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = dict.fromkeys(("sends", "polls", "watermarks"), ("topic",))
    rows = 0

    def add(self, rows: Rows) -> None:
        self.rows += rows.count

    def result(self) -> int:
        return self.rows


@pytest.mark.parametrize("table", [*Topics.columns])
@pytest.mark.parametrize("is_dictionary", [True, False])
def test_a_text_that_is_not_utf8_is_refused_before_a_scan_gets_its_rows(
    tmp_path: Path, table: str, *, is_dictionary: bool
) -> None:
    builder = whole_record()
    path = builder.write(tmp_path / "run") / table / "part-0.parquet"
    record = as_record(tmp_path / "run", builder.manifest())
    rows = pq.read_table(path)
    bad = pa.array([b"t\x80"] * len(rows), pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(bad), bad.buffers())
    pq.write_table(
        rows.set_column(rows.schema.get_field_index("topic"), "topic", text), path, use_dictionary=is_dictionary
    )
    with pytest.raises(UsageError, match="UTF8") as caught:
        record.seen(Topics)
    assert caught.value.where == str(path)


@pytest.mark.spark
def test_a_whole_record_without_statistics_is_judged(spark: SparkSession, tmp_path: Path) -> None:
    builder = whole_record().send(3, at=-1, status="failed")
    record = builder.write(tmp_path / "run")
    for path in record.rglob("*.parquet"):
        pq.write_table(pq.read_table(path), path, write_statistics=False)
    assert reconcile(spark, as_record(record, builder.manifest())).anomalies == []


@pytest.mark.spark
def test_rows_that_were_not_read_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    """As of a file that it passes by for a reason that nobody has thought of."""
    builder = whole_record()
    record = as_record(builder.write(tmp_path / "run"), builder.manifest())
    (sends,) = record.checked["sends"]
    record.checked["sends"] = [msgspec.structs.replace(sends, rows=sends.rows + 1)]
    with pytest.raises(UsageError, match="not every row"):
        reconcile(spark, record)


def test_brokers_compact_by_default_what_has_no_policy_of_its_own() -> None:
    policies = [
        PolicyFacts("topic:own", "delete"),
        PolicyFacts("topic:taken-away", "delete"),
        PolicyFacts("topic:taken-away", None),
        PolicyFacts("topic:__consumer_offsets", "compact"),
    ]
    topics = {"own", "taken-away", "plain"}
    assert compacted_topics(topics, policies, "delete") == []
    assert compacted_topics(topics, policies, "compact,delete") == ["plain", "taken-away"]
    for resource in ("cluster", "broker:1"):
        by_default = [*policies, PolicyFacts(resource, "compact"), PolicyFacts(resource, None)]
        assert compacted_topics(topics, by_default, "delete") == ["plain", "taken-away"]
    assert compacted_topics(topics, [PolicyFacts("topic:own", "compact")], "delete") == ["own"]


def test_the_scenario_says_how_brokers_were_started(tmp_path: Path) -> None:
    assert default_policy(as_record(tmp_path)) == "delete"
    for text, policy in (
        ('[cluster.broker_properties]\n"log.cleanup.policy" = "compact"\n', "compact"),
        ("[cluster]\nbrokers = 3\n", "delete"),
        ("[cluster", "delete"),
    ):
        (tmp_path / "scenario.toml").write_text(text)
        assert default_policy(as_record(tmp_path)) == policy
