"""`ebbtide validate FILE...`: checks scenario files without running anything."""

from __future__ import annotations

import sys
from pathlib import Path

from ebbtide.errors import EbbtideError, ExitCode
from ebbtide.plurals import plural
from harness.cli.command import Args, Command


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Check scenario files, and print every problem. Exit code 0: all files are valid, 4: at least one is not."
    )
    command.argument("files", many=True, metavar="FILE", type=Path, help="a scenario file (.toml)")
    return command


def run(args: Args) -> ExitCode:
    """Check each file, even after an invalid one."""
    from ebbtide.scenario.parse import load

    code = ExitCode.AS_PREDICTED
    for file in args.files:
        try:
            scenario = load(file, strict=True)
        except EbbtideError as error:
            print(f"error: {error.render()}", file=sys.stderr)
            code = ExitCode.USAGE
        else:
            steps = plural(len(scenario.steps), "step")
            print(f"{file}: ok, {scenario.name}: {steps} on Kafka {', '.join(scenario.kafka)}")
    return code
