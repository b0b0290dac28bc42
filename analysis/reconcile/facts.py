"""What is known of each partition before any record is looked at, found in one pass over the tables.

These facts are as many as partitions, leader elections and brokers, never as many as records, so they are
collected and given back to Spark as a small table to join with.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from analysis.reconcile.tables import RecordTables
from analysis.verdict import Counts
from harness.record.manifest import FinalOffsets, Manifest


class SendFacts(msgspec.Struct, frozen=True):
    """Sends of one status; `placed` of them have an offset."""

    topic: str
    partition: int
    status: str
    rows: int
    placed: int


class PollFacts(msgspec.Struct, frozen=True):
    """Polls of one partition, by the final consumer or by the others."""

    topic: str
    partition: int
    final: bool
    rows: int
    last_offset: int
    read_committed: bool


class ServedFacts(msgspec.Struct, frozen=True):
    """HW observations of one source and leader epoch; `at_ns` is when the highest was last seen."""

    topic: str
    partition: int
    source: str
    leader_epoch: int | None
    high_watermark: int
    at_ns: int
    rows: int
    asked: int


class CheckpointFacts(msgspec.Struct, frozen=True):
    """One replica's last checkpointed HW."""

    topic: str
    partition: int
    broker: int
    high_watermark: int


class EpochFacts(msgspec.Struct, frozen=True):
    """One leader epoch in the metadata log: when it began, and who led in its last record."""

    topic: str
    partition: int
    leader_epoch: int
    since_ns: int
    last_metadata_offset: int
    leader: int


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All of them, and what the manifest says of the end of the run."""

    rows: dict[str, int]
    missing: frozenset[str]
    sends: list[SendFacts]
    polls: list[PollFacts]
    served: list[ServedFacts]
    checkpoints: list[CheckpointFacts]
    epochs: list[EpochFacts]
    final_consumer: int | None
    final_offsets: dict[str, FinalOffsets]
    complete: bool
    idempotent: tuple[int, ...]
    transactional: bool

    @property
    def counts(self) -> Counts:
        """Rows of sends by status, and rows of polls."""
        by_status = {"acked": 0, "failed": 0, "unknown": 0}
        for one in self.sends:
            by_status[one.status] = by_status.get(one.status, 0) + one.rows
        return Counts(
            sends=self.rows["sends"],
            acked=by_status["acked"],
            failed=by_status["failed"],
            unknown=by_status["unknown"],
            polls=self.rows["polls"],
        )

    @property
    def final_read_committed(self) -> bool:
        """Whether the final read hid what was not committed."""
        return any(one.read_committed for one in self.polls if one.final)

    def without(self, *tables: str) -> str | None:
        """Which of the tables are missing or empty, as a sentence; None when all have rows."""
        lacking = [
            f"{table} is {'missing' if table in self.missing else 'empty'}" for table in tables if not self.rows[table]
        ]
        return " and ".join(lacking) or None


def collect_facts(tables: RecordTables, manifest: Manifest) -> Facts:
    """Run the one job that finds the facts of a record."""
    sections = _sections(tables, manifest)
    found: dict[str, list[Any]] = {name: [] for name in _SHAPES}
    if sections:
        union = sections[0]
        for section in sections[1:]:
            union = union.union(section)
        for row in union.collect():
            found[row[0]].append(msgspec.json.decode(row[1], type=_SHAPES[row[0]]))
    return Facts(
        rows=tables.rows,
        missing=frozenset(name for name in tables.rows if getattr(tables, name) is None),
        final_consumer=manifest.final_consumer,
        final_offsets=manifest.final_offsets,
        complete=manifest.status == "complete",
        idempotent=tuple(
            int(name) for name, producer in manifest.producers.items() if producer.idempotent and name.isdigit()
        ),
        transactional=any(producer.transactional for producer in manifest.producers.values()),
        **found,
    )


_SHAPES: dict[str, type[msgspec.Struct]] = {
    "sends": SendFacts,
    "polls": PollFacts,
    "served": ServedFacts,
    "checkpoints": CheckpointFacts,
    "epochs": EpochFacts,
}


def _sections(tables: RecordTables, manifest: Manifest) -> list[DataFrame]:
    """Each section aggregated, as rows of its name and a JSON object."""
    sections = []
    where = ["topic", "partition"]
    if tables.sends is not None and tables.rows["sends"]:
        sends = tables.sends.groupBy(*where, "status").agg(
            F.count("*").alias("rows"), F.count("offset").alias("placed")
        )
        sections.append(_section("sends", sends))
    if tables.polls is not None and tables.rows["polls"]:
        polls = tables.polls.groupBy(*where, is_final(manifest.final_consumer).alias("final")).agg(
            F.count("*").alias("rows"),
            F.max("offset").alias("last_offset"),
            F.max(F.col("isolation") == "read_committed").alias("read_committed"),
        )
        sections.append(_section("polls", polls))
    if tables.watermarks is not None and tables.rows["watermarks"]:
        served = tables.watermarks.groupBy(*where, "source", "leader_epoch").agg(
            F.max(F.struct("high_watermark", "at_ns")).alias("highest"),
            F.count("*").alias("rows"),
            F.count("asked_ns").alias("asked"),
        )
        sections.append(
            _section("served", served.select(*where, "source", "leader_epoch", "highest.*", "rows", "asked"))
        )
        # Two last rows at one time: the lower HW is the one that both agree on.
        checkpoints = (
            tables.watermarks.where("source = 'checkpoint'")
            .groupBy(*where, "broker")
            .agg(F.min(F.struct((-F.col("at_ns")).alias("age"), "high_watermark")).alias("last"))
        )
        sections.append(_section("checkpoints", checkpoints.select(*where, "broker", F.col("last.high_watermark"))))
    if tables.partitions is not None and tables.rows["partitions"]:
        epochs = tables.partitions.groupBy(*where, "leader_epoch").agg(
            F.min(F.struct("metadata_offset", "at_ns")).alias("first"),
            F.max(F.struct("metadata_offset", "leader")).alias("last"),
        )
        sections.append(
            _section(
                "epochs",
                epochs.select(
                    *where,
                    "leader_epoch",
                    F.col("first.at_ns").alias("since_ns"),
                    F.col("last.metadata_offset").alias("last_metadata_offset"),
                    F.col("last.leader"),
                ),
            )
        )
    return sections


def _section(name: str, rows: DataFrame) -> DataFrame:
    return rows.select(
        F.lit(name).alias("section"), F.to_json(F.struct(*rows.columns), {"ignoreNullFields": "false"}).alias("row")
    )


def is_final(final_consumer: int | None) -> Column:
    """Whether a row of polls is the final consumer's."""
    return F.lit(False) if final_consumer is None else F.col("consumer") == final_consumer


_PARTITION_FACTS = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("final_read", pa.bool_()),
        pa.field("log_start", pa.int64()),
        pa.field("final_hw", pa.int64()),
        pa.field("final_last", pa.int64()),
        pa.field("elections", pa.list_(pa.struct([("leader_epoch", pa.int32()), ("since_ns", pa.int64())]))),
        pa.field(
            "served",
            pa.list_(pa.struct([("leader_epoch", pa.int32()), ("high_watermark", pa.int64()), ("at_ns", pa.int64())])),
        ),
    ]
)


def partition_facts(spark: SparkSession, facts: Facts) -> DataFrame:
    """One row a partition, small enough to broadcast.

    `final_read`, `log_start`, `final_hw` and `final_last` (the last offset that it returned) are of the final
    read; `elections` holds when each leader epoch began, `served` the highest HW seen under each.
    """
    rows: dict[tuple[str, int], dict[str, Any]] = {}

    def of(topic: str, partition: int) -> dict[str, Any]:
        empty: dict[str, Any] = {"topic": topic, "partition": partition, "elections": [], "served": []}
        return rows.setdefault((topic, partition), empty)

    for name, ends in facts.final_offsets.items():
        topic, _, partition = name.rpartition("-")
        if topic and partition.isdigit():
            of(topic, int(partition)).update(
                final_read=facts.final_consumer is not None, log_start=ends.log_start, final_hw=ends.high_watermark
            )
    for poll in facts.polls:
        if poll.final:
            of(poll.topic, poll.partition)["final_last"] = poll.last_offset
    for epoch in facts.epochs:
        of(epoch.topic, epoch.partition)["elections"].append(
            {"leader_epoch": epoch.leader_epoch, "since_ns": epoch.since_ns}
        )
    for served in facts.served:
        of(served.topic, served.partition)["served"].append(
            {"leader_epoch": served.leader_epoch, "high_watermark": served.high_watermark, "at_ns": served.at_ns}
        )
    return spark.createDataFrame(pa.Table.from_pylist(list(rows.values()), schema=_PARTITION_FACTS))


def final_leaders(facts: Facts) -> dict[tuple[str, int], int]:
    """Who leads each partition in its last metadata record; partitions without a leader are left out."""
    last: dict[tuple[str, int], EpochFacts] = {}
    for epoch in facts.epochs:
        key = (epoch.topic, epoch.partition)
        if key not in last or last[key].last_metadata_offset < epoch.last_metadata_offset:
            last[key] = epoch
    return {key: epoch.leader for key, epoch in last.items() if epoch.leader >= 0}
