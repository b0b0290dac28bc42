"""`ebbtide nightly`: the catalogue, then random schedules, until a budget ends; one store over all nights."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.cluster_options import add_jobs_option, jobs_of, with_levels, words_of
from harness.errors import EbbtideError, ExitCode, HarnessError, UsageError
from harness.powers.choice import Wish

if TYPE_CHECKING:
    from analysis.verdict import Verdict
    from harness.campaign.drawing import Drawing
    from harness.campaign.job import Job, Runtime, Target
    from harness.campaign.night import CarryOut, Night
    from harness.campaign.store import Plan, Store
    from harness.runner.display import Display
    from harness.scenario.model import Scenario

RUNS_LOG = "runs.log"
"""In a night's folder: what its runs said."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.description = (
        "Run the catalogue, then schedules drawn by chance until a budget of time ends, judge every run, and keep what "
        "became of them night by night. A contradiction that is new is replayed three times, then shrunk. A night that "
        "was killed goes on when the same command is typed again."
    )
    parser.epilog = "example: ebbtide nightly --budget 2h --kafka 3.9.1,4.3.1 --store /var/lib/ebbtide"
    parser.add_argument(
        "--budget", default="2h", metavar="TIME", help="no run is started after it: 2h, 90m (default 2h)"
    )
    parser.add_argument(
        "--kafka",
        metavar="RELEASES",
        help="releases, comma separated, each with feature levels if need be "
        "(4.0.2:eligible.leader.replicas.version=1); default: those that each scenario names",
    )
    parser.add_argument("--store", type=Path, default=Path("nightly"), metavar="DIR", help="default: ./nightly")
    parser.add_argument("--scenarios", metavar="NAMES", help="only these of the catalogue, comma separated")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="how often each scenario is run (default 1)")
    add_jobs_option(parser)
    parser.add_argument("--no-random", action="store_true", help="end with the catalogue, and draw no schedules")
    parser.add_argument("--runtime", choices=("auto", "docker", "local"), default="auto", help="as for `ebbtide run`")
    parser.add_argument(
        "--keep",
        type=int,
        default=14,
        metavar="NIGHTS",
        help="remove records of as-predicted runs that are older than so many nights (default 14; all others stay)",
    )


def powers(args: argparse.Namespace) -> Wish:
    """Clusters take them. Raises `UsageError` before any are taken."""
    _settings(args)
    jobs_of(args)
    return Wish(runtime=args.runtime, folders=(args.store,))


def run(args: argparse.Namespace) -> ExitCode:
    """Run the night, or go on with the one that was killed; the worst outcome is the exit code."""
    from harness.campaign.drawing import Drawing
    from harness.campaign.job import Target, catalogue_jobs
    from harness.campaign.night import Night
    from harness.campaign.store import Plan, Store
    from harness.clean import clean
    from harness.doctor import require_host
    from harness.known_releases import KNOWN

    budget_s, targets, scenarios = _settings(args)
    at_once = jobs_of(args)
    require_host(step.step for scenario in scenarios for step in scenario.steps)
    store = Store(args.store)
    settings = {
        name: str(getattr(args, name)) for name in ("budget", "kafka", "scenarios", "times", "no_random", "runtime")
    }
    plan = store.unfinished()
    if plan is not None and (plan.settings != settings or plan.started_s + budget_s <= time.time()):
        _tell(f"closing night {plan.night}, which was killed")
        _close(store, plan, args.keep)
        plan = None
    if plan is None:
        plan = Plan(night=f"{datetime.now(UTC):%Y%m%dT%H%M%S}", settings=settings, started_s=time.time())
        store.save(plan)
    else:
        _tell(f"going on with night {plan.night}")
    for outcome in clean():
        if outcome.undone:
            _tell(f"cleaned up after {outcome.run_id}: {len(outcome.undone)} things undone")
    drawing = Drawing(store.folder / "chance")
    night = Night(
        store,
        plan,
        carry_out=_carrier(store, plan.night, args.runtime, drawing, at_once),
        judge=_judge,
        budget_s=budget_s,
        tell=_tell,
    )
    jobs = list(catalogue_jobs(scenarios, targets, args.runtime, args.times))
    try:
        night.adopt(jobs)
        night.run(jobs)
        _follow_up(store, plan, night, args.runtime)
        while not args.no_random and not night.over:
            for target in targets or [Target(kafka=KNOWN[-1].version)]:
                drawing.learn(night.run(drawing.jobs(target, args.runtime)))
            _follow_up(store, plan, night, args.runtime)
    except HarnessError:
        _close(store, plan, args.keep)
        raise
    except (KeyboardInterrupt, SystemExit):
        _tell(f"the same command goes on with night {plan.night} in {store.folder}")
        raise
    return _close(store, plan, args.keep)


def _settings(args: argparse.Namespace) -> tuple[float, list[Target] | None, list[Scenario]]:
    """The budget in seconds, the targets, and the scenarios; raises `UsageError`."""
    from harness.campaign.job import parse_target
    from harness.runtime.storage import check_features
    from harness.scenario import catalogue
    from harness.scenario.model import ClusterSpec
    from harness.scenario.words import budget_s

    if args.times < 1 or args.keep < 0:
        raise UsageError("--times is 1 or more and --keep 0 or more", got=f"--times {args.times} --keep {args.keep}")
    names = catalogue.names() if args.scenarios is None else _words(args.scenarios, "--scenarios")
    targets = None if args.kafka is None else [parse_target(word) for word in _words(args.kafka, "--kafka")]
    for target in targets or ():
        check_features(target.kafka, ClusterSpec(features=target.features))
    scenarios = [catalogue.find(name) for name in names]
    if others := [name for name in names if name not in catalogue.names()]:
        raise UsageError(
            "not in the catalogue", where="--scenarios", got=", ".join(others), next="ebbtide scenarios    (lists it)"
        )
    return budget_s(args.budget), targets, scenarios


def _words(text: str, where: str) -> list[str]:
    words = words_of(text)
    if not words:
        raise UsageError("nothing is named", where=where, got=repr(text))
    return words


def _carrier(store: Store, night: str, runtime: Runtime, drawing: Drawing, at_once: int) -> CarryOut:
    from harness.runner.launch import Wanted, check, prepare
    from harness.runner.run import RunRequest, new_seed
    from harness.runner.side_by_side import run_in_turn, run_side_by_side
    from harness.scenario import catalogue

    wanted = Wanted(runs=store.runs, runtime=runtime)
    log = store.night_folder(night) / RUNS_LOG

    def request(job: Job, display: Display) -> RunRequest | EbbtideError:
        scenario = drawing.scenario(job) if job.origin == "random" else catalogue.find(job.scenario)
        as_run = with_levels(scenario, job.target.features)
        kafka = job.target.kafka
        try:
            check(wanted, as_run, [kafka])
            return prepare(wanted, [kafka], display.note).request(as_run, kafka, new_seed())
        except EbbtideError as error:
            return error

    def carry_out(jobs: Iterable[Job]) -> Generator[tuple[Job, Path | EbbtideError], None, None]:
        if at_once == 1:
            for job in jobs:
                with _logged(store, night) as display:
                    yield from run_in_turn([(job, request(job, display))], display)
        else:
            with _logged(store, night) as display:
                requests = ((job, request(job, display)) for job in jobs)
                yield from run_side_by_side(requests, at_once=at_once, log=log)

    return carry_out


@contextlib.contextmanager
def _logged(store: Store, night: str) -> Iterator[Display]:
    """A display that writes into the night's log."""
    from rich.console import Console

    from harness.runner.display import PlainDisplay

    with (
        (store.night_folder(night) / RUNS_LOG).open("a") as file,
        PlainDisplay(Console(file=file, width=200)) as shown,
    ):
        yield shown


def _judge(records: Sequence[Path]) -> dict[Path, Verdict | EbbtideError]:
    from analysis.judge.many import judge_many
    from analysis.reconcile.files import rows_of
    from analysis.reconcile.session import session
    from harness.signals import unwinding

    with unwinding(), session(None, rows=rows_of(list(records))) as spark:
        return dict(judge_many(records, spark))


def _follow_up(store: Store, plan: Plan, night: Night, runtime: Runtime) -> None:
    """Have new contradictions again and smaller, while there is time."""
    from harness.campaign.followup import follow_up, wanting
    from harness.cli.judging import judging
    from harness.runner.launch import Wanted, prepare

    for done in wanting(store.history(), plan.night, store.followups(plan.night)):
        if night.over:
            break
        _tell(f"{done.job.key}: contradicted: replaying it, then making it smaller")
        with _logged(store, plan.night) as display, judging([store.runs / str(done.run_id)]) as judge:
            launch = prepare(Wanted(runs=store.runs, runtime=runtime), [done.job.target.kafka], display.note)
            one = follow_up(store, done, launch=launch, judge=judge, display=display, until_s=night.until_s)
        store.append_followup(plan.night, one)
        _tell(f"{done.job.key}: {one.told()}")


def _close(store: Store, plan: Plan, keep: int) -> ExitCode:
    """Write the summary and the JUnit file, remove old records, and say what came out."""
    import msgspec

    from harness.campaign.junit import write_junit
    from harness.campaign.night import exit_code
    from harness.campaign.summary import summary
    from harness.campaign.trend import trend
    from harness.record.files import write_atomically

    history = store.history()
    done = [one for one in history if one.night == plan.night]
    folder = store.night_folder(plan.night)
    text = summary(plan, done, trend(history, plan.night), str(store.runs), store.followups(plan.night))
    write_atomically(folder / "summary.md", text.encode())
    write_junit(folder / "junit.xml", plan.night, done)
    store.save(msgspec.structs.replace(plan, ended_s=time.time()))
    kept = set(sorted({one.night for one in history})[-keep:] if keep else ())
    store.drop_records(
        one.run_id
        for one in history
        if one.run_id is not None and one.ended == "as-predicted" and one.night not in kept
    )
    print(text)
    print(f"summary: {folder / 'summary.md'}\nJUnit:   {folder / 'junit.xml'}")
    return exit_code(done)


def _tell(text: str) -> None:
    print(f"{datetime.now():%H:%M:%S}  {text}", file=sys.stderr, flush=True)
