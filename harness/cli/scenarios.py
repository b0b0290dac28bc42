"""`ebbtide scenarios [show NAME]`: lists the shipped scenarios, or prints one."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import msgspec

from ebbtide.errors import ExitCode, UsageError
from ebbtide.streams import print_verbatim
from harness.cli import completing
from harness.cli.command import Args, Command
from harness.cli.output import print_json

_ACTIONS = ("list", "show")
_START = "ebbtide run last-replica-standing --kafka 3.9.1,4.3.1"


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "List the shipped scenarios by what they break, each with the usual time of a run and the releases that it "
        "names. `show NAME` prints the file of one, which you may copy and change. `ebbtide run NAME --kafka RELEASE` "
        "runs one, also on a release that it does not name."
    )
    command.argument(
        "action",
        needed=False,
        default="list",
        help="list or show (default: list)",
        completes=completing.complete_words(_ACTIONS),
    )
    command.argument("name", needed=False, help="the scenario to print", completes=completing.complete_scenario)
    command.flag("--json", help="list: print one JSON object for each scenario, one a line")
    return command


class ShippedScenario(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario of the list.

    `kafka` are the releases that it names, and `usual_s` is how long a run usually takes; null: not measured.
    """

    name: str
    title: str
    description: str
    kafka: tuple[str, ...]
    steps: int
    group: str
    usual_s: float | None


def run(args: Args) -> ExitCode:
    """Print the list, or the TOML of one scenario."""
    from ebbtide.scenario import catalogue
    from ebbtide.scenario.examples import show_example

    if args.action not in _ACTIONS:
        raise _unknown_action(args.action)
    if args.action == "show":
        if args.json:
            raise UsageError("show prints TOML", where="--json", allowed="ebbtide scenarios --json")
        if args.name is None:
            raise UsageError(
                "show needs the name of a scenario",
                allowed="a name that `ebbtide scenarios` lists",
                next=show_example(None),
            )
        if Path(args.name).is_file():
            raise UsageError(
                "this is a file, not a shipped scenario", got=args.name, next=f"cat {shlex.quote(args.name)}"
            )
        print_verbatim(catalogue.text_of(args.name).rstrip("\n"))
        return ExitCode.AS_PREDICTED
    if args.name is not None:
        near = _nearest_scenario(args.name)
        shown = "" if near is None else f" show {near}"
        raise UsageError("list takes no name", got=repr(args.name), next=f"ebbtide scenarios{shown}")
    if args.json:
        for row in sorted(_shipped(), key=lambda row: row.name):
            print_json(row)
    else:
        _print(_shipped())
    return ExitCode.AS_PREDICTED


def _shipped() -> Iterator[ShippedScenario]:
    """Yield the scenarios by group, each group by name."""
    from ebbtide.scenario import catalogue
    from ebbtide.scenario.measured_runs import measured_rows, usual_s
    from ebbtide.scenario.shipped import files_by_group

    for group, files in files_by_group().items():
        for one in map(catalogue.find, files):
            yield ShippedScenario(
                name=one.name,
                title=one.title,
                description=one.description,
                kafka=tuple(one.kafka),
                steps=len(one.steps),
                group=group,
                usual_s=usual_s([row for row in measured_rows() if row.scenario == one.name]),
            )


def _print(rows: Iterable[ShippedScenario]) -> None:
    from ebbtide.scenario.measured_runs import took_in_words
    from ebbtide.scenario.shipped import GROUPS

    print(f"start here: {_START}")
    for group, shown in groupby(rows, key=lambda row: row.group):
        print(f"\n{GROUPS[group]}")
        members = list(shown)
        width = max(len(row.name) for row in members)
        for row in members:
            print(f"  {row.name:<{width}}  {took_in_words(row.usual_s):>6}  {', '.join(row.kafka)}")
            print(f"      {row.title}")
    print("\nEach line: the name, how long a run usually takes (-: not measured), the releases that it names.")
    print("next: ebbtide scenarios show NAME    (its file)")
    print("next: ebbtide run NAME --kafka RELEASE[,RELEASE...]")


def _unknown_action(word: str) -> UsageError:
    """Return the error for a word that is no action; it may be the name of a scenario, or its beginning."""
    from ebbtide.scenario import catalogue
    from ebbtide.suggestions import did_you_mean, nearest_names

    names = catalogue.names()
    begun = nearest_names(word, [one for one in names if one.startswith(word)])
    allowed = "list, or show NAME"
    if (near := _nearest_scenario(word)) is not None:
        what, next_ = "unknown action, did you mean a scenario?", f"ebbtide scenarios show {near}"
    elif begun:
        what, next_ = "unknown action, did you mean a scenario?", f"ebbtide scenarios    (lists all {len(names)})"
        allowed += f", such as {', '.join(begun)}"
    else:
        what, next_ = f"unknown action{did_you_mean(word, _ACTIONS)}", "ebbtide scenarios --help"
    return UsageError(what, got=repr(word), allowed=allowed, next=next_)


def _nearest_scenario(word: str) -> str | None:
    """Return the scenario that the word names or resembles, or the only one that begins with it."""
    from ebbtide.scenario import catalogue
    from ebbtide.suggestions import meant_name

    names = catalogue.names()
    if word in names:
        return word
    near = meant_name(word, [*names, *_ACTIONS])
    return None if near in _ACTIONS else near
