"""`ebbtide shrink RUN`: finds the smallest scenario that reproduces a finding."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from cluster.privileges.choice import PrivilegeRequest
from ebbtide.errors import ExitCode
from ebbtide.named_files import check_named_file, refuse_existing, write_named_file
from ebbtide.shown_text import plural
from ebbtide.signals import is_interrupt
from harness.cli import options, replay
from harness.cli.command import Args, Command
from harness.cli.option_values import jobs_of, launch_options_of
from harness.cli.output import print_json
from harness.cli.parameters import duration_s_of
from harness.cli.progress import judging_note
from harness.cli.run_flow import begin_judging, check_runs, judge_of, progress_display, verdict_or_raise


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Find the smallest scenario that reproduces the gravest finding of a record, one anomaly by one cause. "
        "Delta debugging over real runs, on the record's release, removes steps, brokers, partitions, clients and "
        "records. Power is lost as in the record, unless --power-loss says otherwise. If you stop the search, the same "
        "command continues it. Runs with another --power-loss, --runtime or --image do not count.",
        codes={0: "over half of the file's runs show the finding", 2: "half or fewer do, or the recorded steps do not"},
        epilog="example: ebbtide shrink runs/<run_id> --budget 30m --out small.toml",
    )
    options.add_record_argument(command)
    options.add_budget_option(
        command,
        "the time in which the command ends; at least one run confirms the result",
        "30m",
    )
    options.add_out_option(
        command,
        "the file to write (default: <scenario>-shrunk.toml); an earlier result of the same run is replaced",
    )
    options.add_times_option(command, "how often to run the result, to measure its rate", 3)
    options.add_json_option(command)
    options.add_jobs_option(command)
    options.add_launch_options(command)
    options.add_judging_options(command)
    return command


def privileges(args: Args) -> PrivilegeRequest:
    """Ask for the privileges of a replay, as `replay.privileges` does, and to write the file."""
    return replay.privileges(args, _out_file(args, "").parent)


def run(args: Args) -> ExitCode:
    """Shrink, write the file, and print the result."""
    from ebbtide.judging_process import JudgingProcess
    from ebbtide.scenario.write import SCENARIO
    from harness.cli.rule_files import judging_options
    from harness.replay.recorded_run import load_run, load_run_to_repeat
    from harness.replay.replaying import with_recorded_power_loss
    from harness.shrink.file import is_from
    from harness.shrink.goal import goal_from_record
    from harness.shrink.running import shrink

    seconds = duration_s_of("--budget", args.budget)
    jobs = jobs_of(args)
    recorded = load_run_to_repeat(args.run)
    out = _out_file(args, recorded.scenario.name)
    check_named_file(out, "scenario", "--out")
    if not is_from(out, recorded.manifest.run_id):
        refuse_existing(out)
    kafka = recorded.manifest.kafka_name
    launch = with_recorded_power_loss(recorded, launch_options_of(args))
    runs = check_runs(launch, recorded.scenario, [kafka])
    with (
        _report_interrupt(),
        JudgingProcess(options=judging_options()) as judging,
        progress_display(as_json=args.json) as display,
    ):
        begin_judging(judging)
        judge = judge_of(judging)
        if recorded.verdict is None:
            display.note(judging_note())
            verdict_or_raise(judge(recorded.folder))
            recorded = load_run(args.run)
        goal_from_record(recorded)
        done = shrink(
            recorded,
            launch=runs.prepare(display),
            judge=lambda record: verdict_or_raise(judge(record)),
            display=display,
            budget_s=seconds,
            times=args.times,
            jobs=jobs,
        )
    write_named_file(out, done.text.encode(), "scenario")
    smaller = done.smaller
    if args.json:
        from harness.cli.json_outputs import ShrinkOutput

        result = ShrinkOutput(
            file=str(out),
            facts=done.goal.facts,
            not_kept=done.goal.besides,
            steps_before=len(recorded.scenario.steps),
            steps=len(smaller.scenario.steps),
            kept=done.kept,
            brokers=smaller.scenario.cluster.brokers,
            shown=smaller.shown,
            times=smaller.times,
            finished=smaller.finished,
            gave_way=smaller.gave_way,
            runs=done.runs,
            took_s=round(done.took_s, 1),
            elapsed_s=round(done.elapsed_s, 1),
        )
        print_json(result)
    else:
        print(f"\n{done.text}")
        print(f"{out}: {len(smaller.scenario.steps)} of {len(recorded.scenario.steps)} steps, ", end="")
        print(f"shown in {smaller.shown} of {smaller.times} runs; the search took {done.elapsed_s / 60:.1f} min")
        print(f"{plural(done.runs, 'run')} in all calls so far took {done.took_s / 60:.1f} min together")
        for one in done.kept:
            print(f"  kept: {one.describe(str(recorded.folder / SCENARIO))}")
        if not smaller.finished:
            print("the search is not finished; the same command continues it")
        elif smaller.gave_way:
            print("a smaller scenario showed the finding only in half of its runs or fewer; ", end="")
            print("the same command would give the same result")
        print(f"next: ebbtide run {shlex.quote(str(out))} --kafka {kafka}{launch.typed()}")
    return ExitCode.AS_PREDICTED if smaller.shown * 2 > smaller.times else ExitCode.INCONCLUSIVE


@contextlib.contextmanager
def _report_interrupt() -> Iterator[None]:
    """Print that the same command continues the search, if the search is interrupted."""
    try:
        yield
    except BaseException as error:
        if is_interrupt(error):
            print("the answers so far are kept; next: the same command continues the search", file=sys.stderr)
        raise


def _out_file(args: Args, scenario: str) -> Path:
    return Path(args.out or f"{scenario.removesuffix('-shrunk')}-shrunk.toml")
