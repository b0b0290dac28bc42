"""Finds what a run would do in vain.

Examples are triggers that cannot fire, levels that no release can have, copies that nobody reads, and properties of
nodes that have no effect where they stand.

A property counts where Kafka obeys it, as in any cluster. Where a topic's own setting overrides it, or where nodes of
its table do not read it, it has no effect, and the problem says which line has one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from ebbtide.errors import UsageError
from ebbtide.releases import first_with
from ebbtide.releases.known_releases import ELR_VERSION, version_of
from ebbtide.scenario.absent_words import absent_word
from ebbtide.scenario.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ebbtide.scenario.kafka_settings import kafka_properties, refused_kind, settings_at
from ebbtide.scenario.model import NODE_ROLES, ClusterSpec, NodeRole, ProducerSpec, Scenario
from ebbtide.scenario.steps.admin import SetFeatureStep
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.steps.wire import DuplicateRequestStep
from ebbtide.scenario.triggers import AfterTrigger, ElrTrigger, OffsetTrigger
from ebbtide.scenario.validate_upgrades import FEATURES, has_level

_PREVIEWS = ("unstable.", "eligible.leader.replicas.")
"""Properties that begin so switch on what a release does not have by itself."""


def validate_usefulness(scenario: Scenario) -> Iterator[UsageError]:
    """Report useless steps and copiers of the author's file, on the releases in it.

    What depends on the release is left to an optional step, and a refusal may be what a step is for.
    """
    targets = [step.to for step in scenario.steps if isinstance(step, UpgradeStep)]
    releases = tuple(dict.fromkeys((*scenario.kafka, *targets)))
    for index, step in enumerate(scenario.steps):
        where = f"steps[{index}]"
        if isinstance(step.trigger, AfterTrigger):
            yield from _too_late(step.trigger, step.deadline_s, f"{where}.trigger.after")
        if isinstance(step.trigger, OffsetTrigger):
            yield from _beyond_the_counts(scenario, step.trigger, f"{where}.trigger.hw_at_least.offset")
        if step.optional or not releases:
            continue
        if isinstance(step, SetFeatureStep):
            yield from _no_level(scenario.cluster, step, f"{where}.level", releases)
        if isinstance(step.trigger, ElrTrigger):
            yield from _no_elr(scenario, f"{where}.trigger.elr_contains", releases)
    for index, producer in enumerate(scenario.producers):
        if producer.copies is not None:
            yield from _unread_copies(scenario, producer, f"producers[{index}].copies")


def _unread_copies(scenario: Scenario, copier: ProducerSpec, where: str) -> Iterator[UsageError]:
    """Report a copier whose copies no read_committed consumer reads: whether one is visible then stays in doubt."""
    topic = copier.topic
    if not any(topic in one.topics and one.isolation == "read_committed" for one in scenario.consumers):
        yield UsageError(
            f"whether each input is copied once stays unknown: no read_committed consumer reads {topic}",
            where=where,
            got=repr(copier.copies),
            allowed=f"[[consumers]] with topics = ['{topic}'] and isolation = 'read_committed' beside it",
        )


def _too_late(trigger: AfterTrigger, deadline_s: float, where: str) -> Iterator[UsageError]:
    if trigger.seconds > deadline_s:
        yield UsageError(
            "can never fire: the deadline passes first",
            where=where,
            got=f"after = {trigger.time!r} with deadline_s = {deadline_s:g}",
            allowed=f"up to deadline_s, or deadline_s of {trigger.seconds:g} and more",
        )


def _beyond_the_counts(scenario: Scenario, trigger: OffsetTrigger, where: str) -> Iterator[UsageError]:
    """Report a HW above all records that can exist.

    Records of a transaction have markers beside them in the log.
    """
    if any(isinstance(one, DuplicateRequestStep) for one in scenario.steps):
        return
    for topic in sorted({name.at.topic for name in trigger.names}):
        counts = [_records(one) for one in scenario.producers if one.topic == topic]
        known = [one for one in counts if one is not None]
        # A topic without producers here is written to by someone else, if by anyone.
        if counts and len(known) == len(counts) and trigger.offset > sum(known):
            yield UsageError(
                f"can never fire: the producers of {topic} send {sum(known)} records in all",
                where=where,
                got=str(trigger.offset),
                allowed=f"up to {sum(known)}",
            )


def _records(producer: ProducerSpec) -> int | None:
    """How many records a producer writes; None if that is not certain.

    Without idempotence it may write a record twice.
    """
    return producer.count if producer.idempotent and not producer.transactional else None


def _no_elr(scenario: Scenario, where: str, releases: Sequence[str]) -> Iterator[UsageError]:
    cluster = scenario.cluster
    raised = any(isinstance(one, SetFeatureStep) and one.feature == ELR_VERSION and one.level for one in scenario.steps)
    fixed = cluster.features.get(ELR_VERSION) == 0 and not raised
    if any(name.startswith(_PREVIEWS) for name in (*cluster.controller_properties, *cluster.broker_properties)):
        return
    if fixed or all(version_of(one) < first_with.ELR for one in releases):
        why = f"{ELR_VERSION} = 0 in cluster.features" if fixed else f"Kafka {', '.join(releases)}"
        yield UsageError(
            "can never fire: no listed release can have an ELR here",
            where=where,
            got=why,
            allowed=f"a release from {first_with.ELR} on in kafka, and no {ELR_VERSION} = 0",
        )


def _no_level(cluster: ClusterSpec, step: SetFeatureStep, where: str, releases: Sequence[str]) -> Iterator[UsageError]:
    feature, level = step.feature, step.level
    if feature not in FEATURES or level < 0 or step.expect_error is not None:
        return
    if not any(has_level(one, feature, level, cluster) for one in releases):
        yield UsageError(
            "no listed release has this level",
            where=where,
            got=f"{feature} = {level} on Kafka {', '.join(releases)}",
            allowed="a level that one of them can be formatted with, or expect_error, the refusal that you expect",
        )


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
