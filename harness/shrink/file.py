"""Writes the scenario file of a shrink.

The file says what it shows, how often, and from which run it comes.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import msgspec

from ebbtide.scenario.model import Scenario
from ebbtide.scenario.parse import parse
from ebbtide.scenario.write import brief_text_of
from ebbtide.untrusted.files import UnreadableFile, read_text
from harness.replay.recorded_run import LoadedRun
from harness.shrink.goal import Goal
from harness.shrink.kept import kept_steps
from harness.shrink.search import SmallerScenario
from harness.shrink.steps import kinds_text

_NAME_MAX = 64
_SUFFIX = "-shrunk"


def start_scenario(pinned: Scenario, recorded: LoadedRun, goal: Goal) -> Scenario:
    """Return the scenario to shrink, which predicts the finding.

    It is the recorded scenario, `pinned` to its replicas. Its text is part of every key in the
    journal: with other words here, an earlier shrink would begin again.
    """
    scenario = recorded.scenario
    name = scenario.name.removesuffix(_SUFFIX)[: _NAME_MAX - len(_SUFFIX)] + _SUFFIX
    return msgspec.structs.replace(
        pinned,
        name=name,
        title=f"{', '.join(goal.facts)}: the least that is left of {scenario.name}",
        description=f"Shrunk from run {recorded.manifest.run_id}, {scenario.title}.",
        kafka=(recorded.manifest.kafka,),
        predictions=(goal.prediction,),
    )


def file_text(smaller: SmallerScenario, recorded: LoadedRun, goal: Goal) -> str:
    """Return the TOML file with comments at its head.

    Parsing it gives the scenario again.
    """
    scenario, before = smaller.scenario, recorded.scenario
    if not smaller.finished:
        # The title in the journal's keys stays: the same command goes on with the answers under them.
        title = f"{', '.join(goal.facts)}: what is left of {before.name} so far"
        scenario = msgspec.structs.replace(scenario, title=title)
    lines = [
        f"Shows: {', '.join(goal.facts)}, on Kafka {recorded.manifest.shown_kafka}, "
        f"in {smaller.shown} of {smaller.times} runs.",
        f"{_origin(recorded.manifest.run_id)}({before.name}): {_size(before)}.",
        f"What is left of it: {_size(scenario)}: {kinds_text(scenario.steps)}.",
        *(f"Kept: {one.describe()}." for one in kept_steps(recorded, smaller.indices)),
        f"Written by `ebbtide shrink`{_how_far(smaller)}.",
    ]
    if goal.besides:
        lines.insert(1, f"The run also shows {', '.join(goal.besides)}; this scenario may not.")
    head = "\n".join(textwrap.fill(line, 118, initial_indent="# ", subsequent_indent="#   ") for line in lines)
    text = f"{head}\n\n{brief_text_of(scenario)}"
    parse(text, file="the shrunk scenario", to_run=True)
    return text


def is_from(file: Path, run_id: str) -> bool:
    """Whether the head of the file says that a shrink of this run wrote it."""
    try:
        # A line that was wrapped after the run id has no blank there.
        return any(f"{line} ".startswith(f"# {_origin(run_id)}") for line in read_text(file).splitlines())
    except UnreadableFile:
        return False


def _origin(run_id: str) -> str:
    return f"From run {run_id} "


def _how_far(smaller: SmallerScenario) -> str:
    if not smaller.finished:
        return ", which did not finish: the same command may make it smaller"
    if smaller.gave_way:
        return "; a smaller scenario showed this only in half of its runs or fewer"
    return "; without any one of the steps, no run showed this"


def _size(scenario: Scenario) -> str:
    counts = {
        "step": len(scenario.steps),
        "broker": scenario.cluster.brokers,
        "controller": scenario.cluster.controllers,
        "partition": sum(topic.partitions for topic in scenario.topics.values()),
        "producer": len(scenario.producers),
        "consumer": len(scenario.consumers),
    }
    records = [one.count for one in scenario.producers]
    parts = [f"{count} {noun}{'s' if count != 1 else ''}" for noun, count in counts.items()]
    if None not in records:
        parts.append(f"{sum(count or 0 for count in records):,} records")
    return ", ".join(parts)
