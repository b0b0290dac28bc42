"""`ebbtide nightly [site]`: runs the catalogue and random schedules in a time budget."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.privileges.choice import PrivilegeRequest
from ebbtide.errors import RUN_CODES, EbbtideError, ExitCode, UsageError
from ebbtide.judging_process import JudgingProcess
from harness.cli import completing, options
from harness.cli.command import Args, Group
from harness.cli.night_settings import settings_of
from harness.cli.nightly_site import SITE
from harness.cli.option_values import jobs_of
from harness.cli.output import print_json
from harness.cli.rule_files import judging_options

if TYPE_CHECKING:
    from ebbtide.scenario.model import Scenario
    from harness.cli.night_settings import NightSettings
    from harness.nightly.job import Job
    from harness.nightly.night import Night
    from harness.nightly.store import NightPlan, SkippedJob, Store

_DAY_S = 86_400.0
_ALL = "None"
"""What the settings of a plan have as `scenarios` where nobody named any."""
CATALOGUE_SHARE = 0.8
"""The catalogue's share of the budget if random schedules follow; the rest of it runs the next night."""


def command() -> Group:
    """Declare the verb's arguments."""
    command = Group(
        "Run all scenarios, and then random schedules until the time budget ends. Judge every run, and keep the "
        "results of every night. A new contradiction is replayed three times, and then shrunk. To continue a night "
        "that was killed, or that could not judge its runs, type the same command again.",
        epilog="example: ebbtide nightly --budget 2h --kafka 3.9.1,4.3.1 --store nights",
        codes={**RUN_CODES, 2: "inconclusive, or no run"},
        dest="action",
        metavar="ACTION",
        runs_bare=True,
    )
    command.lazy_action(
        "site", "harness.cli.nightly_site", help="write the nights of one or more stores as a static site"
    )
    options.add_budget_option(
        command, "how long to start runs; only a run that confirms a shrunk scenario may start later", "2h"
    )
    options.add_releases_option(
        command,
        "those that each scenario names",
        ", each with feature levels if needed, such as 4.0.2:eligible.leader.replicas.version=1",
    )
    command.option(
        "--store",
        type=Path,
        default=Path("nightly"),
        metavar="DIR",
        completes=completing.complete_folder,
        help="the folder of all nights (default: ./nightly)",
    )
    command.option(
        "--scenarios",
        metavar="NAMES",
        completes=completing.complete_scenarios,
        help="run only these scenarios, comma-separated: names that `ebbtide scenarios` lists, .toml files, and "
        "folders of .toml files",
    )
    options.add_times_option(command, "how often to run each scenario", 1)
    command.option(
        "--shard",
        metavar="K/N",
        help="run only the K-th of N shards of the scenarios' runs, for machines side by side; the shards take about "
        "equally long",
    )
    options.add_jobs_option(command)
    command.flag("--no-random", help="run only the scenarios, without random schedules")
    options.add_runtime_option(command)
    command.option(
        "--keep",
        type=int,
        least=0,
        default=14,
        metavar="NIGHTS",
        help="remove records older than this number of nights (default: 14), except of contradicted and inconclusive "
        "runs",
    )
    command.option(
        "--fail-on",
        choices=("inconclusive", "contradicted", "loss"),
        default="inconclusive",
        help="the mildest outcome that fails the night (default: inconclusive). With contradicted, inconclusive runs "
        "are listed and the exit code is 0. With loss, committed records that a run lost fail it too",
    )
    options.add_json_option(command)
    options.add_judging_options(command)
    return command


def privileges(args: Args) -> PrivilegeRequest:
    """Ask for the privileges of a cluster.

    First raises `UsageError` for wrong options.
    """
    settings_of(args)
    jobs_of(args)
    return PrivilegeRequest(runtime=args.runtime, folders=(args.store,))


def run(args: Args) -> ExitCode:
    """Run a night, or continue the one that was killed; return the worst outcome."""
    from cluster.doctor import require_host
    from harness.cli.run_flow import note_rules
    from harness.nightly.store import Store
    from harness.runner.launch import LaunchOptions, prepare

    settings = settings_of(args)
    at_once = jobs_of(args)
    require_host(())
    _check_store(args)
    _, targets, _, _ = settings
    if targets is not None:
        # A release that does not exist, or that cannot be fetched, would fail run by run.
        note_rules([target.kafka for target in targets], _report)
        prepare(LaunchOptions(runtime=args.runtime), [target.kafka for target in targets], _report)
    store = Store(args.store)
    # One process judges the records of all batches and follow-ups, while others run.
    with store.lock(), JudgingProcess(many=True, options=judging_options(), report=_report) as judging:
        return _run(args, store, settings, at_once, judging)


def _run(
    args: Args,
    store: Store,
    settings: NightSettings,
    at_once: int,
    judging: JudgingProcess,
) -> ExitCode:
    import msgspec

    from cluster.clean import clean
    from cluster.doctor import check_host
    from ebbtide.releases.known_releases import KNOWN
    from ebbtide.scenario.steps.table import KINDS
    from harness.cli.night_work import carrier, follower, judge_of
    from harness.nightly.followup import SHARE, FollowupRunner
    from harness.nightly.job import ReleaseTarget, catalogue_jobs, oldest_runs_first
    from harness.nightly.night import Night, RepeatedFailures
    from harness.nightly.random_jobs import RandomJobs
    from harness.nightly.shards import jobs_of_shard, split_jobs, unavailable_abilities

    budget_s, targets, scenarios, shard = settings
    impossible = unavailable_abilities(check_host())
    wanted = list(catalogue_jobs(scenarios, targets, args.runtime, args.times))
    if shard is not None:
        # Split before this host's limits are known, so that all machines split alike.
        wanted = jobs_of_shard(wanted, shard)
    jobs, skipped = split_jobs(wanted, scenarios, impossible)
    for outcome in clean():
        for what in outcome.undone:
            _report(f"cleaned up after {outcome.run_id}: {what}")
    drawing = RandomJobs(store.corpora_folder(), without=[kind for kind in KINDS if kind in impossible])

    judge = judge_of(judging)

    def night_of(plan: NightPlan) -> Night:
        by_name = _scenarios_of(plan)
        return Night(
            store,
            plan,
            scenarios=by_name,
            carry_out=carrier(store, plan.night, args.runtime, drawing, at_once, judging, by_name),
            judge=judge,
            is_judging=judging.is_judging,
            budget_s=budget_s,
            report=_report,
        )

    def judge_unjudged(night: Night, jobs: Sequence[Job] | None = None) -> None:
        night.judge_unjudged(jobs)
        drawing.catch_up(night.done, store.runs)

    plan = _plan(args, store, budget_s, skipped, lambda killed: judge_unjudged(night_of(killed)))
    for why in dict.fromkeys(one.why for one in skipped):
        names = sorted({one.job.scenario for one in skipped if one.why == why})
        _report(f"skipped: {', '.join(names)}: {why}")
    night = night_of(plan)
    following = FollowupRunner(
        store,
        plan,
        carry_out=follower(store, plan.night, args.runtime, at_once, judge),
        budget_s=budget_s,
        report=_report,
    )
    ran = [one.job.group for one in store.history() if one.night < plan.night]
    until_s = night.until_s if args.no_random else plan.started_s + CATALOGUE_SHARE * budget_s
    _report(_explained_budget(args, plan, until_s, night.until_s))

    def finished_plan() -> NightPlan:
        return msgspec.structs.replace(plan, skipped=(*skipped, *night.not_reached(jobs)))

    try:
        judge_unjudged(night, jobs)
        batched = partial(following.run, until_s=until_s)
        night.run(oldest_runs_first(jobs, ran), until_s=until_s, after_batch=batched)
        following.run(until_s=until_s, share=1.0 if args.no_random else SHARE)
        while not args.no_random and not night.is_over:
            for target in targets or [ReleaseTarget(kafka=KNOWN[-1].version)]:
                drawing.learn(night.run(drawing.next_round(target, args.runtime)))
            following.run(until_s=night.until_s)
    except RepeatedFailures:
        drawing.catch_up(night.done, store.runs)
        _close(args, store, finished_plan())
        raise
    except (EbbtideError, KeyboardInterrupt, SystemExit):
        # Also if judging cannot start: a closed night would leave runs that no line reports.
        _report(f"next: the same command continues night {plan.night} in {store.folder}")
        raise
    return _close(args, store, finished_plan())


def _scenarios_of(plan: NightPlan) -> dict[str, Scenario]:
    """Return the scenarios of a night by their names; of a killed night whose files are gone, the catalogue."""
    from harness.cli.night_settings import scenarios_of

    words = plan.settings.get("scenarios", _ALL)
    try:
        found = scenarios_of(None if words == _ALL else words)
    except UsageError:
        found = scenarios_of(None)
    return {one.name: one for one in found}


def _explained_budget(args: Args, plan: NightPlan, catalogue_until_s: float, until_s: float) -> str:
    """Return until when runs start, and what --budget has to do with it."""
    clock = "%H:%M" if until_s - plan.started_s < _DAY_S else "%Y-%m-%d %H:%M"
    end, of_catalogue = (f"{datetime.fromtimestamp(one):{clock}}" for one in (until_s, catalogue_until_s))
    budget = f"night {plan.night}: --budget {args.budget} lets runs start until {end}"
    if args.no_random:
        return f"{budget}; a scenario that has no turn by then is first in the next night"
    return f"{budget}: scenarios until {of_catalogue} at the latest, then random schedules"


def _plan(
    args: Args,
    store: Store,
    budget_s: float,
    skipped: tuple[SkippedJob, ...],
    judge_unjudged: Callable[[NightPlan], None],
) -> NightPlan:
    """Return the plan of the killed night if it can continue.

    Otherwise close it, and plan a new night.
    """
    import msgspec

    from harness.nightly.store import NightPlan

    settings = {
        name: str(getattr(args, name)) for name in ("budget", "kafka", "scenarios", "times", "no_random", "runtime")
    }
    if args.shard is not None:
        settings["shard"] = args.shard
    if words := judging_options():
        settings["judging"] = shlex.join(words)
    plan = store.unfinished_night()
    if plan is not None and (plan.settings != settings or plan.started_s + budget_s <= time.time()):
        _report(f"closing night {plan.night}, which was killed")
        try:
            judge_unjudged(plan)
            _close(args, store, plan)
        except (EbbtideError, KeyboardInterrupt, SystemExit):
            _report(f"next: the same command closes night {plan.night} in {store.folder}")
            raise
        plan = None
    if plan is None:
        plan = NightPlan(night=f"{datetime.now(UTC):%Y%m%dT%H%M%S}", settings=settings, started_s=time.time())
    else:
        _report(f"continuing night {plan.night}")
    plan = msgspec.structs.replace(plan, skipped=skipped)
    store.save_plan(plan)
    return plan


def _check_store(args: Args) -> None:
    """Raise `UsageError` if the store is damaged: nothing is fetched or started for such a store."""
    from harness.nightly.random_jobs import RandomJobs
    from harness.nightly.store import Store

    if args.store.is_dir():
        store = Store(args.store)
        # Reading a history cuts off a last line that is not whole, which another night may be writing.
        with store.lock():
            store.check()
            if not args.no_random:
                RandomJobs(store.corpora_folder()).check()


def _close(args: Args, store: Store, plan: NightPlan) -> ExitCode:
    """Write the summary and the JUnit file, remove old records, and print the summary."""
    import msgspec

    from ebbtide.record.files import write_atomically
    from harness.nightly.followup import pending_followups
    from harness.nightly.night import exit_code
    from harness.nightly.store import stale_folders
    from harness.nightly.summary import summary_page, trend, write_junit
    from harness.site.model import site_of, write_site

    history = store.history()
    done = [one for one in history if one.night == plan.night]
    folder = store.night_folder(plan.night)
    changes, followups = trend(history, plan.night), store.followups(plan.night)
    text = summary_page(plan, done, changes, str(store.runs), followups)
    summary, junit = folder / "summary.md", folder / "junit.xml"
    write_atomically(summary, text.encode())
    write_junit(junit, plan.night, done, plan.skipped)
    store.save_plan(msgspec.structs.replace(plan, ended_s=time.time()))
    pending = {str(one.run_id) for one in pending_followups(store, plan.night)}
    for one in list(stale_folders(store.runs, history, night=plan.night, keep=args.keep, pending=pending)):
        shutil.rmtree(one, ignore_errors=True)
    site = write_site(site_of([store]), store.folder / SITE)
    code = exit_code(done, args.fail_on)
    if args.json:
        from harness.cli.json_outputs import NightOutput

        output = NightOutput(
            night=plan.night,
            runs=tuple(done),
            skipped=plan.skipped,
            followups=tuple(followups),
            changes=changes,
            exit_code=code,
            summary=str(summary),
            junit=str(junit),
            site=str(site),
        )
        print_json(output)
    else:
        print(text)
        print(f"summary: {summary}\nJUnit:   {junit}\nsite:    {site}")
    return code


def _report(text: str) -> None:
    """Print a line with the time to stderr."""
    print(f"{datetime.now():%H:%M:%S}  {text}", file=sys.stderr, flush=True)
