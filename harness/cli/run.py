"""`ebbtide run SCENARIO --kafka RELEASE[,RELEASE...]`: break a cluster, record it, judge it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ExitCode, HarnessError, UsageError
from harness.powers.choice import Wish

if TYPE_CHECKING:
    from harness.runtime.base import PowerLossMethod


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.description = "Start a real cluster, break it as the scenario says, record everything, and judge the record."
    parser.epilog = "example: ebbtide run last-replica-standing --kafka 3.9.1,4.3.1"
    parser.add_argument("scenario", metavar="SCENARIO", help="a name from `ebbtide scenarios`, or a .toml file")
    parser.add_argument("--kafka", metavar="RELEASES", help="releases, comma separated (default: the scenario's own)")
    parser.add_argument("--seed", type=int, help="draw what the scenario leaves open from this (default: a new one)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="where records go (./runs)")
    parser.add_argument(
        "--runtime",
        choices=("auto", "docker", "local"),
        default="auto",
        help="where the nodes run: docker (containers), local (processes of this host), auto: docker where a daemon "
        "answers and has an image of the release or can be given one (default)",
    )
    parser.add_argument("--image", metavar="REF", help="the Docker image to take, such as apache/kafka:3.9.1")
    parser.add_argument(
        "--power-loss",
        choices=("auto", "fs-shutdown", "truncate"),
        default="auto",
        help="how power is lost: fs-shutdown (what was not fsynced is gone), truncate (logs are cut back to their "
        "recovery points, the worst case), auto: fs-shutdown where the host can (default)",
    )
    parser.add_argument(
        "--keep-write-back",
        action="store_true",
        help="let the kernel write dirty pages back during the run: a power loss may then lose nothing",
    )


def powers(args: argparse.Namespace) -> Wish:
    """A cluster takes them. Raises `UsageError` for a scenario that is none, before any are taken."""
    from harness.scenario import catalogue

    catalogue.find(args.scenario)
    return Wish(runtime=getattr(args, "runtime", "auto"), folders=(args.runs,))


def run(args: argparse.Namespace) -> ExitCode:
    """Check everything first, then run release by release, then judge; the worst outcome is the exit code."""
    from harness.cli.analyze import judge_all
    from harness.doctor import require_host
    from harness.known_releases import parse_version
    from harness.releases import ensure
    from harness.runner.display import OutlivingConsole, display_for
    from harness.runner.run import RunRequest, new_seed, run_scenario
    from harness.runtime.choose import check_wish, choose_runtime
    from harness.runtime.storage import check_features
    from harness.scenario import catalogue

    scenario = catalogue.find(args.scenario)
    releases = list(scenario.kafka) if args.kafka is None else _releases(args.kafka)
    for release in releases:
        parse_version(release)
        check_features(release, scenario.cluster.features)
    check_wish(args.runtime, args.image, len(releases))
    require_host(step.step for step in scenario.steps)
    method, why_not = _power_loss_method(args.power_loss)
    seed = args.seed if args.seed is not None else new_seed()
    records = []
    with display_for(OutlivingConsole()) as display:
        if why_not is not None:
            display.note(f"power is lost by truncate, not by file system shutdown: {why_not}")
        runtimes = {release: choose_runtime(args.runtime, release, args.image, display.note) for release in releases}
        local = [release for release, choice in runtimes.items() if choice.name == "local"]
        ensure(local, lambda event: display.note(f"Kafka {event.version}: {event.phase}"))
        for release in releases:
            request = RunRequest(
                scenario=scenario,
                kafka=release,
                seed=seed,
                runs=args.runs,
                runtime=runtimes[release],
                power_loss_method=method,
                hold_write_back=not args.keep_write_back,
            )
            records.append(run_scenario(request, display))
        display.note("judging")
    return judge_all(records)


def _power_loss_method(asked: str) -> tuple[PowerLossMethod, str | None]:
    """The method to use, and why not the real one when the host decided so. Raises `HarnessError`."""
    from harness.doctor import why_no_volumes

    if asked == "truncate":
        return "truncate", None
    why_not = why_no_volumes()
    if why_not is None:
        return "fs-shutdown", None
    if asked == "fs-shutdown":
        raise HarnessError(
            "this host cannot lose power by file system shutdown", got=why_not, next="--power-loss truncate"
        )
    return "truncate", why_not


def _releases(text: str) -> list[str]:
    """The releases of a comma separated list, each once. Raises `UsageError` when it names none."""
    releases = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not releases:
        # An unset variable of a script must not start clusters of releases that nobody named.
        raise UsageError("no Kafka release is named", where="--kafka", got=repr(text), allowed="such as 3.9.1,4.3.1")
    return releases
