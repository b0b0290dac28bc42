"""`ebbtide scenarios check FILE...`: checks scenario files without running anything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ebbtide.errors import EbbtideError, ExitCode, Problems, UsageError
from ebbtide.shown_text import plural
from harness.cli import options
from harness.cli.command import Args, Command
from harness.cli.output import print_json

if TYPE_CHECKING:
    from ebbtide.scenario.model import Scenario


def command() -> Command:
    """Declare the files."""
    command = Command(
        "Check scenario files and the workloads of `ebbtide watch`, and print every problem. A workload has no steps, "
        "and may leave out name, title and kafka. A release that Ebbtide does not know is only a warning.",
        codes={0: "all files are valid", 4: "wrong usage, or a file is not valid"},
    )
    command.argument(
        "files",
        many=True,
        metavar="FILE",
        type=Path,
        help="a scenario file or a workload (.toml), or a name from `ebbtide scenarios`",
    )
    options.add_json_option(command)
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
    """A scenario file: what it describes, or its problems. A file without problems is valid, also with warnings.

    `run_needs`: the file is a workload of `ebbtide watch`, and only a run would need these keys.
    """

    file: str
    valid: bool
    scenario: str | None = None
    steps: int | None = None
    kafka: tuple[str, ...] = ()
    run_needs: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def run(args: Args) -> ExitCode:
    """Check each file, even after an invalid one."""
    code = ExitCode.AS_PREDICTED
    for file in args.files:
        try:
            scenario, run_needs, warnings = _load(file)
        except EbbtideError as error:
            code = ExitCode.USAGE
            if args.json:
                found = error.problems if isinstance(error, Problems) else (error,)
                print_json(CheckedFile(file=str(file), valid=False, problems=tuple(map(_problem, found))))
            else:
                print(f"error: {error.render()}", file=sys.stderr)
        else:
            if args.json:
                checked = CheckedFile(
                    file=str(file),
                    valid=True,
                    scenario=None if run_needs else scenario.name,
                    steps=len(scenario.steps),
                    kafka=() if run_needs else tuple(scenario.kafka),
                    run_needs=run_needs,
                    warnings=tuple(map(_problem, warnings)),
                )
                print_json(checked)
                continue
            print(f"{file}: ok, {_summary(file, scenario, run_needs)}", flush=True)
            for one in warnings:
                print(f"warning: {file}: {one.render()}", file=sys.stderr)
    return code


def _summary(file: Path, scenario: Scenario, run_needs: tuple[str, ...]) -> str:
    if run_needs:
        parts = ((scenario.topics, "topic"), (scenario.producers, "producer"), (scenario.consumers, "consumer"))
        counts = ", ".join(plural(len(part), name) for part, name in parts)
        return f"a workload of `ebbtide watch`: {counts} (`ebbtide run` also needs {', '.join(run_needs)})"
    named = "" if str(file) == scenario.name else f"{scenario.name}: "
    return f"{named}{plural(len(scenario.steps), 'step')} on Kafka {', '.join(scenario.kafka)}"


def _load(file: Path) -> tuple[Scenario, tuple[str, ...], list[UsageError]]:
    """Read a file, or the shipped scenario of this name; returns it with what a run would need, and its warnings.

    Raises `EbbtideError`.
    """
    from ebbtide.scenario import catalogue
    from ebbtide.scenario.line_numbers import add_lines
    from ebbtide.scenario.parse import load, parse, read_scenario_text
    from ebbtide.scenario.safety import unknown_releases
    from ebbtide.untrusted.files import is_file, is_folder
    from harness.watch.plan import read_workload

    name = str(file)
    may_be_a_name = "/" not in name and not name.endswith(".toml")
    if may_be_a_name and not is_file(file) and not is_folder(file):
        scenario = parse(catalogue.text_of(name), file=f"{name}.toml", strict=True)
    elif run_needs := _run_needs(file):
        try:
            return read_workload(file), run_needs, []
        except Problems as found:
            next = f"ebbtide watch --help    (`ebbtide run` also needs {', '.join(run_needs)})"
            raise Problems(str(file), [*found.problems], next=next) from None
    else:
        scenario = load(file, strict=True)
    warnings = unknown_releases(scenario)
    if warnings and is_file(file):
        add_lines(read_scenario_text(file), warnings)
    return scenario, (), warnings


def _run_needs(file: Path) -> tuple[str, ...]:
    """Return the keys that only a run would need of a workload; empty for any other file."""
    from ebbtide.scenario.parse import decode_scenario_text, read_scenario_text
    from harness.watch.plan import lacks_only_for_a_run

    try:
        return tuple(lacks_only_for_a_run(decode_scenario_text(read_scenario_text(file))))
    except (ValueError, EbbtideError):
        return ()


def _problem(error: EbbtideError) -> Problem:
    return Problem(
        what=error.what, where=error.where, line=error.line, got=error.got, allowed=error.allowed, next=error.next
    )
