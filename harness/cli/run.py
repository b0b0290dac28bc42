"""`ebbtide run SCENARIO --kafka RELEASE[,RELEASE...]`: break a cluster, record it, judge it."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.cluster_options import add_cluster_options, releases_of, wanted_of
from harness.errors import ExitCode
from harness.powers.choice import Wish


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.description = "Start a real cluster, break it as the scenario says, record everything, and judge the record."
    parser.epilog = "example: ebbtide run last-replica-standing --kafka 3.9.1,4.3.1"
    parser.add_argument("scenario", metavar="SCENARIO", help="a name from `ebbtide scenarios`, or a .toml file")
    parser.add_argument("--kafka", metavar="RELEASES", help="releases, comma separated (default: the scenario's own)")
    parser.add_argument("--seed", type=int, help="draw what the scenario leaves open from this (default: a new one)")
    add_cluster_options(parser)


def powers(args: argparse.Namespace) -> Wish:
    """A cluster takes them. Raises `UsageError` for a scenario that is none, before any are taken."""
    from harness.scenario import catalogue

    catalogue.find(args.scenario)
    return Wish(runtime=getattr(args, "runtime", "auto"), folders=(args.runs,))


def run(args: argparse.Namespace) -> ExitCode:
    """Check everything first, then run release by release, then judge; the worst outcome is the exit code."""
    from harness.cli.analyze import judge_all
    from harness.runner.display import OutlivingConsole, display_for
    from harness.runner.launch import check, prepare
    from harness.runner.run import new_seed, run_scenario
    from harness.scenario import catalogue

    scenario = catalogue.find(args.scenario)
    releases = list(scenario.kafka) if args.kafka is None else releases_of(args.kafka)
    wanted = wanted_of(args)
    check(wanted, scenario, releases)
    seed = args.seed if args.seed is not None else new_seed()
    with display_for(OutlivingConsole()) as display:
        launch = prepare(wanted, releases, display.note)
        records: list[Path] = []
        try:
            for release in releases:
                records.append(run_scenario(launch.request(scenario, release, seed), display))
        except BaseException:
            if records:
                display.note(f"recorded before, and not judged: ebbtide analyze {' '.join(map(str, records))}")
            raise
        display.note("judging")
    return judge_all(records)
