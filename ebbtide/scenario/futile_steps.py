"""Steps that a run would carry out in vain: triggers that cannot fire, levels that no release can be brought to."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from ebbtide.errors import UsageError
from ebbtide.releases import first_with
from ebbtide.releases.feature_levels import ELR_VERSION
from ebbtide.releases.known import parse_version
from ebbtide.scenario.admin_meaning import FEATURES, has_level
from ebbtide.scenario.model import OffsetTrigger, Scenario, StepSpec
from ebbtide.scenario.references import Wrong

_PREVIEWS = ("unstable.", "eligible.leader.replicas.")
"""Properties that begin so switch on what a release does not have by itself."""


def futile_steps(scenario: Scenario, wrong: Wrong) -> Iterator[UsageError]:
    """Those of the author's schedule, on the releases that the file lists.

    What depends on the release is left to an optional step, and a refusal may be what a step is for.
    """
    releases = [] if wrong("kafka") else _releases(scenario)
    for index, step in enumerate(scenario.steps):
        where = f"steps[{index}]"
        yield from _too_late(step, where, wrong)
        yield from _beyond_the_counts(scenario, step, where, wrong)
        if releases and not step.optional and not wrong("cluster"):
            yield from _no_elr(scenario, step, where, releases, wrong)
            yield from _no_level(scenario, step, where, releases, wrong)


def _releases(scenario: Scenario) -> list[str]:
    """The listed releases; none, where one of them is no release, of which nothing more can be said."""
    try:
        for text in scenario.kafka:
            parse_version(text)
    except UsageError:
        return []
    return list(scenario.kafka)


def _too_late(step: StepSpec, where: str, wrong: Wrong) -> Iterator[UsageError]:
    if step.trigger is None or step.trigger.after is None or wrong(f"{where}.deadline_s"):
        return
    after_s = step.trigger.after.seconds
    if after_s > step.deadline_s:
        yield UsageError(
            "can never fire: the deadline passes first",
            where=f"{where}.trigger.after",
            got=f"after = {step.trigger.after!r} with deadline_s = {step.deadline_s:g}",
            allowed=f"up to deadline_s, or deadline_s of {after_s:g} and more",
        )


def _beyond_the_counts(scenario: Scenario, step: StepSpec, where: str, wrong: Wrong) -> Iterator[UsageError]:
    """A HW above all records that there can be; those of a transaction have markers beside them in the log."""
    asked = step.trigger.hw_at_least if step.trigger is not None else None
    if asked is None or any(one.step == "duplicate-request" for one in scenario.steps):
        return
    for topic in sorted({name.rpartition("-")[0] for name in asked.asked}):
        yield from _beyond(scenario, topic, asked, f"{where}.trigger.hw_at_least.offset", wrong)


def _beyond(scenario: Scenario, topic: str, asked: OffsetTrigger, where: str, wrong: Wrong) -> Iterator[UsageError]:
    keys = ("topic", "count", "transactional", "idempotent")
    if wrong("producers") or any(
        wrong(f"producers[{at}].{key}") for at in range(len(scenario.producers)) for key in keys
    ):
        return
    producers = [one for one in scenario.producers if one.topic == topic]
    # Without idempotence a record may be written twice.
    counts = [one.count for one in producers if one.count is not None and one.idempotent and not one.transactional]
    # A topic without producers here is written to by someone else, if by anyone.
    if producers and len(counts) == len(producers) and asked.offset > sum(counts):
        yield UsageError(
            f"can never fire: the producers of {topic} send {sum(counts)} records in all",
            where=where,
            got=str(asked.offset),
            allowed=f"up to {sum(counts)}",
        )


def _no_elr(scenario: Scenario, step: StepSpec, where: str, releases: list[str], wrong: Wrong) -> Iterator[UsageError]:
    if step.trigger is None or step.trigger.elr_contains is None or wrong("steps"):
        return
    cluster = scenario.cluster
    properties = (*cluster.controller_properties, *cluster.broker_properties)
    raised = any(one.feature == ELR_VERSION and one.level != 0 for one in scenario.steps)
    fixed = cluster.features.get(ELR_VERSION) == 0 and not raised
    if any(name.startswith(_PREVIEWS) for name in properties):
        return
    if fixed or all(Version(one) < first_with.ELR for one in releases):
        why = f"{ELR_VERSION} = 0 in cluster.features" if fixed else f"Kafka {', '.join(releases)}"
        yield UsageError(
            "can never fire: no listed release can have an ELR here",
            where=f"{where}.trigger.elr_contains",
            got=why,
            allowed=f"a release from {first_with.ELR} on in kafka, and no {ELR_VERSION} = 0",
        )


def _no_level(
    scenario: Scenario, step: StepSpec, where: str, releases: list[str], wrong: Wrong
) -> Iterator[UsageError]:
    level = step.level
    if step.step != "set-feature" or step.feature not in FEATURES or level is None or level < 0:
        return
    if step.expect_error is not None or any(wrong(f"{where}.{key}") for key in ("step", "level", "expect_error")):
        return
    if not any(has_level(release, step.feature, level, scenario.cluster) for release in releases):
        yield UsageError(
            "no listed release has this level",
            where=f"{where}.level",
            got=f"{step.feature} = {level} on Kafka {', '.join(releases)}",
            allowed="a level that one of them can be formatted with, or expect_error, the refusal that is wanted",
        )
