"""What to change: each change is asked of the model, and shown only where it saves an event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from analysis.advise.answers import AnswerCache, ModelDesk
from analysis.advise.assumption import KAFKA, RF, Assumption
from analysis.advise.events import event_for
from analysis.advise.groups import TopicGroup
from analysis.advise.lines import AdviceLine
from analysis.advise.prices import release_prices, topic_prices
from analysis.advise.release import ReleaseFacts
from ebbtide.releases.feature_levels import METADATA_VERSIONS, newest_metadata_version
from ebbtide.releases.known_releases import ELR_VERSION, KNOWN, METADATA_VERSION
from ebbtide.snapshot.model import FLUSH_MESSAGES, MIN_ISR, UNCLEAN

_NEWEST = KNOWN[-1].version
_RF = 3


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """A change, its price, and the events that lose acks=all records today and do not after it."""

    assume: str
    change: str
    price: str
    saves: tuple[str, ...]


def remedies_for(
    group: TopicGroup,
    lines: Sequence[AdviceLine],
    release: ReleaseFacts,
    features: Mapping[str, int],
    cache: AnswerCache,
    states_max: int,
) -> list[Remedy]:
    """Return the changes that save something, the most helpful first."""
    losing = [line.event for line in lines if line.acks_all.says == "loses"]
    found = []
    for values, change in _candidates(group, release):
        assumed = Assumption(values)
        later = assumed.release(release, features)
        desk = ModelDesk(later, states_max=states_max, known=cache)
        after = assumed.group(group)
        saves = tuple(
            f"{event.what}, {event.when}"
            for event in (event_for(one, after, later) for one in losing)
            if desk.answer(event, after, "all").says == "survives"
        )
        if saves:
            prices = release_prices(release, later) | topic_prices(values, group.settings, after.settings, later)
            price = "; ".join(prices.values())
            found.append(Remedy(assume=assumed.in_words(), change=change, price=price, saves=saves))
    return sorted(found, key=lambda one: -len(one.saves))


def _candidates(group: TopicGroup, release: ReleaseFacts) -> Iterator[tuple[dict[str, str], str]]:
    settings = group.settings
    if settings.unclean:
        yield {UNCLEAN: "false"}, f"set {UNCLEAN}=false"
    if settings.rf > 1 and settings.effective_min_isr < (wanted := settings.rf // 2 + 1):
        yield {MIN_ISR: str(wanted)}, f"set {MIN_ISR}={wanted}"
    if settings.rf < _RF <= group.brokers:
        yield {RF: str(_RF), MIN_ISR: "2"}, f"raise the replication factor to {_RF}, with {MIN_ISR}=2"
    if release.has_elr and not release.is_elr_on:
        yield {ELR_VERSION: "1"}, f"turn the ELR on: kafka-features.sh upgrade --feature {ELR_VERSION}=1"
    level = release.features[METADATA_VERSION]
    if level < METADATA_VERSIONS["3.5-IV1"] <= newest_metadata_version(release.kafka):
        newest = newest_metadata_version(release.kafka)
        yield (
            {METADATA_VERSION: str(newest)},
            f"raise metadata.version: kafka-features.sh upgrade --feature {METADATA_VERSION}={newest}",
        )
    if release.is_elr_on and release.kafka != _NEWEST:
        yield {KAFKA: _NEWEST}, f"upgrade to Kafka {_NEWEST}"
    if not release.is_elr_on and release.kafka != _NEWEST:
        yield (
            {KAFKA: _NEWEST, ELR_VERSION: "1"},
            f"upgrade to Kafka {_NEWEST}, raise metadata.version, and turn the ELR on",
        )
    if not settings.flushes_each_record:
        yield {FLUSH_MESSAGES: "1"}, f"set {FLUSH_MESSAGES}=1"
