"""What a change costs: one sentence for each value that somebody assumes, or that Ebbtide proposes.

A price is what stops working, or works worse, after the change. What gets better is the model's answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.advise.assumption import KAFKA, RF
from analysis.advise.groups import NEVER, GroupSettings
from analysis.advise.release import ReleaseFacts
from ebbtide.releases.known_releases import ELR_VERSION, METADATA_VERSION
from ebbtide.shown_text import plural, some_of
from ebbtide.snapshot.model import FLUSH_MESSAGES, MIN_ISR, UNCLEAN

Prices = dict[str, str]
"""The price of each value that changes, by its name and value as `--assume` takes them."""

COSTS = {
    UNCLEAN: "availability",
    MIN_ISR: "availability",
    ELR_VERSION: "availability",
    METADATA_VERSION: "no way back",
    KAFKA: "restarts",
    RF: "disk",
    FLUSH_MESSAGES: "latency",
}
"""What the price of a value is paid in, the cheapest first."""

_NAMED_MAX = 3

RESTART = "every node restarts on another release"
NO_WAY_BACK = "no way back to a release that does not know this level"


def cost_of(name: str) -> int:
    """Return a number by which sets of changes are ordered: two cheap changes cost less than a dear one."""
    return 1 << list(COSTS).index(name)


def release_prices(today: ReleaseFacts, after: ReleaseFacts) -> Prices:
    """Return the prices of another release, and of other feature levels."""
    prices: Prices = {}
    if after.kafka != today.kafka:
        prices[f"{KAFKA}={after.kafka}"] = RESTART
    level, level_after = (one.features.get(METADATA_VERSION, 0) for one in (today, after))
    if level_after > level:
        prices[f"{METADATA_VERSION}={level_after}"] = NO_WAY_BACK
    if level_after < level:
        prices[f"{METADATA_VERSION}={level_after}"] = (
            "Kafka refuses a lower level if the two levels differ in the metadata that they write"
        )
    if after.is_elr_on and not today.is_elr_on:
        prices[f"{ELR_VERSION}=1"] = (
            "if the last in-sync replica loses power, the partition has no leader until an eligible replica is back; "
            f"brokers can no longer set {MIN_ISR} for themselves"
        )
    if today.is_elr_on and not after.is_elr_on:
        prices[f"{ELR_VERSION}=0"] = "replicas that left the ISR are no longer eligible, even if they have all records"
    return prices


def prices_of_topics(prices: Mapping[tuple[str, ...], Prices]) -> Prices:
    """Return the prices that some topics pay as one; where not all pay the same, each price names its topics."""
    payers: dict[str, dict[str, list[str]]] = {}
    for topics, paid in prices.items():
        for name, price in paid.items():
            payers.setdefault(name, {}).setdefault(price, []).extend(topics)
    all_topics = sum(map(len, prices))

    def in_words(name: str) -> Iterator[str]:
        for price, topics in payers[name].items():
            yield price if len(topics) == all_topics else f"{price} ({some_of(topics, _NAMED_MAX)})"

    return {name: "; ".join(in_words(name)) for name in payers}


def topic_prices(
    values: Mapping[str, str], today: GroupSettings, after: GroupSettings, release: ReleaseFacts
) -> Prices:
    """Return the prices of other settings of topics, of those that `values` name, on the `release` after the change."""
    return {f"{name}={values[name]}": price for name, price in _topic_prices(today, after, release) if name in values}


def _topic_prices(today: GroupSettings, after: GroupSettings, release: ReleaseFacts) -> Iterator[tuple[str, str]]:
    if after.rf > today.rf:
        yield (
            RF,
            f"{after.rf / today.rf:.3g} times the disk and the traffic between brokers; "
            f"acks=all waits for up to {plural(after.rf - today.rf, 'more replica')}",
        )
    if after.rf < today.rf:
        yield RF, f"{plural(today.rf - after.rf, 'copy', 'copies')} fewer of each record"
    is_refused = release.refuses_acks_all(after.rf, after.min_isr)
    if is_refused or (after.rf, after.effective_min_isr) != (today.rf, today.effective_min_isr):
        yield MIN_ISR, _refused_while(after, release)
    if after.flush_messages < today.flush_messages:
        each = "batch" if after.flush_messages == 1 else f"{after.flush_messages:,} records"
        yield FLUSH_MESSAGES, f"an fsync for each {each} on every replica: fewer records a second, longer latencies"
    if after.flush_messages > today.flush_messages:
        taken = "records that the kernel has not written back" if after.flush_messages >= NEVER else "more records"
        yield FLUSH_MESSAGES, f"a power loss takes {taken}"
    if today.unclean and not after.unclean:
        yield UNCLEAN, "a partition whose in-sync replicas are all down has no leader: no writes, no reads"
    if after.unclean and not today.unclean:
        yield UNCLEAN, "a replica that lacks committed records may lead, and they are lost"


def _refused_while(after: GroupSettings, release: ReleaseFacts) -> str:
    if release.refuses_acks_all(after.rf, after.min_isr):
        return f"with RF {after.rf}, each record with acks=all is refused"
    down = after.rf - after.effective_min_isr + 1
    if down == after.rf:
        return "a record may be acked that only one broker has"
    counts = f"it counts as {after.rf}, the RF; " if after.min_isr > after.rf else ""
    are = "is" if down == 1 else "are"
    return f"{counts}acks=all is refused while {down} of {after.rf} replicas {are} out of the ISR"
