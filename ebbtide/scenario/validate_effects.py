"""Finds properties of nodes that have no effect where they stand.

A property counts where Kafka obeys it, as in any cluster. Where a topic's own setting overrides it, or where nodes of
its table do not read it, it has no effect, and the problem says which line has one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import parse_version
from ebbtide.scenario.absent_words import absent_word
from ebbtide.scenario.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ebbtide.scenario.kafka_properties import kafka_properties
from ebbtide.scenario.kafka_settings import refused_kind, settings_at
from ebbtide.scenario.model import NODE_ROLES, NodeRole
from ebbtide.scenario.parts import Parts, TablePart
from ebbtide.scenario.steps.admin import DeleteTopicStep

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


def validate_effects(parts: Parts, written: Mapping[str, object]) -> Iterator[UsageError]:
    """Report each property of a node that nobody obeys where it stands.

    `written` is the file as its author wrote it, without defaults.
    """
    topics = written.get("topics")
    keys = {name: frozenset(table) for name, table in topics.items()} if isinstance(topics, dict) else {}
    for role in NODE_ROLES:
        given: Mapping[str, str] = {} if parts.cluster is None else parts.cluster.elements(f"{role}_properties", {})
        for name, value in given.items():
            yield from _problem(parts, keys, _Property(role=role, name=name, value=value), given)


def _problem(
    parts: Parts, keys: Mapping[str, Collection[str]], line: _Property, beside: Mapping[str, str]
) -> Iterator[UsageError]:
    """Report the first reason why a line has no effect."""
    if refused_kind("node", line.name) is not None:
        # `validate_settings` reports it.
        return
    known = kafka_properties()
    obeyer = known.obeyer_of(line.name)
    if obeyer == "nobody":
        yield line.without_effect("no node of a KRaft cluster reads it", "no such line")
    elif (why := _why_absent(line.name, parts.kafka or ())) is not None:
        yield line.without_effect(why, absent_word(line.name, "properties") or "no such line")
    elif obeyer is not None and obeyer != f"{line.role}s":
        yield line.without_effect(f"only {obeyer} obey it", known.place_of(line.name, line.value))
    elif read := [one for one in known.read_before(line.name) if one in beside]:
        yield line.without_effect(f"Kafka reads {read[0]} instead", f"one of {read[0]} and {line.name}")
    elif line.name in known.auto_created:
        if parts.steps is not None and not _may_auto_create(parts, beside):
            yield from _unused_default(parts, keys, line)
    elif (key := known.topic_keys.get(line.name)) is not None:
        yield from _overridden_by_key(parts, keys, line, key)
    elif (config := known.topic_defaults.get(line.name)) is not None and line.name not in known.effects_of_their_own:
        yield from _overridden_by_config(parts, line, config)
    else:
        for topic, names in known.internal_topics.items():
            if topic in (parts.topics or {}) and line.name in names:
                yield line.without_effect(f"the scenario makes {topic}", f"the keys of [topics.{topic}]")


def _why_absent(name: str, releases: Sequence[str]) -> str | None:
    """Return why none of these releases knows a property; None if one may know it, or if they are no releases."""
    setting = settings_at("node").get(name)
    try:
        return None if setting is None else setting.why_absent([parse_version(release) for release in releases])
    except UsageError:
        return None


def _may_auto_create(parts: Parts, brokers: Mapping[str, str]) -> bool:
    """Whether a client may ask for a topic that is not there: only for one that a step has deleted."""
    return brokers.get("auto.create.topics.enable") == "true" and any(parts.steps_of(DeleteTopicStep))


def _unused_default(parts: Parts, keys: Mapping[str, Collection[str]], line: _Property) -> Iterator[UsageError]:
    """Report a setting of topics that brokers create by themselves, unless it agrees with the topics that there are."""
    key = kafka_properties().topic_keys.get(line.name)
    if key is None:
        if line.value == "true":
            what = "every topic is there before a client asks for it"
            yield line.without_effect(what, "a topic of its own for each name, [topics.NAME]")
        return
    yield from _differing(line, key, [one for one in _topics(parts) if _differs(one[1], key, line.value)], keys)


def _overridden_by_key(
    parts: Parts, keys: Mapping[str, Collection[str]], line: _Property, key: str
) -> Iterator[UsageError]:
    """Report a default that topics do not take because of Ebbtide's own default, or that no topic takes."""
    differing = [(name, topic) for name, topic in _topics(parts) if _differs(topic, key, line.value)]
    silent = [one for one in differing if key not in keys.get(one[0], ())]
    yield from _differing(line, key, silent or ([] if _takes_itself(parts, line.name) else differing), keys)


def _differing(
    line: _Property, key: str, topics: list[tuple[str, TablePart]], keys: Mapping[str, Collection[str]]
) -> Iterator[UsageError]:
    for name, topic in topics[:1]:
        by_default = "" if key in keys.get(name, ()) else " by default"
        what = f"{key} of topic {name} is {topic.get(key)}{by_default}"
        yield line.without_effect(what, f"{key} = {line.value} under [topics.{name}]")


def _overridden_by_config(parts: Parts, line: _Property, config: str) -> Iterator[UsageError]:
    """Report a default that each topic overrides in its `config`."""
    topics = _topics(parts)
    own = [one.get("config", {}).get(config) for _, one in topics]
    if None not in own and any(value != line.value for value in own) and not _takes_itself(parts, config):
        yield line.without_effect(f"each topic has a {config} of its own", f"a topic without {config}")


def _takes_itself(parts: Parts, config: str) -> bool:
    """Whether brokers create a topic of Kafka's own in the run that takes this default, or may do so."""
    own = {OFFSETS_TOPIC: INTERNAL_TOPICS[OFFSETS_TOPIC], TRANSACTIONS_TOPIC: _OWN_OF_TRANSACTIONS}
    created = set()
    if _may_have(parts.producers, "group") or _may_have(parts.consumers, "group"):
        created.add(OFFSETS_TOPIC)
    if _may_have(parts.producers, "transactional"):
        created.add(TRANSACTIONS_TOPIC)
    return any(config not in own[name] for name in created.difference(parts.topics or ()))


def _may_have(clients: tuple[TablePart | None, ...] | None, key: str) -> bool:
    return clients is None or any(one is None or one.has_value(key) for one in clients)


def _topics(parts: Parts) -> list[tuple[str, TablePart]]:
    return [(name, one) for name, one in (parts.topics or {}).items() if one is not None]


def _differs(topic: TablePart, key: str, value: str) -> bool:
    return key not in topic.unread and str(topic.get(key)) != value
