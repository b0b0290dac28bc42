"""What to change: sets of changes are asked of the model, the cheapest first, and shown where they save an event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import msgspec

from analysis.advise.answers import ModelDesk
from analysis.advise.assumption import KAFKA, RF, Assumption
from analysis.advise.events import IN_SYNC, AdvisedEvent, event_for
from analysis.advise.groups import TopicGroup
from analysis.advise.lines import AdviceLine
from analysis.advise.prices import COSTS, Prices, cost_of, release_prices, topic_prices
from analysis.advise.release import ReleaseFacts
from analysis.spec.partition import MV_ELR
from ebbtide.releases.feature_levels import METADATA_VERSIONS, newest_metadata_version
from ebbtide.releases.known_releases import ELR_VERSION, KNOWN, METADATA_VERSION
from ebbtide.snapshot.model import FLUSH_MESSAGES, MIN_ISR, UNCLEAN

_NEWEST = KNOWN[-1].version
_RF = 3
_TOGETHER_MAX = 3
"""The most changes of one set."""


class RemedyPart(msgspec.Struct, frozen=True, kw_only=True):
    """One change, with the values that it sets."""

    words: str
    values: dict[str, str]


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """A set of changes, its price, and the events that lose acks=all records today and do not after it.

    `parts` are its changes, `prices` those of each value. `keys` are those of the events. `cost` orders sets.
    """

    assume: str
    change: str
    price: str
    parts: tuple[RemedyPart, ...]
    prices: Prices
    cost: int
    saves: tuple[str, ...]
    keys: tuple[str, ...]


def costs_of(prices: Prices) -> tuple[str, ...]:
    """Return what prices are paid in, such as latency, the cheapest first."""
    paid = {COSTS[name.partition("=")[0]] for name in prices}
    return tuple(dict.fromkeys(one for one in COSTS.values() if one in paid))


def changes_in_words(parts: Sequence[RemedyPart]) -> str:
    """Return changes that are made together as one."""
    return ", and ".join(one.words for one in parts)


class _Change(NamedTuple):
    values: dict[str, str]
    parts: tuple[RemedyPart, ...]

    @property
    def cost(self) -> int:
        return sum(cost_of(name) for name in self.values)


def remedies_for(
    group: TopicGroup, lines: Sequence[AdviceLine], desk: ModelDesk, features: Mapping[str, int]
) -> list[Remedy]:
    """Return the sets of changes that save something, the most helpful first.

    Each single change is asked about each event. A set of several is asked only about events that no cheaper set
    saves. It is not asked where all changes together do not save the event. Only what the model confirms is said.
    """
    release = desk.release
    losing = [line.event for line in lines if line.acks_all.says == "loses"]
    changes = [_Change(one.values, (one,)) for one in _candidates(group, release)]
    everything = Assumption(_merged(changes))
    saved: set[str] = set()
    hopeless: set[str] = set()
    found = []

    def survives(assumed: Assumption, event: AdvisedEvent) -> bool:
        later = assumed.release(release, features)
        after = assumed.group(group)
        event = event_for(event, after, later)
        unflushed = 0 if after.settings.flushes_each_record else event.budget.get("power_losses", 0)
        if max(unflushed, event.budget.get("disks", 0)) >= after.settings.rf and event.when == IN_SYNC:
            return False  # it takes as many copies as there are, so that nobody needs to ask
        return desk.at(later).answer(event, after, "all").says == "survives"

    for change in sorted(_sets(changes), key=lambda one: (one.cost, len(one.values))):
        assumed = Assumption(change.values)
        asked = losing
        if change not in changes:
            asked = [one for one in losing if one.key not in hopeless]
            hopeless |= {one.key for one in asked if one.key not in saved and not survives(everything, one)}
            asked = [one for one in asked if one.key not in hopeless]
            if all(one.key in saved for one in asked):
                continue
        saves = [one for one in asked if survives(assumed, one)]
        if not saves or (change not in changes and all(one.key in saved for one in saves)):
            continue
        saved |= {one.key for one in saves}
        later, after = assumed.release(release, features), assumed.group(group)
        prices = release_prices(release, later) | topic_prices(change.values, group.settings, after.settings, later)
        fitting = [event_for(one, after, later) for one in saves]
        remedy = Remedy(
            assume=assumed.in_words(),
            change=changes_in_words(change.parts),
            price="; ".join(prices.values()),
            parts=change.parts,
            prices=prices,
            cost=change.cost,
            saves=tuple(one.in_words for one in fitting),
            keys=tuple(one.key for one in saves),
        )
        found.append(remedy)
    return sorted(found, key=lambda one: (-len(one.saves), one.cost))


def _merged(changes: Sequence[_Change]) -> dict[str, str]:
    """Return all changes at once. An upgrade raises metadata.version by itself."""
    values: dict[str, str] = {}
    for one in changes:
        values |= one.values
    if KAFKA in values:
        values.pop(METADATA_VERSION, None)
    return values


def _sets(changes: Sequence[_Change]) -> Iterator[_Change]:
    """Yield each change and each set of several, of which no two change the same or the release's level twice."""
    for count in range(1, min(_TOGETHER_MAX, len(changes)) + 1):
        for those in combinations(changes, count):
            names = [name for one in those for name in one.values]
            if len(set(names)) == len(names) and not {KAFKA, METADATA_VERSION} <= set(names):
                values = {name: value for one in those for name, value in one.values.items()}
                yield _Change(values, tuple(part for one in those for part in one.parts)) if count > 1 else those[0]


def _candidates(group: TopicGroup, release: ReleaseFacts) -> Iterator[RemedyPart]:
    settings = group.settings
    if settings.unclean:
        yield RemedyPart(values={UNCLEAN: "false"}, words=f"set {UNCLEAN}=false")
    if settings.rf > 1 and settings.effective_min_isr < (wanted := settings.rf // 2 + 1):
        yield RemedyPart(values={MIN_ISR: str(wanted)}, words=f"set {MIN_ISR}={wanted}")
    if settings.rf < _RF <= group.brokers:
        yield RemedyPart(
            values={RF: str(_RF), MIN_ISR: "2"}, words=f"raise the replication factor to {_RF}, with {MIN_ISR}=2"
        )
    if release.has_elr and not release.is_elr_on:
        yield RemedyPart(values={ELR_VERSION: "1"}, words="turn the ELR on (kafka-features.sh upgrade)")
    level = release.features[METADATA_VERSION]
    if level < METADATA_VERSIONS["3.5-IV1"] <= newest_metadata_version(release.kafka):
        newest = newest_metadata_version(release.kafka)
        yield RemedyPart(
            values={METADATA_VERSION: str(newest)},
            words=f"raise {METADATA_VERSION} to {newest} (kafka-features.sh upgrade)",
        )
    if release.is_elr_on and release.kafka != _NEWEST:
        yield RemedyPart(values={KAFKA: _NEWEST}, words=f"upgrade to Kafka {_NEWEST}")
    if not release.is_elr_on and release.kafka != _NEWEST:
        raised = "" if level >= MV_ELR else f", raise {METADATA_VERSION}"
        yield RemedyPart(
            values={KAFKA: _NEWEST, ELR_VERSION: "1"}, words=f"upgrade to Kafka {_NEWEST}{raised}, turn the ELR on"
        )
    if not settings.flushes_each_record:
        yield RemedyPart(values={FLUSH_MESSAGES: "1"}, words=f"set {FLUSH_MESSAGES}=1")
