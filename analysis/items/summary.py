"""Counts the items in one pass, with examples and the groups that the judge needs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import msgspec
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analysis.reconcile.model import (
    AbortedReads,
    Duplicates,
    HangingTransaction,
    HwRegression,
    LostCommits,
    LostRange,
    VanishedRange,
    WrongCopies,
)
from ebbtide.record.verdict import AnomalyCount
from ebbtide.rules.table import (
    ABORTED_READ,
    COMMIT_BACK,
    COMMIT_LOST,
    COPIED_TWICE,
    DUPLICATE,
    HANGING_TRANSACTION,
    HW_REGRESSION,
    INPUT_SKIPPED,
    LOST,
    REPLICA_DIVERGENCE,
    VANISHED,
)

EXAMPLES_MAX = 20
"""How many items of a kind and partition are shown; nothing is decided from them."""

_G = TypeVar("_G", Duplicates, AbortedReads, HangingTransaction, WrongCopies)

_PARTITION = ["run", "topic", "partition"]
_KIND = ["kind", "topic", "partition"]


class _Kind(NamedTuple):
    """One kind on one partition."""

    kind: str
    topic: str
    partition: int


class AnomalySummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of one run's items."""

    anomalies: list[AnomalyCount] = []
    lost: list[LostRange] = []
    regressions: list[HwRegression] = []
    vanished: list[VanishedRange] = []
    duplicates: list[Duplicates] = []
    aborted_reads: list[AbortedReads] = []
    hanging: list[HangingTransaction] = []
    commits: list[LostCommits] = []
    copies: list[WrongCopies] = []


class _Example(msgspec.Struct, frozen=True):
    kind: str
    topic: str
    partition: int
    number: int
    details: str
    offset: int | None = None
    value: int | None = None


class _Drop(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    earlier: dict[str, int]
    later: dict[str, int]


_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "example": _Example,
    "lost": LostRange,
    "drop": _Drop,
    "vanished": VanishedRange,
    "duplicate": Duplicates,
    "aborted": AbortedReads,
    "hanging": HangingTransaction,
    "commits": LostCommits,
    "copies": WrongCopies,
}
_VANISHED = (VANISHED, REPLICA_DIVERGENCE)
_COPIES = (COPIED_TWICE, INPUT_SKIPPED)
_COMMITS = (COMMIT_LOST, COMMIT_BACK)


def summarize(items: DataFrame, runs: int) -> list[AnomalySummary]:
    """Count the items, and group them if there are any.

    It collects groups and examples, never all items. One summary a run, in the order of `run`.
    """
    counts: list[dict[_Kind, int]] = [{} for _ in range(runs)]
    for run, *kind, count in items.groupBy("run", *_KIND).agg(F.count("*")).collect():
        counts[run][_Kind(*kind)] = count
    if not any(counts):
        return [AnomalySummary() for _ in counts]
    order = Window.partitionBy("run", *_KIND).orderBy(F.asc_nulls_last("offset"), F.asc_nulls_last("value"), "details")
    numbered = items.withColumn("number", F.row_number().over(order)).where(F.col("number") <= EXAMPLES_MAX)
    sections = {"example": numbered.select("run", *_KIND, "number", "offset", "value", "details")}
    kinds = {kind[0] for found in counts for kind in found}
    if LOST in kinds:
        sections["lost"] = _lost_ranges(items)
    if HW_REGRESSION in kinds:
        sections["drop"] = _drops(items)
    if not kinds.isdisjoint(_VANISHED):
        sections["vanished"] = _vanished_ranges(items)
    if DUPLICATE in kinds:
        sections["duplicate"] = _with_first(items, DUPLICATE, by=("idempotent", "twice_in_final_log", "unreadable"))
    if ABORTED_READ in kinds:
        sections["aborted"] = _with_first(items, ABORTED_READ)
    if HANGING_TRANSACTION in kinds:
        sections["hanging"] = _with_first(items, HANGING_TRANSACTION)
    if not kinds.isdisjoint(_COMMITS):
        sections["commits"] = _lost_commits(items)
    if not kinds.isdisjoint(_COPIES):
        sections["copies"] = _with_first(items, *_COPIES, by=("kind", "group"))
    union = reduce(
        DataFrame.union,
        [
            rows.select(
                F.lit(name).alias("section"), "run", F.to_json(F.struct(*rows.drop("run").columns)).alias("row")
            )
            for name, rows in sections.items()
        ],
    )
    found: list[dict[str, list[Any]]] = [{name: [] for name in _SECTIONS} for _ in counts]
    for name, run, row in union.collect():
        found[run][name].append(msgspec.json.decode(row, type=_SECTIONS[name]))
    return [
        AnomalySummary(
            anomalies=_anomalies(of_run, one["example"]),
            lost=sorted(one["lost"], key=lambda one: (one.topic, one.partition, one.first_offset, one.acks)),
            regressions=_regressions(one["drop"]),
            vanished=sorted(one["vanished"], key=lambda one: (one.topic, one.partition, one.first_offset, one.kind)),
            duplicates=sorted(map(_as_shown, one["duplicate"]), key=_place),
            aborted_reads=sorted(map(_as_shown, one["aborted"]), key=_place),
            hanging=sorted(map(_as_shown, one["hanging"]), key=lambda one: (one.topic, one.partition)),
            copies=sorted(
                map(_as_shown, one["copies"]), key=lambda one: (one.topic, one.partition, one.group, one.kind)
            ),
            commits=sorted(one["commits"], key=lambda one: (one.topic, one.partition, one.group, one.first.at_ns)),
        )
        for of_run, one in zip(counts, found, strict=True)
    ]


def _lost_ranges(items: DataFrame) -> DataFrame:
    """Group lost records by what decides their cause.

    That is acks, commitment, and the leader epoch in force when they were acked.
    """
    return (
        items.where(F.col("kind") == LOST)
        .groupBy(*_PARTITION, "acks", "committed", F.col("leader_epoch").alias("acked_after_epoch"))
        .agg(
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
            F.count("*").alias("count"),
            F.min("at_ns").alias("first_done_ns"),
            F.max("at_ns").alias("last_done_ns"),
            F.max(F.get_json_object("details", "$.sent_ns").cast("bigint")).alias("last_sent_ns"),
        )
    )


def _vanished_ranges(items: DataFrame) -> DataFrame:
    """Group the other items that show committed records missing, by cause criteria.

    These are what decides their cause.
    """
    return (
        items.where(F.col("kind").isin(*_VANISHED) & ~F.coalesce("also_lost", F.lit(False)))
        .groupBy(*_PARTITION, "kind", "leader_epoch", "committed")
        .agg(
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
            F.count("*").alias("count"),
            F.min("at_ns").alias("read_ns"),
        )
    )


def _drops(items: DataFrame) -> DataFrame:
    """Return the lowest HW under each leader epoch that began a drop.

    It comes with the highest HW before.
    """
    later = F.struct(F.col("offset").alias("high_watermark"), "at_ns", "leader_epoch", "broker")
    return (
        items.where((F.col("kind") == HW_REGRESSION) & F.col("earlier").isNotNull())
        .groupBy(*_PARTITION, "leader_epoch")
        .agg(F.max("earlier").alias("earlier"), F.min(later).alias("later"))
        .select(*_PARTITION, "earlier", "later")
    )


def _with_first(items: DataFrame, *kinds: str, by: Sequence[str] = ()) -> DataFrame:
    """Group all items of some kinds with an offset and a value, by partition and `by`."""
    first = F.min(F.struct("offset", "value", "details"))
    return (
        items.where(F.col("kind").isin(*kinds))
        .groupBy(*_PARTITION, *by)
        .agg(F.count("*").alias("count"), first.alias("first"))
    )


def _lost_commits(items: DataFrame) -> DataFrame:
    """Group lost commits by group, partition, and the leader epoch under which they were missing."""
    numbers = ("commit", "sent_ns")
    of_answer = {
        "served_offset": "offset",
        "served_commit": "commit",
        "broker": "broker",
        "leader_epoch": "leader_epoch",
        "offsets_partition": "offsets_partition",
        "asked_ns": "asked_ns",
    }
    one = F.struct(
        "at_ns",
        *(F.get_json_object("details", f"$.{name}").cast("bigint").alias(name) for name in numbers),
        "offset",
        *(
            F.get_json_object("details", f"$.served.{name}").cast("bigint").alias(alias)
            for alias, name in of_answer.items()
        ),
    )
    return (
        items.where(F.col("kind").isin(*_COMMITS))
        .groupBy(*_PARTITION, "kind", "group", "leader_epoch", F.coalesce("settled", F.lit(True)).alias("settled"))
        .agg(F.count("*").alias("count"), F.min(one).alias("first"), F.max(one).alias("last"))
        .drop("leader_epoch")
    )


def _as_shown(group: _G) -> _G:
    """Return the group with its first item as anomalies/ has it."""
    first = dict(group.first)
    return msgspec.structs.replace(group, first=first | msgspec.json.decode(first.pop("details")))


def _place(group: Duplicates | AbortedReads) -> tuple[Any, ...]:
    return group.topic, group.partition, group.first["offset"], group.first["value"]


def _anomalies(counts: dict[_Kind, int], examples: list[_Example]) -> list[AnomalyCount]:
    shown: dict[_Kind, list[dict[str, Any]]] = {}
    for one in sorted(examples, key=lambda example: example.number):
        place = {name: number for name, number in (("offset", one.offset), ("value", one.value)) if number is not None}
        shown.setdefault(_Kind(one.kind, one.topic, one.partition), []).append(place | msgspec.json.decode(one.details))
    return [
        AnomalyCount(
            kind=group.kind, topic=group.topic, partition=group.partition, count=count, examples=shown.get(group, [])
        )
        for group, count in sorted(counts.items())
    ]


def _regressions(drops: list[_Drop]) -> list[HwRegression]:
    regressions = [
        HwRegression(
            topic=drop.topic,
            partition=drop.partition,
            from_=drop.earlier["high_watermark"],
            to=drop.later["high_watermark"],
            leader_epoch=drop.later["leader_epoch"],
            broker=drop.later["broker"],
            earlier_at_ns=drop.earlier["at_ns"],
            at_ns=drop.later["at_ns"],
            earlier_leader_epoch=drop.earlier["leader_epoch"],
        )
        for drop in drops
    ]
    return sorted(regressions, key=lambda one: (one.topic, one.partition, one.leader_epoch))
