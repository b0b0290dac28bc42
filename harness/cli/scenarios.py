"""`ebbtide scenarios [show | from | check]`: lists the shipped scenarios, prints one, makes one, or checks files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from ebbtide.errors import ExitCode, UsageError
from ebbtide.streams import print_verbatim
from harness.cli import completing, options
from harness.cli.command import Args, Group
from harness.cli.output import print_json

_START = "ebbtide run last-replica-standing --kafka 3.9.1,4.3.1"


def command() -> Group:
    """Declare the verb's arguments."""
    group = Group(
        "List the shipped scenarios by what they break, each with the usual time of a run and the releases that it "
        "names. `ebbtide run NAME --kafka RELEASE` runs one, also on a release that it does not name.",
        dest="action",
        metavar="ACTION",
        hint=_hint_on_scenario,
        runs_bare=True,
    )
    options.add_json_option(group)
    show = group.action("show", help="print the file of one scenario, which you may copy and change")
    show.argument("name", metavar="NAME", help="the scenario to print", completes=completing.complete_scenario)
    group.lazy_action("from", "harness.cli.scenarios_from", help="print a scenario with the settings of your own files")
    group.lazy_action("check", "harness.cli.scenarios_check", help="check scenario files without running them")
    return group


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
    if args.action == "show":
        return _show(args.name)
    if args.json:
        for row in sorted(_shipped(), key=lambda row: row.name):
            print_json(row)
    else:
        _print(_shipped())
    return ExitCode.AS_PREDICTED


def _show(name: str) -> ExitCode:
    from ebbtide.scenario import catalogue

    if Path(name).is_file():
        raise UsageError("this is a file, not a shipped scenario", got=name, next=f"cat {shlex.quote(name)}")
    print_verbatim(catalogue.text_of(name).rstrip("\n"))
    return ExitCode.AS_PREDICTED


def _shipped() -> Iterator[ShippedScenario]:
    """Yield the scenarios by group, each group by name."""
    from ebbtide.scenario import catalogue
    from ebbtide.scenario.shipped import files_by_group, measured_rows, usual_s

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
    from ebbtide.scenario.shipped import GROUPS, took_in_words

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


def _hint_on_scenario(word: str, actions: Sequence[str]) -> str:
    """Return what follows `unknown action` for a word that may be meant as a scenario, or as an action."""
    from ebbtide.scenario import catalogue
    from ebbtide.suggestions import did_you_mean, meant_name, nearest_names

    names = catalogue.names()
    if (near := word if word in names else meant_name(word, [*names, *actions])) in names:
        return f", did you mean `ebbtide scenarios show {near}`?"
    if begun := nearest_names(word, [one for one in names if one.startswith(word)]):
        return f", did you mean a scenario, such as {', '.join(begun)}?"
    return did_you_mean(word, actions)
