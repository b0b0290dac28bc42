"""Runs the plan of a record, judges each replay, and compares it with the record."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from analysis.report.html import REPORT
from ebbtide.errors import EbbtideError, ExitCode, UsageError
from ebbtide.record.files import ANOMALIES_DIR, RecordFolder, write_atomically
from ebbtide.record.verdict import EXIT_OF_OUTCOME, VERDICT, Verdict, disturbance_of
from ebbtide.scenario.steps.table import LOSES_POWER
from ebbtide.scratch import ScratchFolder
from harness.replay.compare import Repetition, compare
from harness.replay.finding import ReplayAnswer, answer
from harness.replay.plan import ReplayPlan, plan
from harness.replay.recorded_run import LoadedRun, load_run
from harness.runner.display import Display
from harness.runner.launch import Launch, LaunchOptions
from harness.runner.run import RunRequest, new_seed
from harness.runner.side_by_side import run_in_turn, run_side_by_side

Judge = Callable[[Path], Verdict | EbbtideError]
"""Judges a record and writes its verdict into it; raises or returns the error that prevented it."""
JudgeAll = Callable[[Sequence[Path]], Mapping[Path, Verdict | EbbtideError]]
"""Judges many records at once; returns an error for each record that it could not judge."""


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """One replay, judged and compared with its record.

    Without `run`, `failure` says what prevented that.
    """

    kafka: str
    run: LoadedRun | None = None
    repetition: Repetition | None = None
    failure: str | None = None

    @property
    def is_same(self) -> bool:
        """Whether the replay has the outcome and finding of the record."""
        return self.repetition is not None and self.repetition.same is True

    @property
    def host_failure(self) -> str | None:
        """Why the replay says nothing about its record: it failed, or something outside of it ended it. Else None."""
        if self.run is None or self.run.verdict is None:
            return self.failure
        return self.failure or disturbance_of(self.run.manifest, self.run.verdict)


class UnjudgedReplay(msgspec.Struct, frozen=True, kw_only=True):
    """One replay that was run and not yet judged.

    Without `record`, `failure` says why it could not run.
    """

    kafka: str
    plan: ReplayPlan
    record: Path | None = None
    failure: str | None = None


def with_recorded_power_loss(original: LoadedRun, options: LaunchOptions) -> LaunchOptions:
    """Return `options` with the record's power-loss method, unless the user chose one.

    The default is a real power loss where the host can do it, so only a record with `truncate` changes `options`.
    """
    if options.power_loss == "auto" and original.manifest.power_loss_method == "truncate":
        return msgspec.structs.replace(options, power_loss="truncate")
    return options


def launch_differences(original: LoadedRun, launch: Launch) -> str | None:
    """Describe the settings in which the replays differ from the record, or None."""
    manifest, found = original.manifest, []
    loses_power = not LOSES_POWER.isdisjoint(
        {kind for one in original.scenario.steps for kind in (one.step, getattr(one, "mode", None))}
    )
    if loses_power and manifest.power_loss_method not in (None, launch.power_loss_method):
        found.append(f"power loss by {launch.power_loss_method}, recorded by {manifest.power_loss_method}")
    runtimes = sorted({choice.name for choice in launch.runtimes.values()} - {manifest.runtime})
    if manifest.runtime and runtimes:
        found.append(f"runtime {', '.join(runtimes)}, recorded {manifest.runtime}")
    return f"the replays differ from the record: {'; '.join(found)}" if found else None


def incomplete_note(original: LoadedRun) -> str | None:
    """Return what to expect of replays of a run that did not complete, or None."""
    if original.manifest.status == "complete":
        return None
    why = original.manifest.why_incomplete or original.manifest.status
    return f"the recorded run did not complete ({why}), so its replays differ from it where it ended"


def run_replays(
    original: LoadedRun,
    releases: Sequence[str],
    *,
    times: int,
    seed: int | None,
    launch: Launch,
    display: Display,
    jobs: int = 1,
    log: Path | None = None,
    until_s: float = math.inf,
) -> Iterator[UnjudgedReplay]:
    """Run the record's plan `times` times on each release, `jobs` at once.

    - `seed` draws the brokers' ids; each further replay adds one to it. None keeps the recorded ids.
    - With several jobs, or with a `log`, each replay runs in its own process and writes its output to `log`; None is a
      file among the records.
    - No replay starts after `until_s`, in seconds since the Unix epoch.

    A failure of the harness is raised if only one replay was asked for; otherwise it is the result of that replay.
    """
    run_seed = original.manifest.seed if original.manifest.seed is not None else new_seed()

    def requests() -> Iterator[tuple[tuple[str, ReplayPlan], RunRequest]]:
        for kafka in releases:
            for number in range(times):
                if time.time() >= until_s:
                    return
                planned = plan(original, kafka=kafka, seed=None if seed is None else seed + number)
                scenario = msgspec.structs.replace(planned.scenario, kafka=(kafka,))
                request = launch.request(
                    scenario,
                    kafka,
                    run_seed,
                    replay_of=original.manifest.run_id,
                    allow_unknown_properties=True,
                    gates=planned.gates,
                )
                yield (kafka, planned), request

    if jobs == 1 and log is None:
        ends = run_in_turn(requests(), display)
    else:
        launch.runs.mkdir(parents=True, exist_ok=True)
        log = log or launch.runs / f"replays-of-{original.manifest.run_id}.log"
        display.note(f"running {jobs} replays at once; their output goes to {log}")
        ends = run_side_by_side(requests(), at_once=jobs, log=log)
    with contextlib.closing(ends):
        for (kafka, planned), end in ends:
            if isinstance(end, Path):
                yield UnjudgedReplay(kafka=kafka, plan=planned, record=end)
            elif times == len(releases) == 1:
                raise end
            else:
                display.note(f"a replay on Kafka {kafka} failed: {end.what}")
                yield UnjudgedReplay(kafka=kafka, plan=planned, failure=end.what)


def judge_replay(original: LoadedRun, ran: UnjudgedReplay, judge: Judge) -> Replay:
    """Judge a replay and compare it with the record.

    A replay that cannot be judged has failed.
    """
    if ran.record is None:
        return Replay(kafka=ran.kafka, failure=ran.failure)
    try:
        end = judge(ran.record)
        if isinstance(end, EbbtideError):
            raise end
        run = load_run(ran.record)
    except EbbtideError as error:
        return Replay(kafka=ran.kafka, failure=f"{ran.record} could not be judged: {error.what}")
    return Replay(kafka=ran.kafka, run=run, repetition=compare(original, run, ran.plan.naming))


def judge_replays(
    original: LoadedRun, done: Sequence[UnjudgedReplay], judge: JudgeAll, note: Callable[[str], None]
) -> tuple[LoadedRun, list[Replay]]:
    """Judge replays, and the record again by the same rules, and compare them.

    A record that cannot be judged again keeps its stored verdict, and `note` gets the reason. Raises `EbbtideError` if
    such a record has no stored verdict.
    """
    records = [one.record for one in done if one.record is not None]
    if not records:  # nothing to compare, so no Spark session is needed
        return original, [Replay(kafka=one.kafka, failure=one.failure) for one in done]
    # A record that cannot be written would fail the whole batch, which would then be judged again by halves.
    judged_too = os.access(original.folder, os.W_OK)
    with (
        verdict_backup(RecordFolder(original.folder)) if judged_too else contextlib.nullcontext(lambda: None) as restore
    ):
        ends = judge([*([original.folder] if judged_too else []), *records])
        no_right = UsageError("no permission to write", where=str(original.folder))
        original = _with_new_verdict(original, ends[original.folder] if judged_too else no_right, restore, note)
    return original, [judge_replay(original, one, ends.__getitem__) for one in done]


def _with_new_verdict(
    original: LoadedRun, end: Verdict | EbbtideError, restore: Callable[[], None], note: Callable[[str], None]
) -> LoadedRun:
    """Return the record with its new verdict, or with its stored verdict.

    For the stored verdict it calls `restore`. An inconclusive verdict does not replace a conclusive
    one: the record may have lost tables since.
    """
    before = original.verdict
    if isinstance(end, Verdict):
        if before is None or end.outcome != "inconclusive" or before.outcome == "inconclusive":
            return msgspec.structs.replace(original, verdict=end)
        why = f"is inconclusive when judged again ({'; '.join(end.why[:1])})"
    elif before is None:
        raise end
    else:
        why = f"could not be judged again ({end.what})"
    restore()
    note(f"the record {why}: the replays are compared with its stored verdict, which older rules may have made")
    return original


def missed_gate(run: LoadedRun) -> str | None:
    """Describe the first gate whose state did not come; None if all came.

    The description has the state that came instead.
    """
    for entry in run.steps:
        if entry.state.get("reached") is False:
            waited, seen = entry.state.get("waited_s"), entry.state.get("seen")
            return f"the recorded state before step {entry.index} ({entry.step}) did not come within {waited} s: {seen}"
    return None


class ReplaySummary(msgspec.Struct, frozen=True, kw_only=True):
    """The result of all replays on one release.

    `same` of `times` have the record's outcome and finding.
    """

    kafka: str
    times: int
    same: int
    fidelity: float | None
    answer: ReplayAnswer | None
    exit_code: ExitCode


def summarize(original: LoadedRun, replays: Sequence[Replay]) -> list[ReplaySummary]:
    """Summarize the replays of each release, in the order in which the releases ran."""
    return [
        _summary(original, kafka, [one for one in replays if one.kafka == kafka])
        for kafka in dict.fromkeys(one.kafka for one in replays)
    ]


def _summary(original: LoadedRun, kafka: str, replays: Sequence[Replay]) -> ReplaySummary:
    compared = [one.repetition.fidelity for one in replays if one.repetition is not None]
    elsewhere = kafka != original.manifest.kafka_name
    runs = [one.run for one in replays if one.run is not None]
    failed = [one.failure or "no reason given" for one in replays if one.run is None]
    told = answer(original, kafka, runs, failed=failed) if elsewhere else None
    codes = [_exit_code(one, elsewhere=elsewhere) for one in replays]
    if told is not None and told.saved == "cannot tell":
        # The replay is as predicted, but it does not answer the question about the record.
        codes.append(ExitCode.INCONCLUSIVE)
    return ReplaySummary(
        kafka=kafka,
        times=len(replays),
        same=sum(one.is_same for one in replays),
        fidelity=sum(compared) / len(compared) if compared else None,
        answer=told,
        exit_code=ExitCode.worst(codes),
    )


def _exit_code(replay: Replay, *, elsewhere: bool) -> ExitCode:
    """Return 0 if the record's own release repeats the finding, else 1.

    For another release, returns the exit code of the run.
    """
    if replay.run is None or replay.run.verdict is None:
        return ExitCode.HARNESS_FAILED
    outcome = replay.run.verdict.outcome
    if elsewhere or outcome == "inconclusive":
        return EXIT_OF_OUTCOME[outcome]
    return ExitCode.AS_PREDICTED if replay.is_same else ExitCode.CONTRADICTED


@contextmanager
def verdict_backup(record: RecordFolder) -> Iterator[Callable[[], None]]:
    """Copy the record's verdict, report and anomalies; yield a function to restore."""
    scratch = ScratchFolder()
    try:
        for name in (VERDICT, REPORT):
            if record.has(name):
                shutil.copyfile(record / name, scratch.path / name)
        if record.has_folder(ANOMALIES_DIR):
            shutil.copytree(record / ANOMALIES_DIR, scratch.path / ANOMALIES_DIR)
        yield lambda: _restore(scratch.path, record)
    finally:
        scratch.remove()


def _restore(aside: Path, record: RecordFolder) -> None:
    for name in (VERDICT, REPORT):
        if (aside / name).exists():
            write_atomically(record / name, (aside / name).read_bytes())
        else:
            (record / name).unlink(missing_ok=True)
    anomalies = record / ANOMALIES_DIR
    if anomalies.is_symlink():
        return  # judging replaces a link, so this one was not written to
    shutil.rmtree(anomalies, ignore_errors=True)
    if (aside / ANOMALIES_DIR).exists():
        shutil.copytree(aside / ANOMALIES_DIR, anomalies)
