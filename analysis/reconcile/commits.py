"""What the two kinds of lost commits share: which answers of coordinators count, and of which commit.

A group's offset of one partition is a register: members write it (commits), its coordinator is asked
for it (answers). A commit carries its number as metadata, so an answer shows which commit it is.

An answer counts if, by the metadata log, the broker that gave it led the group's partition of
`__consumer_offsets` from the question to the answer. A deposed coordinator that does not know it yet
may rightly answer with an older commit.

An answer is settled if its broker had reliably served its HW of that partition under the same leader
epoch before the question. Until its HW has reached the start of its epoch, a new coordinator of Kafka
4.x serves what was below its HW as a follower (docs/findings/stale-committed-offset.md). Nothing is
lost then, whatever it serves. Its first answer with a HW may be one from before, so the second counts.

When it cannot tell, for both kinds: where the metadata log of `__consumer_offsets` is missing, no
coordinator was asked, none of its HWs was observed, the clock was set back, the final read does not
cover the partition (its topic may have been deleted, and its offsets with it), or the brokers had a
setting by which offsets may be lost or expire. A record without the table says nothing of commits,
and there is nothing to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa

from analysis.reconcile.model import GroupsOfKind, LostCommits
from analysis.rows.facts import Facts
from analysis.spark.sql import DataFrame, F, SparkSession, Window
from analysis.spark.tables import RecordTables
from ebbtide.record.tables import SENT_ONCE_NS, schema_of_rows
from ebbtide.scenario.internal_topics import OFFSETS_TOPIC

REGISTER = ["run", "group", "topic", "partition"]
"""What one committed offset is of."""
_DETAIL = "cast(get_json_object(details, '$.{}') AS bigint) AS {}"
_ITEM = ", ".join(
    [
        "at_ns",
        *(_DETAIL.format(name, name) for name in ("commit", "sent_ns")),
        "offset",
        *(_DETAIL.format(f"served.{name}", f"served_{name}") for name in ("offset", "commit")),
        *(
            _DETAIL.format(f"served.{name}", name)
            for name in ("broker", "leader_epoch", "offsets_partition", "asked_ns")
        ),
    ]
)

GROUPS = GroupsOfKind(
    into=LostCommits,
    # The leader epoch is the one under which they were missing.
    by=("`group`", "leader_epoch", "coalesce(settled, true) AS settled"),
    figures=(f"min(struct({_ITEM})) AS first", f"max(struct({_ITEM})) AS last"),
)

_COVERED = schema_of_rows("run int32 topic string partition int32")
_TERMS = schema_of_rows("""
    term_run int32 term_partition int32 leader int32 leader_epoch int32 since_ns int64 until_ns int64
""")


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
    if not any(one.topic == OFFSETS_TOPIC and one.source == "list_offsets" and one.asked for one in facts.served):
        return f"no leader was asked for its HW of {OFFSETS_TOPIC}, so whether its answers are settled is not known"
    if not any(one.status == "served" for one in facts.commits):
        return "no coordinator was asked what its group has committed"
    uncovered = {f"{one.topic}-{one.partition}" for one in facts.commits} - facts.final_offsets.keys()
    if uncovered:
        return f"the final read does not cover {min(uncovered)}, so its topic may have been deleted"
    return None


def why_unchecked(facts: Facts) -> str | None:
    """Return why it is not known that a group got back its newest acked commit; None: each was asked for.

    The last leader of the group's partition must have been asked after the commit was acked, must have shown
    nothing or a commit of this run, and must have served its HW twice (the second one settles its answers).
    """
    acked: dict[tuple[str, str, int, int], int] = {}
    for one in facts.commits:
        if one.status == "acked" and one.last_done_ns is not None:
            key = (one.group, one.topic, one.partition, one.offsets_partition)
            acked[key] = max(acked.get(key, 0), one.last_done_ns)
    for (group, topic, partition, offsets_partition), done_ns in sorted(acked.items()):
        terms = [one for one in facts.epochs if (one.topic, one.partition) == (OFFSETS_TOPIC, offsets_partition)]
        last = max(terms, key=lambda one: one.last_metadata_offset, default=None)
        was_asked = last is not None and any(
            (one.group, one.topic, one.partition, one.status) == (group, topic, partition, "served")
            and one.broker == last.leader
            and (one.last_asked_ns or 0) > done_ns
            for one in facts.commits
        )
        if not was_asked:
            place = f"{topic}-{partition} of the group {group}"
            return f"no coordinator showed what it had for {place} after its last acked commit"
        is_settled = last is not None and any(
            (one.topic, one.partition, one.source) == (OFFSETS_TOPIC, offsets_partition, "list_offsets")
            and one.leader_epoch == last.leader_epoch
            and one.asked > 1
            for one in facts.served
        )
        if not is_settled:
            return f"the last coordinator of the group {group} was not seen to serve its HW, so it may have lagged"
    return None


def _why_none_judged(facts: Facts) -> str | None:
    if gap := next((one for one in facts.gaps if one.part == "commits"), None):
        return gap.why
    if not facts.commits:
        return None
    if facts.unsafe_property is not None:
        return f"the scenario sets {facts.unsafe_property}, so that offsets may be missing without a loss"
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

    The struct has `acked`, `once`, `asked_ns`, `done_ns`, `commit` and `offset`. A commit that was acked was
    in the register from some time between the two on; any other at any time after `asked_ns`. Only one that
    was sent `once` was not stored again later: a request that a client gave up may arrive late.
    """
    acked = (F.col("status") == "acked") & F.col("done_ns").isNotNull()
    return (
        commits.where("status <> 'served' AND commit IS NOT NULL")
        .groupBy(*REGISTER, "commit")
        .agg(
            F.bool_and(acked).alias("acked"),
            F.bool_and(acked & (F.col("done_ns") - F.col("asked_ns") < SENT_ONCE_NS)).alias("once"),
            F.min("asked_ns").alias("asked_ns"),
            F.max("done_ns").alias("done_ns"),
            F.min("offset").alias("offset"),
        )
        .select(*REGISTER, "commit", F.struct("asked_ns", "done_ns", "acked", "commit", "offset", "once").alias("made"))
    )


def answers_of(
    spark: SparkSession, commits: DataFrame, watermarks: DataFrame | None, runs: Sequence[Facts]
) -> DataFrame:
    """Return the answers that count: `asked_ns`, `done_ns`, `settled`, and `served` as a struct; `made` is its commit.

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
    if watermarks is None:
        answers = answers.withColumn("settled", F.lit(False))
    else:
        of_epoch = ["run", "settled_partition", "settled_epoch"]
        told = answers.withColumns(
            {
                "settled_partition": F.col("served.offsets_partition"),
                "settled_epoch": F.col("served.leader_epoch"),
            }
        ).join(F.broadcast(_settled_times(watermarks)), of_epoch, "left")
        settled = F.coalesce(F.col("settled_ns") < F.col("asked_ns"), F.lit(False))
        answers = told.withColumn("settled", settled).drop("settled_partition", "settled_epoch", "settled_ns")
    return answers.join(writes_of(commits), [*REGISTER, "commit"], "left")


def _settled_times(watermarks: DataFrame) -> DataFrame:
    """Return when each leader epoch of `__consumer_offsets` had reliably served its HW (`settled_ns`)."""
    marks = watermarks.where(F.col("topic") == OFFSETS_TOPIC).where(
        "source = 'list_offsets' AND leader_epoch IS NOT NULL AND asked_ns IS NOT NULL"
    )
    first = F.min("at_ns").over(Window.partitionBy("run", "partition", "leader_epoch"))
    return (
        marks.withColumn("first_ns", first)
        .where("asked_ns > first_ns")
        .groupBy("run", F.col("partition").alias("settled_partition"), F.col("leader_epoch").alias("settled_epoch"))
        .agg(F.min("at_ns").alias("settled_ns"))
    )


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
