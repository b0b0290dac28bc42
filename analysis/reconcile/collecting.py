"""Collects the facts of some runs in one job.

They come from blocks of the runs' sends and polls, and from their small tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from analysis.reconcile.blocks import PARTITION
from analysis.reconcile.checks import flaw_number, misfit_error, refuse_count, refuse_flaw
from analysis.reconcile.clock import has_gone_back
from analysis.reconcile.commits import unsafe_property
from analysis.reconcile.copy_facts import CopyFacts
from analysis.reconcile.damaged_logs import damaged_logs, unread_replicas
from analysis.reconcile.facts import (
    CheckpointFacts,
    CommitFacts,
    EpochFacts,
    Facts,
    PollFacts,
    SendFacts,
    ServedFacts,
)
from analysis.reconcile.policies import PolicyFacts, compacted_topics, default_policy
from analysis.reconcile.tables import RecordTables, RunFiles
from ebbtide.logs.segments import TopicPartition

_SHAPES: dict[str, type[msgspec.Struct]] = {
    "sends": SendFacts,
    "polls": PollFacts,
    "served": ServedFacts,
    "checkpoints": CheckpointFacts,
    "epochs": EpochFacts,
    "policies": PolicyFacts,
    "commits": CommitFacts,
    "copies": CopyFacts,
}
_TABLES = {
    "sends": "sends",
    "polls": "polls",
    "served": "watermarks",
    "checkpoints": "watermarks",
    "epochs": "partitions",
    "policies": "configs",
    "commits": "commits",
    "copies": "copies",
}
_COUNTED = ("sends", "polls", "served", "commits", "copies")
"""Sections that count every row of their table."""


def collect_facts(
    tables: RecordTables, sends: DataFrame | None, polls: DataFrame | None, runs: Sequence[RunFiles]
) -> list[Facts]:
    """Return the facts of each run, in their order.

    `sends` and `polls` are `blocks.send_blocks` and `blocks.poll_blocks`. Raises `UsageError` for
    values that the record format does not have, and for rows that were not read.
    """
    sections = []
    if sends is not None:
        sections.append(_sends(sends))
    if polls is not None:
        sections.append(_polls(polls))
    if tables.watermarks is not None:
        sections += [_served_hws(tables.watermarks, flaw_number(tables, "watermarks")), _checkpoints(tables.watermarks)]
    if tables.partitions is not None:
        sections.append(_epochs(tables.partitions, flaw_number(tables, "partitions")))
    if tables.configs is not None:
        sections.append(_policies(tables.configs))
    if tables.commits is not None:
        sections.append(_commits(tables.commits, flaw_number(tables, "commits")))
    if tables.copies is not None:
        sections.append(_copies(tables.copies, flaw_number(tables, "copies")))
    found: list[dict[str, list[Any]]] = [{name: [] for name in _SHAPES} for _ in runs]
    if sections:
        for section, run, row in reduce(DataFrame.union, sections).collect():
            values, table = msgspec.json.decode(row), _TABLES[section]
            refuse_flaw(tables, table, run, runs[run], values)
            try:
                found[run][section].append(msgspec.convert(values, _SHAPES[section]))
            except msgspec.ValidationError as error:
                raise misfit_error(runs[run], table, error) from None
    for number, record in enumerate(runs):
        for section in _COUNTED:
            refuse_count(record, _TABLES[section], sum(one.rows for one in found[number][section]))
    return [facts_of(number, record, found[number]) for number, record in enumerate(runs)]


def facts_of(number: int, run: RunFiles, found: dict[str, list[Any]]) -> Facts:
    """Return the facts of one run from the rows `found` of each section."""
    manifest = run.record.manifest
    named = {
        f"{one.topic}-{one.partition}" for one in (*found["sends"], *found["polls"])
    } | manifest.final_offsets.keys()
    policies, by_default = found.pop("policies"), default_policy(run.record)
    used = {TopicPartition.parse(name).topic for name in named}
    logged = used | {one.topic for one in found["checkpoints"]}
    with_holes = {one.topic for one in compacted_topics(logged, policies, by_default)}
    return Facts(
        run=number,
        rows=run.rows,
        missing=run.missing,
        final_consumer=manifest.final_consumer,
        final_offsets=manifest.final_offsets,
        final_transactions=manifest.final_transactions,
        complete=manifest.status == "complete",
        idempotent=tuple(int(name) for name, producer in manifest.producers.items() if producer.idempotent),
        transactional=any(producer.transactional for producer in manifest.producers.values()),
        clock_went_back=has_gone_back(run.files["watermarks"]),
        gaps=run.record.gaps,
        damaged_logs=damaged_logs(run.record, found["checkpoints"], with_holes),
        deletions=run.deletions,
        unread_replicas=unread_replicas(run.record),
        compacted=compacted_topics(used, policies, by_default),
        unsafe_property=unsafe_property(run.record),
        **found,
    )


def _sends(blocks: DataFrame) -> DataFrame:
    rows = blocks.groupBy(*PARTITION, "status").agg(
        F.sum("all.rows").alias("rows"),
        *(F.sum(name).alias(name) for name in ("placed", "aborted", "in_txn")),
        F.coalesce(F.sum(F.when(F.col("block").isNull(), F.col("answered"))), F.lit(0)).alias("unplaced"),
        F.min("first").alias("first_offset"),
        F.coalesce(F.sum("unsure"), F.lit(0)).alias("unsure"),
        F.max("flaw").alias("flaw"),
    )
    return _section("sends", rows)


def _polls(blocks: DataFrame) -> DataFrame:
    rows = blocks.groupBy(*PARTITION, "final", "read_committed").agg(
        F.sum("all.rows").alias("rows"),
        F.min("first").alias("first_offset"),
        F.max("last").alias("last_offset"),
        *(F.sum(name).alias(name) for name in ("damaged", "back", "jumped", "chained")),
        F.max("flaw").alias("flaw"),
    )
    return _section("polls", rows)


def _served_hws(watermarks: DataFrame, flaw: Column) -> DataFrame:
    group = [*PARTITION, "source", "leader_epoch"]
    as_high = Window.partitionBy(*group).orderBy(F.desc("high_watermark"), F.desc("at_ns"))
    last_ns = F.max("at_ns").over(as_high.rowsBetween(Window.unboundedPreceding, -1))
    is_peak = last_ns.isNull() | (F.col("at_ns") > last_ns)
    rows = watermarks.withColumn("peak", F.when(is_peak, F.struct("high_watermark", "at_ns")))
    return _section(
        "served",
        rows.groupBy(*group).agg(
            F.collect_list("peak").alias("peaks"),
            F.count("*").alias("rows"),
            F.count("asked_ns").alias("asked"),
            flaw,
        ),
    )


def _checkpoints(watermarks: DataFrame) -> DataFrame:
    """Return the last checkpoint of each replica.

    Of two last rows at one time, the lower HW counts: both agree on it.
    """
    rows = (
        watermarks.where("source = 'checkpoint'")
        .groupBy(*PARTITION, "broker")
        .agg(F.min(F.struct((-F.col("at_ns")).alias("age"), "high_watermark")).alias("last"))
    )
    return _section("checkpoints", rows.select(*PARTITION, "broker", F.col("last.high_watermark")))


def _epochs(partitions: DataFrame, flaw: Column) -> DataFrame:
    rows = partitions.groupBy(*PARTITION, "leader_epoch").agg(
        F.min(F.struct("metadata_offset", "at_ns")).alias("first"),
        F.max(F.struct("metadata_offset", "leader")).alias("last"),
        flaw,
    )
    return _section(
        "epochs",
        rows.select(
            *PARTITION,
            "leader_epoch",
            F.col("first.at_ns").alias("since_ns"),
            F.col("last.metadata_offset").alias("last_metadata_offset"),
            F.col("last.leader"),
            "flaw",
        ),
    )


def _policies(configs: DataFrame) -> DataFrame:
    """Return the cleanup policies.

    A broker's default has another name than a topic's own policy.
    """
    rows = configs.where(F.col("name").isin("cleanup.policy", "log.cleanup.policy"))
    return _section("policies", rows.select("run", "resource", "value").distinct())


def _commits(commits: DataFrame, flaw: Column) -> DataFrame:
    shows_foreign_commit = F.col("commit").isNull() & F.col("offset").isNotNull()
    rows = commits.groupBy(*PARTITION, "group", "offsets_partition", "status", "broker").agg(
        F.count("*").alias("rows"),
        F.max(F.when(~shows_foreign_commit, F.col("asked_ns"))).alias("last_asked_ns"),
        F.max("done_ns").alias("last_done_ns"),
        flaw,
    )
    return _section("commits", rows)


def _copies(copies: DataFrame, flaw: Column) -> DataFrame:
    rows = copies.groupBy(*PARTITION, "group", "copied_to").agg(F.count("*").alias("rows"), flaw)
    return _section("copies", rows)


def _section(name: str, rows: DataFrame) -> DataFrame:
    columns = [column for column in rows.columns if column != "run"]
    row = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    return rows.select(F.lit(name).alias("section"), "run", row.alias("row"))
