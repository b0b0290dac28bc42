"""`ebbtide random [--seed N]`: draws, prints and may run a random schedule."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from cluster.privileges.choice import PrivilegeRequest
from ebbtide.errors import RUN_CODES, ExitCode, UsageError
from ebbtide.named_files import check_named_file, refuse_existing, write_named_file
from ebbtide.releases.known_releases import KNOWN
from ebbtide.streams import print_verbatim
from harness.cli import completing, options
from harness.cli.command import Args, Command
from harness.cli.option_values import launch_options_of, release_of, split_list, with_features
from harness.cli.output import print_json
from harness.cli.run_flow import check_runs, run_and_judge, seed_or_new

if TYPE_CHECKING:
    from ebbtide.record.verdict import Verdict
    from ebbtide.scenario.model import Scenario
    from ebbtide.scenario.steps.table import StepKind

_NEWEST = KNOWN[-1].version
_OF_A_RUN = ("--runs", "--runtime", "--image", "--power-loss")


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Draw a random scenario: a cluster, clients, and a valid schedule of steps of all kinds. It ends with every "
        "fault healed. Prints it as a scenario file. The same seed draws the same scenario again.",
        epilog="example: ebbtide random --seed 7 --steps 15 --kafka 4.3.1 --run",
        codes={**RUN_CODES, 0: "done; with --run: nothing is violated"},
    )
    options.add_seed_option(command)
    command.option(
        "--steps",
        type=int,
        metavar="N",
        help="how many steps to draw (default: 12); the first wait and the steps that heal come in addition",
    )
    options.add_release_option(command, f" to draw for (default: {_NEWEST})", _NEWEST)
    options.add_feature_option(command)
    command.option(
        "--without",
        default="",
        metavar="KINDS",
        completes=completing.complete_step_kinds,
        help="kinds of step that are not drawn, comma-separated, such as fill-disk",
    )
    options.add_out_option(command, "write the scenario to this file instead of printing it")
    options.add_fail_on_option(command)
    command.flag("--run", help="run the scenario, and judge the run")
    options.add_json_option(command)
    options.add_launch_options(command)
    return command


def privileges(args: Args) -> PrivilegeRequest | None:
    """Ask for privileges only to run the scenario."""
    if not args.run:
        return None
    return PrivilegeRequest(
        runtime=args.runtime, folders=(args.runs, *([args.out.parent] if args.out is not None else []))
    )


def run(args: Args) -> ExitCode:
    """Draw, write and run.

    Raises `UsageError` for a wrong option, and for a file that exists.
    """
    from ebbtide.scenario.write import brief_text_of

    of_a_run = [word for word in args.argv if word.partition("=")[0] in _OF_A_RUN]
    if of_a_run and not args.run:
        raise UsageError(
            "these options need --run", got=", ".join(of_a_run), next=f"{shlex.join(['ebbtide', *args.argv])} --run"
        )
    if args.out is not None:
        check_named_file(args.out, "scenario", "--out")
        refuse_existing(args.out)
    scenario, seed = _draw_scenario(args)
    text = brief_text_of(scenario)
    if args.json:
        return _run_as_json(args, scenario, seed, text)
    if args.out is None:
        print_verbatim(text)
    else:
        write_named_file(args.out, text.encode(), "scenario")
        print(f"seed {seed}: {len(scenario.steps)} steps, including waits and heals, in {args.out}")
    if args.run:
        runs = check_runs(launch_options_of(args), scenario, scenario.kafka)
        return run_and_judge([runs], seed=seed, fail_on=args.fail_on)
    if args.out is not None:
        print(f"next: ebbtide run {shlex.quote(str(args.out))}")
    return ExitCode.AS_PREDICTED


def _run_as_json(args: Args, scenario: Scenario, seed: int, text: str) -> ExitCode:
    """Write the file, run the scenario if asked to, and print one object at the end."""
    from harness.cli.json_outputs import RandomOutput

    if args.out is not None:
        write_named_file(args.out, text.encode(), "scenario")
    verdicts: list[Verdict] = []
    code = ExitCode.AS_PREDICTED
    if args.run:
        runs = check_runs(launch_options_of(args), scenario, scenario.kafka)
        code = run_and_judge([runs], seed=seed, as_json=True, show=verdicts.append, fail_on=args.fail_on)
    print_json(
        RandomOutput(
            seed=seed,
            kafka=args.kafka,
            steps=len(scenario.steps),
            file=None if args.out is None else str(args.out),
            scenario=text,
            verdict=verdicts[0] if verdicts else None,
        )
    )
    return code


def _draw_scenario(args: Args) -> tuple[Scenario, int]:
    from ebbtide.scenario.validate_upgrades import validate_features
    from harness.random.drawing import STEPS, STEPS_MAX, draw

    steps = STEPS if args.steps is None else args.steps
    if not 1 <= steps <= STEPS_MAX:
        raise UsageError("out of range", where="--steps", got=str(steps), allowed=f"1 to {STEPS_MAX}")
    without = _kinds(args.without)
    _require_release(args)
    seed = seed_or_new(args.seed)
    cluster = with_features(draw(seed, kafka=args.kafka), args.feature).cluster
    validate_features(args.kafka, cluster)
    return draw(seed, kafka=args.kafka, features=cluster.features, steps=steps, without=without), seed


def _require_release(args: Args) -> None:
    """Raise `UsageError` for a release that does not exist.

    An unknown release is fetched to find out.
    """
    from cluster.jars.releases import ensure

    release_of(args.kafka)
    # A run fetches the release itself, or uses an image.
    if not args.run and args.kafka not in {known.version for known in KNOWN}:
        ensure([args.kafka], lambda event: print(f"Kafka {event.version}: {event.phase}", file=sys.stderr))


def _kinds(text: str) -> frozenset[StepKind]:
    """Return the kinds of step in a comma-separated list.

    Raises `UsageError` for other words.
    """
    from ebbtide.scenario.absent_words import hint_on_kind
    from ebbtide.scenario.steps.table import KINDS
    from ebbtide.suggestions import allowed_words

    words = split_list(text, "--without")
    for word in words:
        if word not in KINDS:
            what = f"not a kind of step{hint_on_kind(word, KINDS)}"
            allowed = allowed_words(word, sorted(KINDS))
            raise UsageError(
                what, where="--without", got=repr(word), allowed=allowed, next="ebbtide cluster fault --help"
            )
    return frozenset(kind for kind in KINDS if kind in words)
