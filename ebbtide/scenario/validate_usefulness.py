"""Finds what a run would do in vain.

Examples are triggers that cannot fire, levels that no release can have, and copies that nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebbtide.errors import UsageError
from ebbtide.releases import first_with
from ebbtide.releases.known_releases import ELR_VERSION, version_of
from ebbtide.scenario.model import ClusterSpec, ProducerSpec, Scenario
from ebbtide.scenario.steps.admin import SetFeatureStep
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.steps.wire import DuplicateRequestStep
from ebbtide.scenario.triggers import AfterTrigger, ElrTrigger, OffsetTrigger
from ebbtide.scenario.validate_features import FEATURES, has_level

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
