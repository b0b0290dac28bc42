"""What the two kinds of lost commits share: which answers of coordinators count, and of which commit.

A group's offset of one partition is a register: members write it (commits), its coordinator is asked
for it (answers). A commit carries its number as metadata, so an answer shows which commit it is.

An answer counts if, by the metadata log, the broker that gave it led the group's partition of
`__consumer_offsets` from the question to the answer. A deposed coordinator that does not know it yet
may rightly answer with an older commit.

When it cannot tell, for both kinds: where the metadata log of `__consumer_offsets` is missing, no
coordinator was asked, the clock was set back, the final read does not cover the partition (its topic
may have been deleted, and its offsets with it), or the brokers had a setting by which offsets may be
lost or expire. A record without the table says nothing of commits, and there is nothing to judge.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analysis.reconcile.facts import Facts
from analysis.reconcile.tables import RecordTables
from ebbtide.scenario.group_offsets import OFFSETS_TOPIC
from ebbtide.scenario.write import SCENARIO
from ebbtide.untrusted.files import UnreadableFile, read_text
from ebbtide.untrusted.values import decode_toml

REGISTER = ["run", "group", "topic", "partition"]
"""What one committed offset is of."""

_UNSAFE = ("offsets.retention.minutes", "offsets.commit.required.acks", "offsets.commit.timeout.ms")
"""Brokers' properties with which a coordinator may forget an offset, or ack one that is not committed."""

_COVERED = pa.schema([pa.field("run", pa.int32()), pa.field("topic", pa.string()), pa.field("partition", pa.int32())])
_TERMS = pa.schema(
    [
        pa.field("term_run", pa.int32()),
        pa.field("term_partition", pa.int32()),
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("since_ns", pa.int64()),
        pa.field("until_ns", pa.int64()),
    ]
)


def unsafe_property(record: Path) -> str | None:
    """Return a property of the run's brokers by which a committed offset may rightly be missing."""
    # An unreadable scenario is reported where the run is compared with it; here it sets nothing.
    with contextlib.suppress(UnreadableFile, ValueError, LookupError, TypeError):
        names = decode_toml(read_text(record / SCENARIO))["cluster"]["broker_properties"]
        return next((name for name in _UNSAFE if name in names), None)
    return None


def why_commits_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged; None also where nothing was committed."""
    if why := _why_none_judged(facts):
        return why
    if not facts.commits:
        return None
    named = {one.offsets_partition for one in facts.commits}
    lacking = named - {one.partition for one in facts.epochs if one.topic == OFFSETS_TOPIC}
    if lacking:
        return f"the metadata log has no {OFFSETS_TOPIC}-{min(lacking)}, so who coordinated is not known (partitions)"
    if not any(one.status == "served" for one in facts.commits):
        return "no coordinator was asked what its group has committed"
    uncovered = {f"{one.topic}-{one.partition}" for one in facts.commits} - facts.final_offsets.keys()
    if uncovered:
        return f"the final read does not cover {min(uncovered)}, so its topic may have been deleted"
    return None


def _why_none_judged(facts: Facts) -> str | None:
    if gap := next((one for one in facts.gaps if one.part == "commits"), None):
        return gap.why
    if not facts.commits:
        return None
    if facts.unsafe_property is not None:
        return f"the brokers were started with {facts.unsafe_property}, so that offsets may be missing without a loss"
    if facts.clock_went_back:
        return "the clock was set back, so the order of commits and answers is not known"
    return None


def judged_commits(spark: SparkSession, tables: RecordTables, runs: Sequence[Facts]) -> DataFrame | None:
    """Return the rows that can be judged, those of partitions that the final read covers; None if there are none."""
    covered = [
        {"run": facts.run, "topic": topic, "partition": partition}
        for facts in runs
        if _why_none_judged(facts) is None
        for topic, partition in {(one.topic, one.partition) for one in facts.commits}
        if f"{topic}-{partition}" in facts.final_offsets
    ]
    if tables.commits is None or not covered:
        return None
    places = spark.createDataFrame(pa.Table.from_pylist(covered, schema=_COVERED))
    return tables.commits.join(F.broadcast(places), ["run", "topic", "partition"], "left_semi")


def writes_of(commits: DataFrame) -> DataFrame:
    """Return the commits, one row each: `made` is what is known of it, as a struct.

    The struct has `acked`, `asked_ns`, `done_ns`, `commit` and `offset`. A commit that was acked was
    in the register from some time between the two on; any other at any time after `asked_ns`.
    """
    acked = (F.col("status") == "acked") & F.col("done_ns").isNotNull()
    return (
        commits.where("status <> 'served' AND commit IS NOT NULL")
        .groupBy(*REGISTER, "commit")
        .agg(
            F.bool_and(acked).alias("acked"),
            F.min("asked_ns").alias("asked_ns"),
            F.max("done_ns").alias("done_ns"),
            F.min("offset").alias("offset"),
        )
        .select(*REGISTER, "commit", F.struct("asked_ns", "done_ns", "acked", "commit", "offset").alias("made"))
    )


def answers_of(spark: SparkSession, commits: DataFrame, runs: Sequence[Facts]) -> DataFrame:
    """Return the answers that count: `asked_ns`, `done_ns`, and `served` as a struct; `made` is its commit.

    `made` is null where the answer shows no commit of this run.
    """
    terms = spark.createDataFrame(pa.Table.from_pylist(_terms(runs), schema=_TERMS))
    led = (
        (F.col("run") == F.col("term_run"))
        & (F.col("offsets_partition") == F.col("term_partition"))
        & (F.col("broker") == F.col("leader"))
        & (F.col("since_ns") <= F.col("asked_ns"))
        & (F.col("until_ns").isNull() | (F.col("done_ns") < F.col("until_ns")))
    )
    served = F.struct("asked_ns", "done_ns", "commit", "offset", "broker", "leader_epoch", "offsets_partition")
    answers = (
        commits.where("status = 'served' AND done_ns IS NOT NULL")
        .join(F.broadcast(terms), led)
        .select(*REGISTER, "commit", "asked_ns", "done_ns", served.alias("served"))
    )
    return answers.join(writes_of(commits), [*REGISTER, "commit"], "left")


def _terms(runs: Sequence[Facts]) -> list[dict[str, int | None]]:
    """Return when each leader epoch of each partition of `__consumer_offsets` began and ended."""
    rows: list[dict[str, int | None]] = []
    for facts in runs:
        mine = sorted(
            (one for one in facts.epochs if one.topic == OFFSETS_TOPIC),
            key=lambda one: (one.partition, one.last_metadata_offset),
        )
        for one, after in pairwise([*mine, None]):
            assert one is not None
            follows = after is not None and after.partition == one.partition
            rows.append(
                {
                    "term_run": facts.run,
                    "term_partition": one.partition,
                    "leader": one.leader,
                    "leader_epoch": one.leader_epoch,
                    "since_ns": one.since_ns,
                    "until_ns": after.since_ns if after is not None and follows else None,
                }
            )
    return rows
