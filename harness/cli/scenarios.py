"""`ebbtide scenarios [show NAME]`: lists the shipped scenarios, or prints one."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from ebbtide.errors import ExitCode
from harness.cli import completing
from harness.cli.command import Args, Command


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command("List the shipped scenarios. `show NAME` prints the file of one, which you may copy and change.")
    command.argument(
        "action", needed=False, choices=["list", "show"], default="list", help="list or show (default: list)"
    )
    command.argument("name", needed=False, help="the scenario to print", completes=completing.complete_scenario)
    command.flag("--json", help="list: print one JSON object for each scenario, one a line")
    return command


class ShippedScenario(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario of the list; `kafka` are the releases that it names."""

    name: str
    title: str
    description: str
    kafka: tuple[str, ...]
    steps: int


def run(args: Args) -> ExitCode:
    """Print the list, or the TOML of one scenario."""
    from ebbtide.errors import UsageError
    from ebbtide.scenario import catalogue

    if args.action == "show":
        if args.json:
            raise UsageError("show prints TOML", where="--json", allowed="ebbtide scenarios --json")
        if args.name is None:
            raise UsageError(
                "show needs the name of a scenario",
                allowed="a name that `ebbtide scenarios` lists",
                next="ebbtide scenarios show healthy",
            )
        if Path(args.name).is_file():
            raise UsageError(
                "this is a file, not a shipped scenario", got=args.name, next=f"cat {shlex.quote(args.name)}"
            )
        print(catalogue.text_of(args.name), end="")
        return ExitCode.AS_PREDICTED
    if args.name is not None:
        shown = f" show {args.name}" if args.name in catalogue.names() else ""
        raise UsageError("list takes no name", got=repr(args.name), next=f"ebbtide scenarios{shown}")
    if args.json:
        for one in map(catalogue.find, catalogue.names()):
            row = ShippedScenario(
                name=one.name,
                title=one.title,
                description=one.description,
                kafka=tuple(one.kafka),
                steps=len(one.steps),
            )
            print(msgspec.json.encode(row).decode())
        return ExitCode.AS_PREDICTED
    width = max(map(len, catalogue.names()))
    for name in catalogue.names():
        scenario = catalogue.find(name)
        print(f"{name:<{width}}  {scenario.title}  [{', '.join(scenario.kafka)}]")
    print("\nnext: ebbtide scenarios show NAME, ebbtide run NAME --kafka RELEASE[,RELEASE...]")
    return ExitCode.AS_PREDICTED
