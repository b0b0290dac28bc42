"""Anomalies with what explains them, and how sentences group and place them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar, cast

import msgspec

from analysis.judge.history.evidence import Attribution
from analysis.reconcile.model import G, ItemGroup
from ebbtide.record.verdict import LossEvent, RecordedElection

_PLACES_MAX = 4
"""So many partitions, or ranges of them, are named in a sentence."""

Items = TypeVar("Items", bound=ItemGroup, covariant=True)


class AttributedAnomaly(msgspec.Struct, Generic[Items], frozen=True, kw_only=True):
    """Items of a group that have one attribution.

    `items` is the group, or the part of it. `oldest_s` and `lost_by` of lost records are as in
    `ebbtide.record.verdict.Loss`.
    """

    items: Items
    committed: bool
    attribution: Attribution
    oldest_s: float | None = None
    lost_by: LossEvent | None = None


AnyAnomaly = AttributedAnomaly[ItemGroup]
"""One of whatever kind."""
A = TypeVar("A", bound=AnyAnomaly)


def blamed_of(blamed: Iterable[AnyAnomaly], sort: type[G]) -> list[AttributedAnomaly[G]]:
    """Return the anomalies whose items are groups of one sort."""
    return [cast("AttributedAnomaly[G]", one) for one in blamed if isinstance(one.items, sort)]


def election_of(attribution: Attribution) -> RecordedElection | None:
    """Return the guilty election as verdict.json names it."""
    return attribution.election.as_recorded if attribution.election is not None else None


def election_in_brackets(attribution: Attribution) -> str:
    """Return the guilty election in brackets, to end a sentence; empty if none."""
    one = election_of(attribution)
    return f" (election of {one})" if one is not None else ""


def group_alike(blamed: Iterable[AnyAnomaly]) -> list[list[AnyAnomaly]]:
    """Group anomalies that one sentence can describe: those of one reason, at most one election in each partition.

    A partition that lost records by two elections is therefore in two groups.
    """
    groups: dict[tuple[str | None, str, int], list[AnyAnomaly]] = {}
    elections: dict[tuple[str, int, str | None, str], list[Attribution]] = {}
    for one in blamed:
        attribution = one.attribution
        known = elections.setdefault((*one.items.log, attribution.cause, attribution.why), [])
        if attribution not in known:
            known.append(attribution)
        groups.setdefault((attribution.cause, attribution.why, known.index(attribution)), []).append(one)
    return list(groups.values())


def places_of(alike: Sequence[AnyAnomaly]) -> str:
    """Return the partitions of a group: `t-0`, `t-0 and t-4`, or `t-0 to t-5 (6 partitions)`."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted({one.items.log for one in alike}):
        by_topic.setdefault(topic, []).append(partition)
    count = sum(map(len, by_topic.values()))
    named: list[str] = []
    for topic, numbers in by_topic.items():
        in_a_row = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
        named += [f"{topic}-{numbers[0]} to {topic}-{numbers[-1]}"] if in_a_row else [f"{topic}-{n}" for n in numbers]
    shown = named[:_PLACES_MAX] + ([f"{len(named) - _PLACES_MAX} more"] if len(named) > _PLACES_MAX else [])
    text = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"{text} ({count} partitions)" if count > 2 else text


def elections_in_brackets(alike: Sequence[AnyAnomaly]) -> str:
    """Return the guilty elections of a group in brackets, to end a sentence; empty if none."""
    found = list(dict.fromkeys((one.leader, one.epoch) for a in alike if (one := a.attribution.election) is not None))
    if len(found) < 2:
        return election_in_brackets(alike[0].attribution)
    leaders, epochs = (sorted(set(numbers)) for numbers in zip(*found, strict=True))
    who = f"broker {leaders[0]}" if len(leaders) == 1 else f"brokers {', '.join(map(str, leaders))}"
    when = f"epoch {epochs[0]}" if len(epochs) == 1 else f"epochs {epochs[0]} to {epochs[-1]}"
    return f" (elections of {who}, leader {when})"
