"""`ebbtide nightly`: the catalogue, then random schedules, until a budget ends; one store over all nights."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import EbbtideError, ExitCode, UsageError
from harness.powers.choice import Wish

if TYPE_CHECKING:
    from analysis.verdict import Verdict
    from harness.campaign.job import Job, Target
    from harness.campaign.store import Done, Plan, Store
    from harness.scenario.model import Scenario

_EXITS = {
    "as-predicted": ExitCode.AS_PREDICTED,
    "inconclusive": ExitCode.INCONCLUSIVE,
    "contradicted": ExitCode.CONTRADICTED,
    "failed": ExitCode.HARNESS_FAILED,
}
_WORST_LAST = ("as-predicted", "inconclusive", "contradicted", "failed")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.description = (
        "Run the catalogue until a budget of time ends, judge every run, and keep what became of them night by night. "
        "A night that was killed goes on when the same command is typed again."
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
    return Wish(runtime=args.runtime, folders=(args.store,))


def run(args: argparse.Namespace) -> ExitCode:
    """Run the night, or go on with the one that was killed; the worst outcome is the exit code."""
    from harness.campaign.job import catalogue_jobs
    from harness.campaign.night import Night
    from harness.campaign.store import Plan, Store
    from harness.clean import clean
    from harness.doctor import require_host

    budget_s, targets, scenarios = _settings(args)
    require_host(step.step for scenario in scenarios for step in scenario.steps)
    store = Store(args.store)
    settings = {name: str(getattr(args, name)) for name in ("budget", "kafka", "scenarios", "times", "runtime")}
    plan = store.unfinished()
    if plan is None or plan.settings != settings:
        plan = Plan(night=f"{datetime.now(UTC):%Y%m%dT%H%M%S}", settings=settings, started_s=time.time())
        store.save(plan)
    else:
        _tell(f"going on with night {plan.night}")
    for outcome in clean():
        if outcome.undone:
            _tell(f"cleaned up after {outcome.run_id}: {len(outcome.undone)} things undone")
    jobs = list(catalogue_jobs(scenarios, targets, args.runtime, args.times))
    night = Night(
        store,
        plan,
        carry_out=_carrier(store, store.night_folder(plan.night) / "runs.log", args),
        judge=_judge,
        budget_s=budget_s,
        tell=_tell,
    )
    night.adopt(jobs)
    night.run(jobs)
    return _close(store, plan, night.done, args.keep)


def _settings(args: argparse.Namespace) -> tuple[float, list[Target] | None, list[Scenario]]:
    """The budget in seconds, the targets, and the scenarios; raises `UsageError`."""
    from harness.campaign.job import parse_target
    from harness.scenario import catalogue
    from harness.scenario.words import budget_s

    if args.times < 1 or args.keep < 0:
        raise UsageError("--times is 1 or more and --keep 0 or more", got=f"--times {args.times} --keep {args.keep}")
    names = catalogue.names() if args.scenarios is None else _words(args.scenarios, "--scenarios")
    targets = None if args.kafka is None else [parse_target(word) for word in _words(args.kafka, "--kafka")]
    return budget_s(args.budget), targets, [catalogue.find(name) for name in names]


def _words(text: str, where: str) -> list[str]:
    words = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words:
        raise UsageError("nothing is named", where=where, got=repr(text))
    return words


def _carrier(store: Store, log: Path, args: argparse.Namespace) -> Callable[[Job], Path]:
    import msgspec
    from rich.console import Console

    from harness.runner.display import PlainDisplay
    from harness.runner.launch import Wanted, check, prepare
    from harness.runner.run import new_seed, run_scenario
    from harness.scenario import catalogue

    wanted = Wanted(runs=store.runs, runtime=args.runtime)

    def carry_out(job: Job) -> Path:
        scenario, kafka = catalogue.find(job.scenario), job.target.kafka
        features = {**scenario.cluster.features, **job.target.features}
        as_run = msgspec.structs.replace(scenario, cluster=msgspec.structs.replace(scenario.cluster, features=features))
        with log.open("a") as file, PlainDisplay(Console(file=file, width=200)) as display:
            check(wanted, as_run, [kafka])
            return run_scenario(prepare(wanted, [kafka], display.note).request(as_run, kafka, new_seed()), display)

    return carry_out


def _judge(records: Sequence[Path]) -> dict[Path, Verdict | EbbtideError]:
    from analysis.judge.many import judge_many
    from analysis.reconcile.files import rows_of
    from analysis.reconcile.session import session
    from harness.signals import unwinding

    with unwinding(), session(None, rows=rows_of(list(records))) as spark:
        return dict(judge_many(records, spark))


def _close(store: Store, plan: Plan, done: list[Done], keep: int) -> ExitCode:
    """Write the summary and the JUnit file, remove old records, and say what came out."""
    import msgspec

    from harness.campaign.junit import write_junit
    from harness.campaign.summary import summary
    from harness.campaign.trend import trend
    from harness.record.files import write_atomically

    history = store.history()
    folder = store.night_folder(plan.night)
    text = summary(plan, done, trend(history, plan.night), str(store.runs))
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
    if not done:
        return ExitCode.INCONCLUSIVE
    return _EXITS[max((one.ended for one in done), key=_WORST_LAST.index)]


def _tell(text: str) -> None:
    print(f"{datetime.now():%H:%M:%S}  {text}", file=sys.stderr, flush=True)
