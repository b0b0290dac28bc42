"""Which topics of a run may have been compacted: by their own cleanup policy, or by the brokers' default.

Compaction removes records that nobody lost, so what such a topic lacks proves nothing.
"""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from analysis.reconcile.facts import CompactedFacts
from ebbtide.scenario.write import SCENARIO

_INTERNAL = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
"""Kafka's own topics, which it compacts; no client of a run writes or reads them."""


class PolicyFacts(msgspec.Struct, frozen=True):
    """A cleanup policy that the metadata log sets; null: it is taken away again."""

    resource: str
    value: str | None


def default_policy(record: Path) -> str:
    """log.cleanup.policy as the run's brokers were started with; Kafka's own default where the scenario is silent."""
    path = record / SCENARIO
    # A scenario that cannot be read is told of where it is compared with; here it sets nothing.
    with contextlib.suppress(OSError, ValueError, RecursionError, LookupError, TypeError):
        if path.is_file():
            return str(tomllib.loads(path.read_text())["cluster"]["broker_properties"]["log.cleanup.policy"])
    return "delete"


def compacted(topics: Collection[str], policies: Sequence[PolicyFacts], default: str) -> list[CompactedFacts]:
    """The topics that were compacted at some time of the run, sorted; `topics` are those that its clients used.

    A topic's own policy outdoes the default, unless it was taken away at some time.
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
    return [CompactedFacts(topic) for topic in sorted(found - _INTERNAL)]


def _compacts(values: Collection[str | None]) -> bool:
    return any("compact" in value for value in values if value is not None)
