"""`ebbtide run SCENARIO --kafka RELEASE[,RELEASE...]`: break a cluster, record it, judge it."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.errors import ExitCode


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.description = "Start a real cluster, break it as the scenario says, record everything, and judge the record."
    parser.epilog = "example: ebbtide run last-replica-standing --kafka 3.9.1,4.3.1"
    parser.add_argument("scenario", metavar="SCENARIO", help="a name from `ebbtide scenarios`, or a .toml file")
    parser.add_argument("--kafka", metavar="RELEASES", help="releases, comma separated (default: the scenario's own)")
    parser.add_argument("--seed", type=int, help="draw what the scenario leaves open from this (default: a new one)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="where records go (./runs)")
    parser.add_argument(
        "--keep-write-back",
        action="store_true",
        help="let the kernel write dirty pages back during the run: a power loss may then lose nothing",
    )


def run(args: argparse.Namespace) -> ExitCode:
    """Check everything first, then run release by release, then judge; the worst outcome is the exit code."""
    from rich.console import Console

    from harness.cli.analyze import judge_all
    from harness.doctor import require_host
    from harness.known_releases import parse_version
    from harness.releases import ensure
    from harness.runner.display import display_for
    from harness.runner.run import RunRequest, new_seed, run_scenario
    from harness.scenario import catalogue

    scenario = catalogue.find(args.scenario)
    releases = _releases(args.kafka) or list(scenario.kafka)
    for release in releases:
        parse_version(release)
    require_host(step.step for step in scenario.steps)
    seed = args.seed if args.seed is not None else new_seed()
    records = []
    with display_for(Console()) as display:
        ensure(releases, lambda event: display.note(f"Kafka {event.version}: {event.phase}"))
        for release in releases:
            request = RunRequest(
                scenario=scenario, kafka=release, seed=seed, runs=args.runs, hold_write_back=not args.keep_write_back
            )
            records.append(run_scenario(request, display))
    return judge_all(records)


def _releases(text: str | None) -> list[str]:
    """The releases of a comma separated list, each once."""
    return list(dict.fromkeys(word.strip() for word in (text or "").split(",") if word.strip()))
