"""The advice of a whole cluster in short: which topics can lose records, and which changes save most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

import msgspec

from analysis.advise.advised import AdvisedGroup, AdvisedLine
from analysis.advise.assumption import Assumption, is_of_topics, parse_assumption
from analysis.advise.events import LIKELIHOODS, Likelihood
from analysis.advise.groups import TopicGroup
from analysis.advise.prices import Prices, prices_of_topics
from analysis.advise.remedies import Remedy, RemedyPart, changes_in_words, costs_of

CHANGES_MAX = 3


class ClusterChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change for all topics that it helps, its price, and what it saves beyond the changes before it.

    `costs` says what the price is paid in. `saves` are events that lose acks=all records of some topic today, and
    `worse` those that lose some only after the change.
    """

    assume: str
    change: str
    price: str
    costs: tuple[str, ...]
    topics: tuple[str, ...] = ()
    saves: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()


def losing_lines(group: AdvisedGroup) -> Iterator[AdvisedLine]:
    """Yield the lines of today that lose records with acks=all."""
    return (one for one in group.lines if one.today.acks_all.says == "loses" and not one.only_for_after)


def group_badness(group: AdvisedGroup) -> tuple[int, ...]:
    """Return the order of groups: most events that lose records first, the likeliest of them above all."""
    counted = Counter(one.today.event.likelihood for one in losing_lines(group))
    unknown = sum(one.today.acks_all.says == "unknown" for one in group.lines)
    return (*(-counted[one] for one in LIKELIHOODS), -unknown, -group.group.partitions)


def topics_losing_by(groups: Sequence[AdvisedGroup]) -> dict[Likelihood, tuple[str, int]]:
    """Return for each likelihood an event that loses acks=all records, and how many topics lose some so."""
    found: dict[Likelihood, tuple[str, int]] = {}
    for likelihood in LIKELIHOODS:
        events: dict[str, set[str]] = {}
        for group in groups:
            for line in losing_lines(group):
                if (event := line.today.event).likelihood == likelihood:
                    events.setdefault(event.in_words, set()).update(group.group.topics)
        if events:
            widest = max(events, key=lambda one: len(events[one]))
            found[likelihood] = widest, len(set().union(*events.values()))
    return found


def best_changes(groups: Sequence[AdvisedGroup]) -> tuple[ClusterChange, ...]:
    """Return the changes that save most for their price: each next one of what those before it leave.

    Only the likeliest events that are left count: how many of them, in how many topics, for the price.
    """
    remedies = {one.assume: one for group in groups for one in group.remedies}
    fits = {assume: dict(_fitting(assume, groups)) for assume in remedies}
    saved: set[tuple[int, str]] = set()
    made: list[RemedyPart] = []
    paid: set[str] = set()
    chosen: list[ClusterChange] = []

    def worth(assume: str) -> tuple[float, ...]:
        counted: Counter[Likelihood] = Counter()
        for at, remedy in fits[assume].items():
            likely = {one.today.event.key: one.today.event.likelihood for one in losing_lines(groups[at])}
            for key in set(remedy.keys):
                if (at, key) not in saved:
                    counted[likely[key]] += len(groups[at].group.topics)
        return tuple(counted[one] / remedies[assume].cost for one in LIKELIHOODS)

    while len(chosen) < CHANGES_MAX:
        best = max(remedies, key=worth, default=None)
        if best is None or not any(worth(best)):
            break
        new = {at: one for at, one in fits[best].items() if any((at, key) not in saved for key in one.keys)}
        parts = [one for one in remedies[best].parts if one not in made]
        if parts:  # else the changes before it save that together, so the last of them saves it
            made += parts
            prices = _prices_beyond(paid, parts, {groups[at].group.topics: one for at, one in new.items()})
            paid |= {name for name in prices if not is_of_topics(name.partition("=")[0])}
            words, price = changes_in_words(parts), "; ".join(prices.values())
            chosen.append(ClusterChange(assume=best, change=words, price=price, costs=costs_of(prices)))
        topics = [name for at in new for name in groups[at].group.topics]
        rows = ((at, *row) for at, one in new.items() for row in zip(one.keys, one.saves, strict=True))
        saves = [text for at, key, text in rows if (at, key) not in saved]
        chosen[-1] = msgspec.structs.replace(
            chosen[-1],
            topics=tuple(dict.fromkeys((*chosen[-1].topics, *topics))),
            saves=tuple(dict.fromkeys((*chosen[-1].saves, *saves))),
        )
        saved |= {(at, key) for at, one in fits[best].items() for key in one.keys}
    return tuple(chosen)


def _prices_beyond(paid: Set[str], parts: Sequence[RemedyPart], remedies: Mapping[tuple[str, ...], Remedy]) -> Prices:
    """Return the prices of what is new in the remedies of some topics."""
    found: dict[tuple[str, ...], Prices] = {}
    for topics, remedy in remedies.items():
        old = {name for one in remedy.parts if one not in parts for name in one.values}
        found[topics] = {
            name: price
            for name, price in remedy.prices.items()
            if name not in paid and name.partition("=")[0] not in old
        }
    return prices_of_topics(found)


def _fitting(assume: str, groups: Sequence[AdvisedGroup]) -> Iterator[tuple[int, Remedy]]:
    """Yield the groups that a change helps, with what the model confirmed there: the values that are new there."""
    for at, group in enumerate(groups):
        wanted = _new_values(parse_assumption(assume).values, group.group)
        for remedy in group.remedies:
            if _new_values(parse_assumption(remedy.assume).values, group.group) == wanted:
                yield at, remedy


def _new_values(values: Mapping[str, str], group: TopicGroup) -> dict[str, str]:
    """Return the values that a group has not today; those of the release are new for all or none."""
    return {
        name: value
        for name, value in values.items()
        if not is_of_topics(name) or Assumption({name: value}).group(group) != group
    }
