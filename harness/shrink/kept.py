"""Says which steps of the recorded schedule a shrunk scenario has.

Kinds alone do not say it: a schedule may have two isolations of one broker, and a shrink keeps one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ebbtide.scenario.line_numbers import LineFinder
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.write import SCENARIO, keys_set
from ebbtide.untrusted.files import UnreadableFile, read_text
from harness.replay.recorded_run import LoadedRun

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
