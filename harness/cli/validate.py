"""`ebbtide validate FILE...`: checks scenario files without running anything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ebbtide.errors import EbbtideError, ExitCode, Problems, UsageError
from ebbtide.plurals import plural
from harness.cli.command import Args, Command

if TYPE_CHECKING:
    from ebbtide.scenario.model import Scenario


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Check scenario files, and print every problem. A release that Ebbtide does not know is only a warning. Exit "
        "code 0: all files are valid, 4: at least one is not."
    )
    command.argument(
        "files",
        many=True,
        metavar="FILE",
        type=Path,
        help="a scenario file (.toml), or a name from `ebbtide scenarios`",
    )
    command.flag("--json", help="print one JSON object for each file, one a line")
    return command


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A mistake in a file: what is wrong, where, what was found, what is allowed, and what to type next."""

    what: str
    where: str | None = None
    line: int | None = None
    got: str | None = None
    allowed: str | None = None
    next: str | None = None


class CheckedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario file: what it describes, or its problems. A file without problems is valid, also with warnings."""

    file: str
    valid: bool
    scenario: str | None = None
    steps: int | None = None
    kafka: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def run(args: Args) -> ExitCode:
    """Check each file, even after an invalid one."""
    code = ExitCode.AS_PREDICTED
    for file in args.files:
        try:
            scenario, warnings = _load(file)
        except EbbtideError as error:
            code = ExitCode.USAGE
            if args.json:
                found = error.problems if isinstance(error, Problems) else (error,)
                _print_json(CheckedFile(file=str(file), valid=False, problems=tuple(map(_problem, found))))
            else:
                print(f"error: {error.render()}", file=sys.stderr)
        else:
            if args.json:
                checked = CheckedFile(
                    file=str(file),
                    valid=True,
                    scenario=scenario.name,
                    steps=len(scenario.steps),
                    kafka=tuple(scenario.kafka),
                    warnings=tuple(map(_problem, warnings)),
                )
                _print_json(checked)
                continue
            many = plural(len(scenario.steps), "step")
            named = "" if str(file) == scenario.name else f"{scenario.name}: "
            print(f"{file}: ok, {named}{many} on Kafka {', '.join(scenario.kafka)}", flush=True)
            for one in warnings:
                print(f"warning: {file}: {one.render()}", file=sys.stderr)
    return code


def _load(file: Path) -> tuple[Scenario, list[UsageError]]:
    """Read a file, or the shipped scenario of this name; returns it with its warnings. Raises `EbbtideError`."""
    from ebbtide.scenario import catalogue
    from ebbtide.scenario.line_numbers import add_lines
    from ebbtide.scenario.parse import load, parse
    from ebbtide.scenario.unknown_releases import unknown_releases
    from ebbtide.untrusted.files import is_file, is_folder, read_text

    name = str(file)
    if not is_file(file) and not is_folder(file) and _may_be_a_name(name):
        scenario = parse(catalogue.text_of(name), file=f"{name}.toml", strict=True)
    else:
        scenario = load(file, strict=True)
    warnings = unknown_releases(scenario)
    if warnings and is_file(file):
        add_lines(read_text(file, what="the scenario file"), warnings)
    return scenario, warnings


def _may_be_a_name(name: str) -> bool:
    """Whether a word may be a mistyped name from the catalogue, and not the path of a file."""
    return "/" not in name and not name.endswith(".toml")


def _problem(error: EbbtideError) -> Problem:
    return Problem(
        what=error.what, where=error.where, line=error.line, got=error.got, allowed=error.allowed, next=error.next
    )


def _print_json(file: CheckedFile) -> None:
    print(msgspec.json.encode(file).decode())
