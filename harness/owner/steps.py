"""Refuses a step that makes no sense before it touches anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from analysis.evidence.kraft.image import MetadataImage
from harness.errors import EbbtideError, Problems, UsageError
from harness.scenario.meaning import meaning
from harness.scenario.model import Scenario, StepSpec, TopicSpec
from harness.scenario.step_meaning import step_meaning


def refuse_nonsense(scenario: Scenario, step: StepSpec, image: MetadataImage) -> None:
    """Raises `Problems` with all that is wrong with `step` as the next one of `scenario`.

    A scenario with topics is judged by its file, so that the step has to fit in there. On a plain cluster the topics
    are those that it has now, and the order is up to whoever is at the keys.
    """
    problems: list[EbbtideError] = [
        UsageError(one.what, where=_key(one), got=one.got, allowed=one.allowed)
        for one in _problems(scenario, step, image)
    ]
    if problems:
        raise Problems(f"the step {step.step}", problems, next="ebbtide fault --help")


def _problems(scenario: Scenario, step: StepSpec, image: MetadataImage) -> Iterator[UsageError]:
    where = f"steps[{len(scenario.steps)}]"
    if scenario.topics:
        whole = msgspec.structs.replace(scenario, steps=(*scenario.steps, step))
        yield from (one for one in meaning(whole, _nothing_wrong) if str(one.where).startswith(where))
    else:
        whole = msgspec.structs.replace(scenario, topics=_topics(image))
        names = {one.name for one in scenario.steps if one.name is not None}
        yield from step_meaning(whole, step, where, names, _nothing_wrong)


def _topics(image: MetadataImage) -> dict[str, TopicSpec]:
    """The topics that the cluster has, by their numbers of partitions."""
    counts = Counter(partition.topic for partition in image.partitions)
    return {topic: TopicSpec(partitions=count) for topic, count in counts.items()}


def _nothing_wrong(_path: str) -> bool:
    return False


def _key(problem: UsageError) -> str | None:
    """`target` of `steps[3].target`."""
    return None if problem.where is None else problem.where.partition(".")[2] or None
