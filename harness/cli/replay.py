"""`ebbtide replay RUN`: runs a recorded schedule again, and compares the two runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.privileges.choice import PrivilegeRequest
from ebbtide.errors import RUN_CODES, EbbtideError, ExitCode
from ebbtide.record.files import RecordFolder
from harness.cli import options
from harness.cli.command import Args, Command
from harness.cli.option_values import jobs_of, launch_options_of, releases_of
from harness.cli.output import print_json
from harness.cli.progress import judging_note
from harness.cli.run_flow import (
    begin_judging,
    check_runs,
    hand_over,
    judge_of,
    progress_display,
    report_unfinished_records,
)

if TYPE_CHECKING:
    from ebbtide.record.verdict import Verdict
    from harness.replay.recorded_run import LoadedRun
    from harness.replay.replaying import Replay, ReplaySummary, UnjudgedReplay

_DEPARTURES_MAX = 5

_FIDELITY_KEY = (
    "fidelity (0 to 1): how far a replay agrees with its record, the mean of the shares of equal states of partitions, "
    "effects of steps, and statements of verdicts"
)

_COMPARED_MAX = 4
"""More runs are not shown side by side."""
_SAME_MAX = 4
"""More replays that ended as the record are counted, and not named."""


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Run the schedule of a run record again, with the same topology and clients. Each step fires in the state in "
        "which it fired in the record. Judges the record and its replays, and says how far they agree and where they "
        "differ. On another release, says whether that release would have kept the lost records.",
        epilog="example: ebbtide replay runs/<run_id> --kafka 4.3.1",
        codes={
            **RUN_CODES,
            0: "every replay ended as the record; on another release: as predicted",
            1: "a replay ended otherwise; on another release: contradicted; or a lost record with --fail-on loss",
            2: 'inconclusive; on another release also "cannot tell", or no prediction for it',
        },
    )
    options.add_record_argument(command)
    options.add_releases_option(command, "the record's own")
    options.add_times_option(command, "replays on each release", 1)
    options.add_seed_option(command, "the seed of other broker ids; nothing else changes (default: the record's ids)")
    options.add_fail_on_option(command)
    options.add_judging_options(command)
    options.add_json_option(command)
    options.add_jobs_option(command)
    options.add_launch_options(command)
    return command


def privileges(args: Args, *folders: Path) -> PrivilegeRequest:
    """Ask for the privileges of a cluster, and to write to the folders.

    First raises `UsageError` for an invalid record.
    """
    from harness.replay.recorded_run import load_run_to_repeat

    load_run_to_repeat(args.run)
    jobs_of(args)
    return PrivilegeRequest(runtime=args.runtime, folders=(args.runs, *folders))


def run(args: Args) -> ExitCode:
    """Replay, judge, compare, and print the result."""
    from ebbtide.judging_process import JudgingProcess
    from ebbtide.record.outcomes import exit_code_of
    from harness.cli.rule_files import judging_options
    from harness.replay.recorded_run import load_run_to_repeat
    from harness.replay.replaying import (
        incomplete_note,
        judge_replays,
        launch_differences,
        run_replays,
        summarize,
        with_recorded_power_loss,
    )

    jobs = jobs_of(args)
    original = load_run_to_repeat(args.run)
    releases = [original.manifest.kafka_name] if args.kafka is None else releases_of(args.kafka)
    runs = check_runs(with_recorded_power_loss(original, launch_options_of(args)), original.scenario, releases)
    done: list[UnjudgedReplay] = []
    with (
        JudgingProcess(options=judging_options()) as judging,
        report_unfinished_records(
            "replayed, but not compared; next", lambda: [one.record for one in done if one.record is not None], _note
        ),
    ):
        with progress_display(as_json=args.json) as display:
            begin_judging(judging)
            launch = runs.prepare(display)
            for note in (incomplete_note(original), launch_differences(original, launch)):
                if note is not None:
                    display.note(note)
            ran = run_replays(
                original, releases, times=args.times, seed=args.seed, launch=launch, display=display, jobs=jobs
            )
            for one in ran:
                done.append(one)
                if one.record is not None:
                    hand_over(judging, one.record)
            display.note(judging_note())
        original, replays = judge_replays(original, done, partial(_judge_all, judge_of(judging)), _note)
    found = summarize(original, replays)
    if args.json:
        _print_json(original, replays, found)
    else:
        _print_result(original, replays, found)
    code = ExitCode.worst(one.exit_code for one in found)
    verdicts = [one.run.verdict for one in replays if one.run is not None and one.run.verdict is not None]
    loses = ExitCode.CONTRADICTED in {exit_code_of(verdict, args.fail_on) for verdict in verdicts}
    return ExitCode.CONTRADICTED if loses and code is ExitCode.AS_PREDICTED else code


def _judge_all(
    judge: Callable[[Path], Verdict | EbbtideError], records: Sequence[Path]
) -> dict[Path, Verdict | EbbtideError]:
    """Wait until the records are judged, and print why one cannot be."""
    from harness.cli.crash import print_failure

    ends = {record: judge(record) for record in records}
    for record, end in ends.items():
        if isinstance(end, EbbtideError):
            print_failure(str(record), end.render())
    return ends


def _note(line: str) -> None:
    print(line, file=sys.stderr)


def _print_result(original: LoadedRun, replays: list[Replay], found: list[ReplaySummary]) -> None:
    from analysis.record.record import Record
    from analysis.report.summary import judged_run
    from harness.cli.runs_compare import print_comparison
    from harness.cli.verdict_output import print_side_by_side
    from harness.replay.finding import finding

    _print_answers(found)
    runs = [original, *(one.run for one in replays if one.run is not None)]
    if len(runs) <= _COMPARED_MAX:
        print_side_by_side(
            [judged_run(Record.at(RecordFolder(one.folder)), one.verdict) for one in runs if one.verdict is not None]
        )
    recorded = finding(original.verdict).describe() if original.verdict is not None else "not judged"
    print(f"\nrecorded on Kafka {original.manifest.shown_kafka}: {recorded}")
    for summary in found:
        mine = [one for one in replays if one.kafka == summary.kafka]
        share = _agreement(summary, mine)
        fidelity = f", fidelity {summary.fidelity:.2f}" if summary.fidelity is not None else ""
        print(f"replayed on Kafka {summary.kafka}: {share}{fidelity}")
        if ignored := {name for one in mine if one.run for name in one.run.manifest.ignored_properties}:
            print(f"  ignored, because Kafka {summary.kafka} does not know them: {', '.join(sorted(ignored))}")
        for one in mine if len(mine) == 1 else [one for one in mine if not one.is_same]:
            _print_replay(one)
        if len(mine) > 1:
            same = [one.run.folder for one in mine if one.is_same and one.run is not None]
            print("".join(f"  - {folder}: the same\n" for folder in same[:_SAME_MAX]), end="")
            if len(same) > _SAME_MAX:
                print(f"  - {len(same) - _SAME_MAX} more: the same")
    if any(one.repetition is not None for one in replays):
        print(_FIDELITY_KEY)
    judged = [one.folder for one in runs if one.verdict is not None]
    if 1 < len(judged) <= _COMPARED_MAX:
        print_comparison(judged)


def _agreement(summary: ReplaySummary, replays: list[Replay]) -> str:
    """Return how many replays ended as the record; where the release saves the records, that none lost any."""
    if summary.answer is None or summary.answer.saved != "yes":
        return f"{summary.same} of {summary.times} with the same outcome and cause"
    from ebbtide.record.outcomes import outcome_word

    none = "no committed record lost" + (f" in any of {summary.times}" if summary.times > 1 else "")
    verdicts = [one.run.verdict for one in replays if one.run is not None]
    if all(one is not None and outcome_word(one) == "as-predicted" for one in verdicts):
        return f"{none}, as the specification predicts for this release"
    return none


def _print_answers(found: list[ReplaySummary]) -> None:
    """Print what each other release would have saved: the reader asked for that."""
    answers = [one.answer for one in found if one.answer is not None]
    for answer in answers:
        print(f"would Kafka {answer.kafka} have saved the records? {answer.saved}: {answer.why}")
        for clause in answer.clauses:
            print(f"  {clause}")
    if answers:
        print()


def _print_replay(replay: Replay) -> None:
    from harness.replay.finding import finding
    from harness.replay.replaying import missed_gate

    if replay.run is None or replay.repetition is None:
        print(f"  - the harness failed: {replay.failure}")
        return
    repetition, verdict = replay.repetition, replay.run.verdict
    told = finding(verdict).describe() if verdict is not None else "not judged"
    verdicts = f"{repetition.verdict:.2f}" if repetition.verdict is not None else "?"
    print(f"  - {replay.run.folder}: {told}")
    print(f"    states {repetition.states:.2f}, effects {repetition.effects:.2f}, verdict {verdicts}")
    renamed = {one: other for one, other in repetition.naming.items() if one != other}
    if renamed:
        pairs = ", ".join(f"{one} -> {other}" for one, other in renamed.items())
        print(f"    node ids, record -> replay: {pairs}; the lines below have the ids of the replay")
    if (gate := missed_gate(replay.run)) is not None:
        print(f"    {gate}")
    for word, departure in zip(("first departed", *["then"] * _DEPARTURES_MAX), repetition.departures, strict=False):
        print(f"    {word} {departure.describe()}")
    if not repetition.departures:
        print("    no departure")


def _print_json(original: LoadedRun, replays: list[Replay], found: list[ReplaySummary]) -> None:
    import msgspec

    from harness.cli.json_outputs import ReplayOutput, ReplayRow
    from harness.replay.finding import finding

    def row(one: Replay) -> ReplayRow:
        """One replay as evidence."""
        if one.run is None or one.repetition is None:
            return ReplayRow(kafka=one.kafka, failure=one.failure)
        verdict, repetition = one.run.verdict, one.repetition
        return ReplayRow(
            kafka=one.kafka,
            record=str(one.run.folder),
            run_id=one.run.manifest.run_id,
            ignored_properties=one.run.manifest.ignored_properties,
            fidelity=repetition.fidelity,
            finding=finding(verdict) if verdict is not None else None,
            **msgspec.structs.asdict(repetition),
        )

    answer = ReplayOutput(
        record=str(original.folder),
        run_id=original.manifest.run_id,
        kafka=original.manifest.kafka_name,
        finding=finding(original.verdict) if original.verdict is not None else None,
        replays=tuple(map(row, replays)),
        releases=tuple(found),
    )
    print_json(answer)
