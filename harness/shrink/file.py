"""Writes the scenario file of a shrink.

The file says what it shows, how often, and from which run it comes.

Says which steps of the recorded schedule a shrunk scenario has.

Kinds alone do not say it: a schedule may have two isolations of one broker, and a shrink keeps one.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from ebbtide.scenario.line_numbers import LineFinder
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.parse import parse
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.write import SCENARIO, brief_text_of, keys_set
from ebbtide.untrusted.files import UnreadableFile, read_text
from harness.replay.recorded_run import LoadedRun
from harness.shrink.goal import Goal
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
        kafka=(recorded.manifest.kafka_name,),
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


_NOT_IDENTITY = ("step", "name", "trigger", "deadline_s", "optional")
"""Keys that say when a step fires, and not what it does to whom."""


class KeptStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the record that is in the result.

    - `index` is that of steps.jsonl, `line` that of the step in the record's scenario.toml; null if the file is too
      long for line numbers.
    - `text` is the kind and what it acts on. `whom` is what the run resolved it to.
    - `alike_left_out`: the indices of steps that do the same to the same, and that are not in the result.
    """

    index: int
    line: int | None
    text: str
    whom: str | None
    alike_left_out: tuple[int, ...] = ()

    def describe(self, file: str = "the run's scenario.toml") -> str:
        """Return the step in words, with its line in `file`, the record's scenario.

        Such as `step 4, power-loss broker(2), line 31 of runs/RUN/scenario.toml; not step 7, which does the same`.
        """
        parts = [f"step {self.index}", self.text + (f" ({self.whom})" if self.whom not in (None, self.text) else "")]
        if self.line is not None:
            parts.append(f"line {self.line} of {file}")
        said = ", ".join(parts)
        if self.alike_left_out:
            others = ", ".join(map(str, self.alike_left_out))
            does = "does" if len(self.alike_left_out) == 1 else "do"
            steps = "step" if len(self.alike_left_out) == 1 else "steps"
            said += f"; not {steps} {others}, which {does} the same"
        return said


def kept_steps(recorded: LoadedRun, indices: Iterable[int]) -> tuple[KeptStep, ...]:
    """Return the steps of the record with these indices."""
    kept = tuple(indices)
    steps = recorded.scenario.steps
    lines = LineFinder(_scenario_text(recorded))
    whom = {entry.index: entry.whom for entry in recorded.steps}
    left_out = [at for at in range(len(steps)) if at not in kept]
    return tuple(
        KeptStep(
            index=at,
            line=lines.line_of(f"steps[{at}]"),
            text=_text(steps[at]),
            whom=whom.get(at),
            alike_left_out=tuple(other for other in left_out if _identity(steps[other]) == _identity(steps[at])),
        )
        for at in kept
    )


def _scenario_text(recorded: LoadedRun) -> str:
    try:
        return read_text(recorded.folder / SCENARIO)
    except UnreadableFile:
        return ""


def _identity(step: StepSpec) -> tuple[str, dict[str, object]]:
    return step.step, {key: value for key, value in keys_set(step).items() if value and key not in _NOT_IDENTITY}


def _text(step: StepSpec) -> str:
    kind, keys = _identity(step)
    if keys.keys() == {"target"}:
        return f"{kind} {keys['target']}"
    return " ".join([kind, *(f"{key}={_value_text(value)}" for key, value in keys.items())])


def _value_text(value: Any) -> str:
    if not isinstance(value, list | tuple):
        return str(value)
    between = " | " if any(isinstance(one, list | tuple) for one in value) else ", "
    return between.join(map(_value_text, value))
