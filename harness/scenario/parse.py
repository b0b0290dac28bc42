"""Reads scenario files; a wrong one is refused whole, with all its problems at once."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from harness.errors import EbbtideError, Problems, UsageError
from harness.scenario.check import check
from harness.scenario.meaning import meaning
from harness.scenario.model import Scenario


def load(path: Path, *, next: str = "ebbtide scenarios show healthy") -> Scenario:
    """Read and check a scenario file.

    `next` is what to type after mending it: by default a shipped file to compare with. Raises `Problems` with
    every problem of the file, or `UsageError` when it cannot be read.
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise UsageError("cannot read the scenario file", where=str(path), got=error.strerror, next=next) from None
    except UnicodeDecodeError as error:
        raise UsageError("the scenario file is not UTF-8", where=str(path), got=str(error), next=next) from None
    return parse(text, file=str(path), next=next)


def parse(text: str, *, file: str, next: str | None = None) -> Scenario:
    """Check the text of a scenario file; `file` names it in errors."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Problems(file, [UsageError("not TOML", got=str(error))], next=next) from None
    checked = check(raw, Scenario)
    scenario = msgspec.convert(checked.value, Scenario)
    problems: list[EbbtideError] = [*checked.problems]
    problems += [one for one in meaning(scenario, checked.wrong) if not checked.wrong(str(one.where))]
    if problems:
        raise Problems(file, problems, next=next)
    return scenario
