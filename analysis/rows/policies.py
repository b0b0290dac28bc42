"""Finds the topics of a run that may have been compacted.

Their own cleanup policy decides, or the brokers' default. Compaction removes records that nothing
lost, so a missing record of such a topic is no evidence of loss.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence

import msgspec

from analysis.record.record import Record
from ebbtide.scenario.internal_topics import OFFSETS_TOPIC

_INTERNAL = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
"""Kafka's own topics, which it compacts; no client of a run writes or reads them."""


_UNSAFE = ("offsets.retention.minutes", "offsets.commit.required.acks", "offsets.commit.timeout.ms")
"""Brokers' properties with which a coordinator may forget an offset, or ack one that is not committed."""

_UNSAFE_OF_TOPIC = ("cleanup.policy",)
_RESOURCE = f"topic:{OFFSETS_TOPIC}"


class PolicyFacts(msgspec.Struct, frozen=True):
    """A cleanup policy that the metadata log sets; null: it is deleted again."""

    resource: str
    value: str | None


def default_policy(record: Record) -> str:
    """Return the log.cleanup.policy that the run's brokers were started with.

    It is Kafka's default where the scenario does not set it.
    """
    # An unreadable scenario is reported where the run is compared with it; here it sets nothing.
    with contextlib.suppress(LookupError, TypeError):
        return str(record.scenario_keys["cluster"]["broker_properties"]["log.cleanup.policy"])
    return "delete"


def compacted_topics(topics: Collection[str], policies: Sequence[PolicyFacts], default: str) -> list[str]:
    """Return the topics that were compacted at some time of the run, sorted.

    `topics` are those that its clients used. A topic's own policy overrides the default, unless it
    was deleted at some time.
    """
    own: dict[str, set[str | None]] = {}
    defaults = {default}
    for one in policies:
        kind, _, name = one.resource.partition(":")
        if kind == "topic":
            own.setdefault(name, set()).add(one.value)
        elif kind in ("cluster", "broker"):
            defaults.add(one.value or default)
    found = {topic for topic, values in own.items() if _compacts(values)}
    if _compacts(defaults):
        found |= {topic for topic in topics if None in own.get(topic, {None})}
    return sorted(found - _INTERNAL)


def _compacts(values: Collection[str | None]) -> bool:
    return any("compact" in value for value in values if value is not None)


def unsafe_property(record: Record) -> str | None:
    """Return a property of the run's brokers by which a committed offset may rightly be missing."""
    # An unreadable scenario is reported where the run is compared with it; here it sets nothing.
    with contextlib.suppress(LookupError, TypeError, AttributeError):
        scenario = record.scenario_keys
        names = scenario.get("cluster", {}).get("broker_properties", {})
        config = scenario.get("topics", {}).get(OFFSETS_TOPIC, {}).get("config", {})
        changed = [step.get("config") for step in scenario.get("steps", []) if step.get("resource") == _RESOURCE]
        unsafe = [*(name for name in _UNSAFE if name in names)]
        unsafe += [f"{name} of {OFFSETS_TOPIC}" for name in _UNSAFE_OF_TOPIC if name in config or name in changed]
        return next(iter(unsafe), None)
    return None
