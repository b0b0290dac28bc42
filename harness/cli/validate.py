"""`ebbtide validate FILE...`: check scenario files without running anything."""

from __future__ import annotations

import sys
from pathlib import Path

from ebbtide.errors import EbbtideError, ExitCode
from harness.cli.command import Args, Command


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command("Check scenario files. Exit code 0: all are valid, 4: some are not.")
    command.argument("files", many=True, metavar="FILE", type=Path, help="a scenario file (.toml)")
    return command


def run(args: Args) -> ExitCode:
    """Load each file; a wrong one does not stop the others from being checked."""
    from ebbtide.scenario.parse import load

    code = ExitCode.AS_PREDICTED
    for file in args.files:
        try:
            scenario = load(file, strict=True)
        except EbbtideError as error:
            print(f"error: {error.render()}", file=sys.stderr)
            code = ExitCode.USAGE
        else:
            print(f"{file}: ok, {scenario.name}: {len(scenario.steps)} steps on Kafka {', '.join(scenario.kafka)}")
    return code
