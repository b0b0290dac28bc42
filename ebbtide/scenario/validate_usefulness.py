"""Finds what a run would do in vain.

Examples are triggers that cannot fire, levels that no release can have, and copies that nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from packaging.version import Version

from ebbtide.errors import UsageError
from ebbtide.releases import first_with
from ebbtide.releases.known_releases import ELR_VERSION, parse_version
from ebbtide.scenario.parts import Parts, StepPart, TablePart
from ebbtide.scenario.steps.admin import SetFeatureStep
from ebbtide.scenario.steps.wire import DuplicateRequestStep
from ebbtide.scenario.triggers import AfterTrigger, ElrTrigger, OffsetTrigger
from ebbtide.scenario.validate_features import FEATURES, level_of_no_release
from ebbtide.scenario.validate_triggers import partition_names
from ebbtide.scenario.validate_upgrades import upgrade_targets
from ebbtide.scenario.words import Duration

_PREVIEWS = ("unstable.", "eligible.leader.replicas.")
"""Properties that begin so switch on what a release does not have by itself."""


def validate_usefulness(parts: Parts) -> Iterator[UsageError]:
    """Report useless steps and copiers of the author's file, on the releases in it.

    What depends on the release is left to an optional step, and a refusal may be what a step is for.
    """
    releases = tuple(dict.fromkeys((*_releases(parts), *upgrade_targets(parts))))
    for index, step in enumerate(parts.steps or ()):
        where = f"steps[{index}]"
        if step.trigger is not None and step.trigger.type is AfterTrigger:
            yield from step.check(_too_late, step.trigger.get("time"), f"{where}.trigger.after")
        if step.trigger is not None and step.trigger.type is OffsetTrigger:
            yield from step.trigger.check(_beyond_the_counts, parts, step.trigger, f"{where}.trigger.hw_at_least")
        if releases and parts.cluster is not None and step.type is not None:
            yield from step.check(_on_releases, parts, parts.cluster, step, where, releases)
    for index, producer in enumerate(parts.producers or ()):
        if producer is not None:
            yield from producer.check(_unread_copies, parts, f"producers[{index}].copies")


def _unread_copies(parts: Parts, where: str, *, copies: str | None, topic: str) -> Iterator[UsageError]:
    """Report a copier whose copies no read_committed consumer reads: whether one is visible then stays in doubt."""
    if copies is None or parts.consumers is None:
        return
    if not any(one is None or _may_read_committed(one, topic) for one in parts.consumers):
        yield UsageError(
            f"whether each input is copied once stays unknown: no read_committed consumer reads {topic}",
            where=where,
            got=repr(copies),
            allowed=f"[[consumers]] with topics = ['{topic}'] and isolation = 'read_committed' beside it",
        )


def _may_read_committed(consumer: TablePart, topic: str) -> bool:
    topics = consumer.elements("topics")
    reads = "topics" in consumer.unread or topic in topics or None in topics
    return reads and consumer.may_be("isolation", "read_committed")


def _on_releases(
    parts: Parts, cluster: TablePart, step: StepPart, where: str, releases: Sequence[str], *, optional: bool | None
) -> Iterator[UsageError]:
    if optional:
        return
    if step.type is SetFeatureStep:
        yield from step.check(_no_level, cluster, f"{where}.level", releases)
    if step.trigger is not None and step.trigger.type is ElrTrigger:
        yield from cluster.check(_no_elr, parts, f"{where}.trigger.elr_contains", releases)


def _releases(parts: Parts) -> Sequence[str]:
    """Return the listed releases; none if one of them is invalid.

    Nothing more can be said of an invalid release.
    """
    try:
        for text in parts.kafka or ():
            parse_version(text)
    except UsageError:
        return ()
    return parts.kafka or ()


def _too_late(time: Duration, where: str, *, deadline_s: float) -> Iterator[UsageError]:
    if time.seconds > deadline_s:
        yield UsageError(
            "can never fire: the deadline passes first",
            where=where,
            got=f"after = {time!r} with deadline_s = {deadline_s:g}",
            allowed=f"up to deadline_s, or deadline_s of {time.seconds:g} and more",
        )


def _beyond_the_counts(parts: Parts, trigger: TablePart, where: str, *, offset: int) -> Iterator[UsageError]:
    """Report a HW above all records that can exist.

    Records of a transaction have markers beside them in the log.
    """
    if parts.steps is None or any(parts.steps_of(DuplicateRequestStep)):
        return
    for topic in sorted({name.at.topic for _, name in partition_names(trigger, where)}):
        yield from _beyond(parts, topic, offset, f"{where}.offset")


def _beyond(parts: Parts, topic: str, offset: int, where: str) -> Iterator[UsageError]:
    every = [one for one in parts.producers or (None,) if one is None or one.may_be("topic", topic)]
    counts = [_records(one) for one in every]
    known = [one for one in counts if one is not None]
    # A topic without producers here is written to by someone else, if by anyone.
    if counts and len(known) == len(counts) and offset > sum(known):
        yield UsageError(
            f"can never fire: the producers of {topic} send {sum(known)} records in all",
            where=where,
            got=str(offset),
            allowed=f"up to {sum(known)}",
        )


def _records(producer: TablePart | None) -> int | None:
    """How many records a producer writes; None if that is not certain.

    Without idempotence it may write a record twice.
    """
    if producer is None or not producer.unread.isdisjoint({"topic", "count", "idempotent", "transactional"}):
        return None
    once = producer.get("idempotent") and not producer.get("transactional")
    return cast(int | None, producer.get("count")) if once else None


def _no_elr(
    parts: Parts,
    where: str,
    releases: Sequence[str],
    *,
    controller_properties: Mapping[str, str],
    broker_properties: Mapping[str, str],
    features: Mapping[str, int],
) -> Iterator[UsageError]:
    properties = (*controller_properties, *broker_properties)
    raised = parts.steps is None or any(
        one.may_be("feature", ELR_VERSION) and one.get("level", 1) for one in parts.steps_of(SetFeatureStep)
    )
    fixed = features.get(ELR_VERSION) == 0 and not raised
    if any(name.startswith(_PREVIEWS) for name in properties):
        return
    if fixed or all(Version(one) < first_with.ELR for one in releases):
        why = f"{ELR_VERSION} = 0 in cluster.features" if fixed else f"Kafka {', '.join(releases)}"
        yield UsageError(
            "can never fire: no listed release can have an ELR here",
            where=where,
            got=why,
            allowed=f"a release from {first_with.ELR} on in kafka, and no {ELR_VERSION} = 0",
        )


def _no_level(
    cluster: TablePart, where: str, releases: Sequence[str], *, feature: str, level: int, expect_error: str | None
) -> Iterator[UsageError]:
    if feature in FEATURES and level >= 0 and expect_error is None:
        problem = UsageError(
            "no listed release has this level",
            where=where,
            got=f"{feature} = {level} on Kafka {', '.join(releases)}",
            allowed="a level that one of them can be formatted with, or expect_error, the refusal that you expect",
        )
        yield from cluster.check(level_of_no_release, releases, feature, level, problem)
