"""Finds properties of nodes that have no effect where they stand.

A property counts where Kafka obeys it, as in any cluster. Where a topic's own setting overrides it, or where nodes of
its table do not read it, it has no effect, and the problem says which line has one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import version_of
from ebbtide.scenario.absent_words import absent_word
from ebbtide.scenario.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ebbtide.scenario.kafka_settings import kafka_properties, refused_kind, settings_at
from ebbtide.scenario.model import NODE_ROLES, NodeRole, Scenario

_OWN_OF_TRANSACTIONS = {*INTERNAL_TOPICS[TRANSACTIONS_TOPIC], "min.insync.replicas"}
"""transaction.state.log.min.isr is the min ISR of the topic."""


class _Property(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a table of properties."""

    role: NodeRole
    name: str
    value: str

    def without_effect(self, what: str, allowed: str) -> UsageError:
        where = f"cluster.{self.role}_properties.{self.name}"
        return UsageError(f"a property without effect: {what}", where=where, got=repr(self.value), allowed=allowed)


def validate_effects(scenario: Scenario, written: Mapping[str, object]) -> Iterator[UsageError]:
    """Report each property of a node that nobody obeys where it stands.

    `written` is the file as its author wrote it, without defaults.
    """
    topics = written.get("topics")
    keys = {name: frozenset(table) for name, table in topics.items()} if isinstance(topics, dict) else {}
    for role in NODE_ROLES:
        given = scenario.cluster.properties_of(role)
        for name, value in given.items():
            yield from _problem(scenario, keys, _Property(role=role, name=name, value=value), given)


def _problem(
    scenario: Scenario, keys: Mapping[str, Collection[str]], line: _Property, beside: Mapping[str, str]
) -> Iterator[UsageError]:
    """Report the first reason why a line has no effect."""
    if refused_kind("node", line.name) is not None:
        # `validate_settings` reports it.
        return
    known = kafka_properties()
    obeyer = known.obeyer_of(line.name)
    if obeyer == "nobody":
        yield line.without_effect("no node of a KRaft cluster reads it", "no such line")
    elif (why := _why_absent(line.name, scenario.kafka)) is not None:
        yield line.without_effect(why, absent_word(line.name, "properties") or "no such line")
    elif obeyer is not None and obeyer != f"{line.role}s":
        yield line.without_effect(f"only {obeyer} obey it", known.place_of(line.name, line.value))
    elif read := [one for one in known.read_before(line.name) if one in beside]:
        yield line.without_effect(f"Kafka reads {read[0]} instead", f"one of {read[0]} and {line.name}")
    elif line.name in known.auto_created:
        yield from _unused_default(scenario, keys, line)
    elif (key := known.topic_keys.get(line.name)) is not None:
        yield from _overridden_by_key(scenario, keys, line, key)
    elif (config := known.topic_defaults.get(line.name)) is not None and line.name not in known.effects_of_their_own:
        yield from _overridden_by_config(scenario, line, config)
    else:
        for topic, names in known.internal_topics.items():
            if topic in scenario.topics and line.name in names:
                yield line.without_effect(f"the scenario makes {topic}", f"the keys of [topics.{topic}]")


def _why_absent(name: str, releases: Sequence[str]) -> str | None:
    """Return why none of these releases knows a property; None if one may know it."""
    setting = settings_at("node").get(name)
    return None if setting is None else setting.why_absent([version_of(release) for release in releases])


def _unused_default(scenario: Scenario, keys: Mapping[str, Collection[str]], line: _Property) -> Iterator[UsageError]:
    """Report a setting of topics that brokers create by themselves, unless it agrees with the topics that there are."""
    key = kafka_properties().topic_keys.get(line.name)
    if key is None:
        if line.value == "true":
            what = "every topic is there before a client asks for it"
            yield line.without_effect(what, "a topic of its own for each name, [topics.NAME]")
        return
    yield from _differing(line, key, _differing_topics(scenario, key, line.value), keys)


def _overridden_by_key(
    scenario: Scenario, keys: Mapping[str, Collection[str]], line: _Property, key: str
) -> Iterator[UsageError]:
    """Report a default that topics do not take because of Ebbtide's own default, or that no topic takes."""
    differing = _differing_topics(scenario, key, line.value)
    silent = [one for one in differing if key not in keys.get(one[0], ())]
    yield from _differing(line, key, silent or ([] if _takes_itself(scenario, line.name) else differing), keys)


def _differing(
    line: _Property, key: str, topics: list[tuple[str, object]], keys: Mapping[str, Collection[str]]
) -> Iterator[UsageError]:
    for name, topic in topics[:1]:
        by_default = "" if key in keys.get(name, ()) else " by default"
        what = f"{key} of topic {name} is {getattr(topic, key)}{by_default}"
        yield line.without_effect(what, f"{key} = {line.value} under [topics.{name}]")


def _overridden_by_config(scenario: Scenario, line: _Property, config: str) -> Iterator[UsageError]:
    """Report a default that each topic overrides in its `config`."""
    own = [topic.config.get(config) for topic in scenario.topics.values()]
    if None not in own and any(value != line.value for value in own) and not _takes_itself(scenario, config):
        yield line.without_effect(f"each topic has a {config} of its own", f"a topic without {config}")


def _takes_itself(scenario: Scenario, config: str) -> bool:
    """Whether brokers create a topic of Kafka's own in the run that takes this default, or may do so."""
    own = {OFFSETS_TOPIC: INTERNAL_TOPICS[OFFSETS_TOPIC], TRANSACTIONS_TOPIC: _OWN_OF_TRANSACTIONS}
    created = set()
    if scenario.groups:
        created.add(OFFSETS_TOPIC)
    if any(one.transactional for one in scenario.producers):
        created.add(TRANSACTIONS_TOPIC)
    return any(config not in own[name] for name in created.difference(scenario.topics))


def _differing_topics(scenario: Scenario, key: str, value: str) -> list[tuple[str, object]]:
    return [(name, topic) for name, topic in scenario.topics.items() if str(getattr(topic, key)) != value]
