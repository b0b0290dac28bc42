"""Finds steps that a run would carry out in vain.

Examples are triggers that cannot fire, and levels that no release can have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.version import Version

from ebbtide.errors import UsageError
from ebbtide.releases import first_with
from ebbtide.releases.feature_levels import ELR_VERSION
from ebbtide.releases.known_releases import parse_version
from ebbtide.scenario.model import ClusterSpec
from ebbtide.scenario.parts import Parts, as_far_as_read
from ebbtide.scenario.steps.admin import SetFeatureStep
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.wire import DuplicateRequestStep
from ebbtide.scenario.triggers import AfterTrigger, ElrTrigger, OffsetTrigger
from ebbtide.scenario.validate_features import FEATURES, has_level

_PREVIEWS = ("unstable.", "eligible.leader.replicas.")
"""Properties that begin so switch on what a release does not have by itself."""


def validate_usefulness(parts: Parts) -> Iterator[UsageError]:
    """Report useless steps of the author's schedule, on the releases in the file.

    What depends on the release is left to an optional step, and a refusal may be what a step is for.
    """
    releases, steps = _releases(parts), parts.every_step()
    every = None if steps is None else tuple(steps)
    for index, part in enumerate(parts.steps or ()):
        if part.step is not None:
            yield from as_far_as_read(_too_late(part.step, f"steps[{index}]"))
            yield from as_far_as_read(_beyond_the_counts(parts, part.step, every, f"steps[{index}]"))
            yield from as_far_as_read(_on_releases(parts, part.step, every, f"steps[{index}]", releases))


def _on_releases(
    parts: Parts, step: StepSpec, every: Sequence[StepSpec] | None, where: str, releases: Sequence[str]
) -> Iterator[UsageError]:
    if not releases or step.optional or parts.cluster is None:
        return
    if isinstance(step, SetFeatureStep):
        yield from _no_level(parts.cluster, step, f"{where}.level", releases)
    if isinstance(step.trigger, ElrTrigger) and every is not None:
        yield from _no_elr(parts.cluster, every, f"{where}.trigger.elr_contains", releases)


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


def _too_late(step: StepSpec, where: str) -> Iterator[UsageError]:
    if isinstance(step.trigger, AfterTrigger) and step.trigger.seconds > step.deadline_s:
        yield UsageError(
            "can never fire: the deadline passes first",
            where=f"{where}.trigger.after",
            got=f"after = {step.trigger.time!r} with deadline_s = {step.deadline_s:g}",
            allowed=f"up to deadline_s, or deadline_s of {step.trigger.seconds:g} and more",
        )


def _beyond_the_counts(
    parts: Parts, step: StepSpec, every: Sequence[StepSpec] | None, where: str
) -> Iterator[UsageError]:
    """Report a HW above all records that can exist.

    Records of a transaction have markers beside them in the log.
    """
    trigger = step.trigger
    if not isinstance(trigger, OffsetTrigger) or every is None:
        return
    if not any(isinstance(one, DuplicateRequestStep) for one in every):
        for topic in sorted({name.at.topic for name in trigger.names}):
            yield from _beyond(parts, topic, trigger.offset, f"{where}.trigger.hw_at_least.offset")


def _beyond(parts: Parts, topic: str, offset: int, where: str) -> Iterator[UsageError]:
    every = parts.producers or ()
    producers = [one for one in every if one is not None and one.topic == topic]
    if any(one is None for one in every):
        return
    # Without idempotence a record may be written twice.
    counts = [one.count for one in producers if one.count is not None and one.idempotent and not one.transactional]
    # A topic without producers here is written to by someone else, if by anyone.
    if producers and len(counts) == len(producers) and offset > sum(counts):
        yield UsageError(
            f"can never fire: the producers of {topic} send {sum(counts)} records in all",
            where=where,
            got=str(offset),
            allowed=f"up to {sum(counts)}",
        )


def _no_elr(
    cluster: ClusterSpec, steps: Sequence[StepSpec], where: str, releases: Sequence[str]
) -> Iterator[UsageError]:
    properties = (*cluster.controller_properties, *cluster.broker_properties)
    raised = any(isinstance(one, SetFeatureStep) and one.feature == ELR_VERSION and one.level for one in steps)
    fixed = cluster.features.get(ELR_VERSION) == 0 and not raised
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


def _no_level(cluster: ClusterSpec, step: SetFeatureStep, where: str, releases: Sequence[str]) -> Iterator[UsageError]:
    if step.feature not in FEATURES or step.level < 0 or step.expect_error is not None:
        return
    if not any(has_level(release, step.feature, step.level, cluster) for release in releases):
        yield UsageError(
            "no listed release has this level",
            where=where,
            got=f"{step.feature} = {step.level} on Kafka {', '.join(releases)}",
            allowed="a level that one of them can be formatted with, or expect_error, the refusal that is wanted",
        )
