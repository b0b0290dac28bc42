"""`ebbtide run SCENARIO... --kafka RELEASE[,...]`: runs scenarios and judges them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.privileges.choice import PrivilegeRequest
from ebbtide.errors import RUN_CODES, ExitCode, UsageError
from harness.cli import completing, options
from harness.cli.command import Args, Command
from harness.cli.mistakes import is_release, releases_together
from harness.cli.option_values import jobs_of, launch_options_of, publish_of, releases_of, with_features, with_upgrade
from harness.cli.run_flow import CheckedRuns, check_runs, run_and_judge, seed_or_new

if TYPE_CHECKING:
    from ebbtide.record.outcomes import FailOn
    from ebbtide.scenario.model import Scenario
    from harness.cli.run_flow import Drive


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Start a real cluster, inject the faults of the scenario, record everything, and judge the record. Prints a "
        "table of the runs. Several scenarios are all checked before the first one runs, and one that fails does not "
        "end the others. The exit code is that of the worst run.",
        codes=RUN_CODES,
        epilog="example: ebbtide run last-replica-standing --kafka 3.9.1,4.3.1",
    )
    command.argument(
        "scenarios",
        many=True,
        metavar="SCENARIO",
        completes=completing.complete_scenario_or_file,
        help="a name from `ebbtide scenarios`, a .toml file, or a folder of .toml files; all of them run",
    )
    options.add_releases_option(command, "the scenario's own")
    options.add_feature_option(command)
    command.option(
        "--upgrade",
        metavar="FROM:TO",
        help="form the cluster on release FROM, move it to TO node by node, then run the scenario on TO. Feature "
        "levels stay those of FROM, as after an upgrade that nobody finalised",
    )
    options.add_seed_option(command)
    options.add_fail_on_option(command)
    options.add_judging_options(command)
    options.add_json_option(command)
    command.flag("--no-judge", hidden=True, help="only record the runs, which another process judges; exit code 2")
    command.flag(
        "--keep-cluster",
        help="keep the cluster running after the run, until Ctrl-C or `ebbtide cluster down`",
    )
    command.option(
        "--publish",
        metavar="[tls:]PORT",
        help="let clients on this host reach the brokers, as with `ebbtide cluster up`, and judge the run by what they "
        "send, too; for one run",
    )
    command.option(
        "--witness",
        choices=("spark",),
        help="also read the final log with Spark's own Kafka connector, and compare (property witness-agrees). The run "
        "is inconclusive if this second reader fails",
    )
    options.add_new_cluster_option(command)
    options.add_jobs_option(command)
    options.add_launch_options(command)
    return command


def privileges(args: Args) -> PrivilegeRequest:
    """Ask for the privileges of a cluster.

    First raises `UsageError` for an invalid scenario.
    """
    from ebbtide.daemon.control import sockets_dir

    _find_scenarios(args)
    _jobs_of(args)
    folders = (args.runs, sockets_dir()) if args.keep_cluster else (args.runs,)
    return PrivilegeRequest(runtime=args.runtime, folders=folders)


def run(args: Args) -> ExitCode:
    """Check everything, run release by release, judge, and return the worst outcome."""
    from ebbtide.daemon.control import choose_name
    from ebbtide.scenario import catalogue

    if args.upgrade is not None and args.kafka is not None:
        raise UsageError("--upgrade names the releases itself", where="--kafka", got=args.kafka, next="leave it out")
    wanted = [(word, *_as_asked(args, scenario)) for word, scenario in _find_scenarios(args)]
    launch = launch_options_of(args)
    _check_kept(args, wanted)
    if args.keep_cluster and args.no_judge:
        raise UsageError("a kept cluster is judged when its run is over", where="--no-judge", next="leave it out")
    if args.cluster is not None and not args.keep_cluster:
        raise UsageError("only a kept cluster has a name", where="--cluster", got=args.cluster, next="--keep-cluster")
    jobs = _jobs_of(args)
    kept_as = choose_name(args.cluster) if args.keep_cluster else None
    publish = publish_of(args.publish)
    runs = [check_runs(launch, scenario, releases, word, publish) for word, scenario, releases in wanted]
    seed, drive = seed_or_new(args.seed), _drive_for(args.witness)
    with catalogue.located_refusals(wanted[0][0] if len(wanted) == 1 else None, "ebbtide run"):
        if kept_as is not None:
            return _run_and_keep(runs[0], name=kept_as, seed=seed, as_json=args.json, drive=drive, fail_on=args.fail_on)
        return run_and_judge(
            runs, seed=seed, as_json=args.json, drive=drive, jobs=jobs, judges=not args.no_judge, fail_on=args.fail_on
        )


def _find_scenarios(args: Args) -> list[tuple[str, Scenario]]:
    """Return the scenarios with the words that name them. Raises `UsageError` with the mistakes of all of them."""
    from ebbtide.scenario import catalogue

    releases = [word for word in args.scenarios if is_release(word)]
    if releases:
        allowed = releases_together(args.kafka, releases)
        raise UsageError("unknown argument", got=", ".join(releases), allowed=allowed)
    return catalogue.find_all(args.scenarios)


def _as_asked(args: Args, scenario: Scenario) -> tuple[Scenario, list[str]]:
    """Return the scenario with the typed features and upgrade, and the releases to run it on. Raises `UsageError`."""
    scenario = with_features(scenario, args.feature)
    if args.upgrade is not None:
        return with_upgrade(scenario, args.upgrade)
    return scenario, list(scenario.kafka) if args.kafka is None else releases_of(args.kafka)


def _check_kept(args: Args, wanted: Sequence[tuple[str, Scenario, list[str]]]) -> None:
    """Raise `UsageError` if more than one cluster would be kept, or publish its ports."""
    (_, _, releases), *others = wanted
    for option, what, is_asked in (
        ("--keep-cluster", "be kept", args.keep_cluster),
        ("--publish", "publish ports", args.publish is not None),
    ):
        if is_asked and (others or len(releases) > 1):
            raise UsageError(
                f"only one cluster can {what}",
                where=option,
                got=f"{len(wanted)} scenarios" if others else f"releases {', '.join(releases)}",
                next="name one scenario" if others else f"--kafka {releases[-1]}",
            )


def _jobs_of(args: Args) -> int:
    """Return --jobs.

    Raises `UsageError`, or `HarnessError` if CPU or memory is too small for so many clusters.
    """
    from cluster.doctor import require_cores

    jobs = jobs_of(args)
    if jobs > 1:
        if args.witness is not None:
            raise UsageError(
                "a witness reads one run at a time", where="--witness", got=f"--jobs {jobs}", next="leave --jobs out"
            )
        require_cores(jobs)
    return jobs


def _drive_for(witness: str | None) -> Drive:
    """Return what carries out a run.

    Fetches the jars of a witness before anything starts.
    """
    from harness.runner.session import Session

    if witness is None:
        return Session.carry_out
    from cluster.jars.connector import connector_jars
    from harness.runner.witness import with_witness

    return with_witness(connector_jars())


def _run_and_keep(runs: CheckedRuns, *, name: str, seed: int, as_json: bool, drive: Drive, fail_on: FailOn) -> ExitCode:
    """Run, judge, and keep the cluster until it is stopped.

    Returns the exit code of the verdict.
    """
    from ebbtide.shown_console import PlainTextConsole
    from harness.cli.analyze import judge_all
    from harness.daemon.owned_runs import KeptCluster
    from harness.runner.live_view import display_for
    from harness.runner.run import run_scenario

    code = ExitCode.HARNESS_FAILED

    def judge(record: Path) -> None:
        nonlocal code
        display.note("judging")
        with display.hidden():
            code = judge_all([record], as_json=as_json, fail_on=fail_on)

    with display_for(PlainTextConsole(stderr=as_json)) as display:
        (request,) = runs.requests(display, seed)
        keeper = KeptCluster(request.kafka, display, judge, name=name)
        try:
            run_scenario(request, display, drive, hold=keeper)
        finally:
            keeper.release()
    return code
