"""The scenario file that a shrink leaves: what it shows, where it comes from, and how often it does."""

from __future__ import annotations

import textwrap
from pathlib import Path

import msgspec

from ebbtide.scenario.model import Scenario
from ebbtide.scenario.parse import parse
from ebbtide.scenario.write import brief_text_of
from harness.replay.recorded import RecordedRun
from harness.shrink.goal import Goal
from harness.shrink.search import Smaller
from harness.shrink.steps import described

_NAME_MAX = 64
_SUFFIX = "-shrunk"


def starting_point(pinned: Scenario, recorded: RecordedRun, goal: Goal) -> Scenario:
    """What is shrunk: the recorded scenario, its replicas `pinned`, predicting the finding on the record's release."""
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


def file_text(smaller: Smaller, recorded: RecordedRun, goal: Goal) -> str:
    """The TOML file, with comments at its head; parsing it yields the scenario again."""
    scenario, before = smaller.scenario, recorded.scenario
    lines = [
        f"Shows: {', '.join(goal.facts)}, on Kafka {recorded.manifest.kafka}, "
        f"in {smaller.shown} of {smaller.times} runs.",
        f"{_origin(recorded.manifest.run_id)}({before.name}): {_size(before)}.",
        f"What is left of it: {_size(scenario)}: {described(scenario.steps)}.",
        f"Written by `ebbtide shrink`{_how_far(smaller)}.",
    ]
    if goal.besides:
        lines.insert(1, f"The run also shows {', '.join(goal.besides)}, which need not come again.")
    head = "\n".join(textwrap.fill(line, 118, initial_indent="# ", subsequent_indent="#   ") for line in lines)
    text = f"{head}\n\n{brief_text_of(scenario)}"
    parse(text, file="the shrunk scenario", to_run=True)
    return text


def is_from(file: Path, run_id: str) -> bool:
    """Whether an earlier shrink of this run wrote the file, as its head says."""
    try:
        # Where a line is broken at it, the blank is gone.
        return any(f"{line} ".startswith(f"# {_origin(run_id)}") for line in file.read_text("utf-8").splitlines())
    except (OSError, UnicodeDecodeError):
        return False


def _origin(run_id: str) -> str:
    return f"From run {run_id} "


def _how_far(smaller: Smaller) -> str:
    if not smaller.finished:
        return ", which did not get to the end: it may become smaller yet"
    if smaller.gave_way:
        return "; what it found that is smaller yet showed this in half of its runs or fewer"
    return "; none of the steps could be left out"


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
    told = [f"{count} {noun}{'s' if count != 1 else ''}" for noun, count in counts.items()]
    if None not in records:
        told.append(f"{sum(count or 0 for count in records):,} records")
    return ", ".join(told)
