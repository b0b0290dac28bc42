"""`ebbtide random [--seed N]`: draw a schedule of faults by chance, print it, and run it where asked to."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.privileges.choice import PrivilegeRequest
from ebbtide.errors import ExitCode, UsageError
from ebbtide.releases.known import KNOWN
from harness.cli import completing
from harness.cli.cluster_options import add_cluster_options, release_of, wanted_of, with_features, words_of
from harness.cli.command import Args, Command
from harness.cli.run_flow import check_runs, run_and_judge, seed_or_new
from harness.cli.scenario_file import check_place, refuse_existing, write_scenario

if TYPE_CHECKING:
    from ebbtide.scenario.model import Scenario
    from ebbtide.scenario.steps.table import StepKind

_NEWEST = KNOWN[-1].version
_OF_A_RUN = ("--runs", "--runtime", "--image", "--power-loss", "--keep-write-back")


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Draw a scenario by chance: a cluster, clients, and a schedule over all kinds of step that is valid and ends "
        "with everything healed. It is printed as a scenario file; the same seed draws the same one again.",
        epilog="example: ebbtide random --seed 7 --steps 15 --kafka 4.3.1 --run",
    )
    command.option("--seed", type=int, help="draw from this (default: a new one)")
    command.option(
        "--steps",
        type=int,
        metavar="N",
        help="how many steps are drawn (default 12); the wait that comes first and what heals come on top",
    )
    command.option(
        "--kafka",
        default=_NEWEST,
        metavar="RELEASE",
        completes=completing.release,
        help=f"the release to draw for (default {_NEWEST})",
    )
    command.option(
        "--feature",
        repeated=True,
        metavar="NAME=LEVEL",
        help="format with this feature level, such as eligible.leader.replicas.version=0; again for more",
    )
    command.option(
        "--without",
        default="",
        metavar="KINDS",
        completes=completing.step_kinds,
        help="kinds of step not to draw, comma separated, such as fill-disk",
    )
    command.option("--out", type=Path, metavar="FILE.toml", help="write the scenario there instead of printing it")
    command.flag("--run", help="run it, and judge the run")
    add_cluster_options(command)
    return command


def powers(args: Args) -> PrivilegeRequest | None:
    """A run takes them, and nothing else."""
    if not args.run:
        return None
    return PrivilegeRequest(
        runtime=args.runtime, folders=(args.runs, *([args.out.parent] if args.out is not None else []))
    )


def run(args: Args) -> ExitCode:
    """Draw, write, and run. Raises `UsageError` for a number of steps that is none, and for a file that is there."""
    from ebbtide.scenario.write import brief_text_of

    given = [word for word in args.argv if word.partition("=")[0] in _OF_A_RUN]
    if given and not args.run:
        raise UsageError("options of a run go with --run", got=", ".join(given), next="--run")
    if args.out is not None:
        check_place(args.out)
        refuse_existing(args.out)
    scenario, seed = _drawn(args)
    text = brief_text_of(scenario)
    if args.out is None:
        print(text)
    else:
        write_scenario(args.out, text)
        print(f"seed {seed}: {len(scenario.steps)} steps, those that wait for clients and heal included, in {args.out}")
    if args.run:
        return run_and_judge(check_runs(wanted_of(args), scenario, scenario.kafka), seed=seed)
    if args.out is not None:
        print(f"next: ebbtide run {shlex.quote(str(args.out))}")
    return ExitCode.AS_PREDICTED


def _drawn(args: Args) -> tuple[Scenario, int]:
    from ebbtide.scenario.feature_meaning import check_features
    from harness.random.drawing import STEPS, STEPS_MAX, draw

    steps = STEPS if args.steps is None else args.steps
    if not 1 <= steps <= STEPS_MAX:
        raise UsageError("not a number of steps to draw", where="--steps", got=str(steps), allowed=f"1 to {STEPS_MAX}")
    without = _kinds(args.without)
    _require_release(args)
    seed = seed_or_new(args.seed)
    cluster = with_features(draw(seed, kafka=args.kafka), args.feature).cluster
    check_features(args.kafka, cluster)
    return draw(seed, kafka=args.kafka, features=cluster.features, steps=steps, without=without), seed


def _require_release(args: Args) -> None:
    """Raises `UsageError` for a release that there is not; one that nobody has met yet is fetched to find out."""
    from cluster.jars.releases import ensure

    release_of(args.kafka)
    # A run sees to it by itself, and takes an image where there is one.
    if not args.run and args.kafka not in {known.version for known in KNOWN}:
        ensure([args.kafka], lambda event: print(f"Kafka {event.version}: {event.phase}", file=sys.stderr))


def _kinds(text: str) -> frozenset[StepKind]:
    """Kinds of step, from a comma separated list. Raises `UsageError` for one that is none."""
    from ebbtide.scenario.check import suggestion
    from ebbtide.scenario.steps.table import KINDS

    words = words_of(text, "--without")
    for word in words:
        if word not in KINDS:
            allowed = ", ".join(sorted(KINDS)) + suggestion(word, sorted(KINDS))
            raise UsageError("not a kind of step", where="--without", got=repr(word), allowed=allowed)
    return frozenset(kind for kind in KINDS if kind in words)
