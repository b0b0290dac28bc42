"""Counts the items in one pass, with examples and the groups that their kinds declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import msgspec

from analysis.judge.rules import registry
from analysis.reconcile.model import GroupsOfKind, ItemGroup
from analysis.spark.sql import DataFrame, F, Window
from ebbtide.record.verdict import AnomalyCount

EXAMPLES_MAX = 20
"""How many items of a kind and partition are shown; nothing is decided from them."""

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
    groups: list[ItemGroup] = []


class _Example(msgspec.Struct, frozen=True):
    kind: str
    topic: str
    partition: int
    number: int
    details: str
    offset: int | None = None
    value: int | None = None


def summarize(items: DataFrame, runs: int) -> list[AnomalySummary]:
    """Count the items, and group them if there are any.

    It collects groups and examples, never all items. One summary a run, in the order of `run`.
    """
    counts: list[dict[_Kind, int]] = [{} for _ in range(runs)]
    for run, *kind, count in items.groupBy("run", *_KIND).agg(F.count("*")).collect():
        counts[run][_Kind(*kind)] = count
    kinds = {kind.kind for found in counts for kind in found}
    if not kinds:
        return [AnomalySummary() for _ in counts]
    order = Window.partitionBy("run", *_KIND).orderBy(F.asc_nulls_last("offset"), F.asc_nulls_last("value"), "details")
    numbered = items.withColumn("number", F.row_number().over(order)).where(F.col("number") <= EXAMPLES_MAX)
    frames = [numbered.select("run", *_KIND, "number", "offset", "value", "details")]
    declared = _declared(kinds)
    frames += [_grouped(items, names, how) for names, how in declared]
    rows = [
        rows.select(F.lit(number).alias("frame"), "run", F.to_json(F.struct(*rows.drop("run").columns)).alias("row"))
        for number, rows in enumerate(frames)
    ]
    examples: list[list[_Example]] = [[] for _ in counts]
    groups: list[list[ItemGroup]] = [[] for _ in counts]
    for frame, run, row in reduce(lambda one, other: one.union(other), rows).collect():
        if frame == 0:
            examples[run].append(msgspec.json.decode(row, type=_Example))
        else:
            groups[run].append(_as_group(row, declared[frame - 1][1].into))
    return [
        AnomalySummary(anomalies=_anomalies(of_run, shown), groups=sorted(found, key=_order))
        for of_run, shown, found in zip(counts, examples, groups, strict=True)
    ]


def _declared(kinds: set[str]) -> list[tuple[list[str], GroupsOfKind]]:
    """Return how the kinds that were found group their items; kinds that share it are grouped together."""
    found: dict[int, tuple[list[str], GroupsOfKind]] = {}
    for kind in registry.ANOMALIES:
        if kind.groups is not None and kind.name in kinds:
            found.setdefault(id(kind.groups), ([], kind.groups))[0].append(kind.name)
    return [*found.values()]


def _grouped(items: DataFrame, names: Sequence[str], how: GroupsOfKind) -> DataFrame:
    return (
        items.where(F.col("kind").isin(*names) & F.expr(how.where))
        .groupBy(*_PARTITION, "kind", *map(F.expr, how.by))
        .agg(F.count("*").alias("count"), *map(F.expr, how.figures))
    )


def _as_group(row: str, into: type[ItemGroup]) -> ItemGroup:
    """Return a group; an item in it is as anomalies/ has it, with its details beside its offset."""
    fields = msgspec.json.decode(row, type=dict[str, object])
    for name, item in fields.items():
        if isinstance(item, dict) and "details" in item:
            fields[name] = item | msgspec.json.decode(item.pop("details"))
    return msgspec.convert(fields, into)


def _order(group: ItemGroup) -> tuple[Any, ...]:
    """Return what groups are sorted by: those of one sort are together."""
    return type(group).__name__, group.topic, group.partition, *(_field(group, path) for path in group.ORDER)


def _field(of: object, path: str) -> object:
    for name in path.split("."):
        of = of.get(name) if isinstance(of, Mapping) else getattr(of, name)
    return of


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
