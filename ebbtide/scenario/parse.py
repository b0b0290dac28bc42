"""Reads scenario files, and reports the problems of a wrong file together.

Where the file does not fit the types, these are all such places. Once it fits, they are a wrong name and wrong
releases. Once these are right, they are all that the file means wrongly.

A file that is too large to check within a second is refused: the work of some checks grows with the square of the
steps, or with the number of predictions times that of releases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ebbtide.errors import EbbtideError, Problems, UsageError
from ebbtide.releases.known_releases import with_current_releases
from ebbtide.scenario.foreign_files import SCENARIO_FILE, foreign_file_error
from ebbtide.scenario.line_numbers import LineFinder, add_lines
from ebbtide.scenario.mismatches import mismatches, validate_texts
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.plain_values import from_plain
from ebbtide.scenario.references import UnknownTopic
from ebbtide.scenario.safety import validate_words
from ebbtide.scenario.shipped import show_example
from ebbtide.scenario.steps.table import help_of_kind
from ebbtide.scenario.validate import validate
from ebbtide.scenario.validate_predictions import validate_predictions
from ebbtide.scenario.validate_usefulness import validate_effects, validate_usefulness
from ebbtide.untrusted.files import UnreadableFile, is_file, read_text
from ebbtide.untrusted.values import decode_toml

PROBLEMS_MAX = 100
"""A file with more is not read further: finding what each wrong word resembles takes a millisecond."""
_CATALOGUE = "ebbtide scenarios    (lists the catalogue; `scenarios show NAME` prints a file)"


def load(
    path: Path,
    *,
    next: str | None = None,
    strict: bool = False,
    to_run: bool = False,
    of_record: bool = False,
    defaults: Mapping[str, object] | None = None,
) -> Scenario:
    """Read and check a scenario file; `strict`, `to_run`, `of_record` and `defaults` as in `parse`.

    `next` is what to type after fixing it: by default the help of the kind of step that is wrong, or a shipped file
    that uses the key which is wrong. Raises `Problems`, or `UsageError` when the file cannot be read.
    """
    try:
        # Editors on Windows begin it with a byte order mark.
        text = read_scenario_text(path)
    except UnreadableFile as error:
        error.add_next((next or show_example(None)) if is_file(path) else _CATALOGUE)
        raise
    try:
        return parse(
            text, file=str(path), next=next, strict=strict, to_run=to_run, of_record=of_record, defaults=defaults
        )
    except Problems as found:
        shown = found.next or show_example(str(getattr(found.problems[0], "where", None)))
        raise Problems(str(path), [*found.problems], next=shown) from None


def _not_toml(file: str, text: str, error: ValueError) -> UsageError:
    """Return the error of a file that Python's TOML reader refused, with the line at fault if that is known."""
    lines = text.split("\n")
    named = re.search(r"at line ([0-9]+)", str(error))
    # A value that never ends is at fault where it begins, and not at the end of the file.
    line = int(named[1]) if named else LineFinder(text).first_unreadable_line()
    shown = f": {lines[line - 1].strip()}" if line is not None and line <= len(lines) else ""
    is_twice = "overwrite" in str(error) or "twice" in str(error)
    allowed = "each key and each table once" if is_twice else 'TOML, in which a text has quotes: acks = "all"'
    return UsageError("not TOML", where=file, got=f"{error}{shown}", allowed=allowed).at_line(line)


def parse(
    text: str,
    *,
    file: str,
    next: str | None = None,
    strict: bool = False,
    to_run: bool = False,
    of_record: bool = False,
    defaults: Mapping[str, object] | None = None,
) -> Scenario:
    """Check the text of a scenario file; `file` names it in errors.

    `strict`: as its author wrote it, and with a run before it. Then it may hold nothing that a run would do in vain.
    The scenario of a record has been run, maybe on other releases, with other levels or shorter deadlines than its
    author gave it, and what came of it is there to be judged.
    `to_run`: a cluster may be started from it, so it may set no property by which Kafka writes or runs files outside of
    the run's folder, and start no node with a dead volume. `strict` includes this.
    `of_record`: it is judged, and its steps may name topics that a test made for its own clients.
    `defaults` are values of top-level keys that the text may leave out.
    """
    try:
        decoded = decode_scenario_text(text)
    except UsageError as too_long:
        raise Problems(file, [too_long], next=next) from None
    except ValueError as error:
        not_toml = Problems(file, [_not_toml(file, text, error)], next=next)
        raise foreign_file_error(file, text, SCENARIO_FILE) or not_toml from None
    if decoded.keys().isdisjoint(Scenario.__struct_fields__):
        # A server.properties with numbers only is TOML.
        foreign = foreign_file_error(file, text, SCENARIO_FILE)
        if foreign is not None:
            raise foreign
    raw = {**(defaults or {}), **decoded}
    try:
        return scenario_from_decoded(raw, file=file, next=next, strict=strict, to_run=to_run, of_record=of_record)
    except Problems as found:
        add_lines(text, found.problems)
        raise Problems(file, [*found.problems], next=found.next) from None


def scenario_from_decoded(
    raw: dict[str, object],
    *,
    file: str,
    next: str | None = None,
    strict: bool = False,
    to_run: bool = False,
    of_record: bool = False,
) -> Scenario:
    """Check the decoded content of a scenario file, as `parse` does; its errors have no lines. Raises `Problems`."""
    raw = with_current_releases(raw)
    problems = list(islice(_problems(raw, strict=strict, to_run=to_run, of_record=of_record), PROBLEMS_MAX))
    if len(problems) == PROBLEMS_MAX:
        what = f"the file has {PROBLEMS_MAX} problems or more, of which these are the first"
        problems.append(UsageError(what))
    else:
        told = {one.where for one in problems}
        problems += [one for one in validate_texts(raw) if one.where not in told]
    if problems:
        raise Problems(file, problems, next=next or _help_of_step(raw, problems))
    return from_plain(raw, Scenario)


def _problems(raw: dict[str, object], *, strict: bool, to_run: bool, of_record: bool) -> Iterator[EbbtideError]:
    """Yield the problems of a file: where it does not fit the types, else wrong words, else what it means."""
    found = mismatches(raw, Scenario, most=PROBLEMS_MAX)
    if not found:
        scenario = from_plain(raw, Scenario)
        found = list(validate_words(scenario))
    yield from found
    if found:
        return
    for problem in validate(scenario, to_run=strict or to_run):
        if not (of_record and isinstance(problem, UnknownTopic) and str(problem.where).startswith("steps[")):
            yield problem
    if strict:
        yield from validate_usefulness(scenario)
        yield from validate_effects(scenario, raw)
        yield from validate_predictions(scenario)


def _help_of_step(raw: Mapping[str, Any], problems: Sequence[EbbtideError]) -> str | None:
    """The help of the first wrong step's kind, or the list of kinds; None if something else is wrong too."""
    places = [re.match(r"steps\[(\d{1,4})\]\.", str(getattr(one, "where", None))) for one in problems]
    # A key may look like a place, so there need not be such a step.
    steps = dict(enumerate(raw["steps"])) if isinstance(raw.get("steps"), list) else {}
    wrong = [steps.get(int(one[1])) for one in places if one is not None]
    if not wrong or len(wrong) < len(problems) or not isinstance(wrong[0], dict):
        return None
    return help_of_kind(str(wrong[0].get("step")))


def requested_levels(scenario: Path) -> Mapping[str, int]:
    """Return the feature levels that a scenario file asks for.

    Returns none if the file is missing or cannot be read.
    """
    try:
        return load(scenario).cluster.features
    except EbbtideError:
        return {}


BYTES_MAX = 256 << 10
"""Fifty times the largest scenario that comes with Ebbtide."""
ELEMENTS_MAX = 1_000
"""Of one list or table. A random schedule has at most 200 steps, and those that heal."""
_RELEASES_MAX = 100


def read_scenario_text(path: Path) -> str:
    """Return the text of a scenario file. Raises `UnreadableFile`."""
    return read_text(path, what="the scenario file", bytes_max=BYTES_MAX)


def decode_scenario_text(text: str) -> dict[str, object]:
    """Return the tables of a scenario file. Raises `ValueError` for other text than TOML, and `UsageError`."""
    decoded = decode_toml(text)
    for where, part in _lists_and_tables(decoded):
        most = _RELEASES_MAX if where == "kafka" else ELEMENTS_MAX
        if len(part) > most:
            raise UsageError(
                "too long for a scenario",
                where=where or "top level of the file",
                got=f"{len(part):,} {'keys' if isinstance(part, dict) else 'elements'}",
                allowed=f"up to {most:,}",
            )
    return decoded


def _lists_and_tables(decoded: dict[str, object]) -> Iterator[tuple[str, dict[str, object] | list[Any]]]:
    waiting: list[tuple[str, Any]] = [("", decoded)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, dict):
            yield where, value
            waiting += [(f"{where}.{key}" if where else key, one) for key, one in value.items()]
        elif isinstance(value, list):
            yield where, value
            waiting += [(f"{where}[{at}]", one) for at, one in enumerate(value)]
