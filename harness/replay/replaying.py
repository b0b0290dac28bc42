"""Replays: runs the plan of a record, any number of times, has each judged, and compares each with the record."""

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
from ebbtide.record.files import ANOMALIES_DIR, write_atomically
from ebbtide.record.verdict import EXIT_OF_OUTCOME, VERDICT, Verdict
from ebbtide.scenario.steps.table import LOSES_POWER
from ebbtide.scratch import Scratch
from harness.replay.answer import ReplayAnswer, answer
from harness.replay.compare import Repetition, compare
from harness.replay.plan import ReplayPlan, plan
from harness.replay.recorded import Recorded, load_recorded
from harness.runner.display import Display
from harness.runner.launch import Launch, Wanted
from harness.runner.run import RunRequest, new_seed
from harness.runner.side_by_side import run_in_turn, run_side_by_side

Judge = Callable[[Path], Verdict | EbbtideError]
"""Judges a record, and writes its verdict into it; raises or returns why it could not."""
JudgeAll = Callable[[Sequence[Path]], Mapping[Path, Verdict | EbbtideError]]
"""The same for many records at once; it returns what it could not judge."""


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """One replay, judged and compared; or, without `run`, why the harness could not carry it out or judge it."""

    kafka: str
    run: Recorded | None = None
    repetition: Repetition | None = None
    failure: str | None = None

    @property
    def same(self) -> bool:
        """Whether the same outcome and finding came again."""
        return self.repetition is not None and self.repetition.same is True


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """One replay that was run and not yet judged; without `record`, why the harness could not carry it out."""

    kafka: str
    plan: ReplayPlan
    record: Path | None = None
    failure: str | None = None


def as_recorded(original: Recorded, wanted: Wanted) -> Wanted:
    """What was asked for, with power lost as in the record where nothing else was asked.

    Of itself the host does it for real where it can, so that only a record of truncate needs a word.
    """
    if wanted.power_loss == "auto" and original.manifest.power_loss_method == "truncate":
        return msgspec.structs.replace(wanted, power_loss="truncate")
    return wanted


def otherwise(original: Recorded, launch: Launch) -> str | None:
    """In what the runs of a launch are not made as the record was; None: in nothing that the record tells."""
    manifest, found = original.manifest, []
    loses_power = not LOSES_POWER.isdisjoint({kind for one in original.scenario.steps for kind in (one.step, one.mode)})
    if loses_power and manifest.power_loss_method not in (None, launch.power_loss_method):
        found.append(f"power is lost by {launch.power_loss_method}, there by {manifest.power_loss_method}")
    runtimes = sorted({choice.name for choice in launch.runtimes.values()} - {manifest.runtime})
    if manifest.runtime and runtimes:
        found.append(f"the runtime is {', '.join(runtimes)}, there {manifest.runtime}")
    return f"not as in the record: {'; '.join(found)}" if found else None


def run_replays(
    original: Recorded,
    releases: Sequence[str],
    *,
    times: int,
    seed: int | None,
    launch: Launch,
    display: Display,
    jobs: int = 1,
    log: Path | None = None,
    until_s: float = math.inf,
) -> Iterator[Ran]:
    """Run the record's plan `times` on each release, `jobs` at once. `seed` draws the brokers' ids, each from the next.

    `log` is where those go on that run in processes of their own: several at once, and all where it is given. None: a
    file among the records. No replay is begun after `until_s`, seconds since the epoch.
    A failure of the harness ends it only where a single replay was asked for: then it is raised.
    """
    run_seed = original.manifest.seed if original.manifest.seed is not None else new_seed()

    def wanted() -> Iterator[tuple[tuple[str, ReplayPlan], RunRequest]]:
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
                    as_it_is=True,
                    gates=planned.gates,
                )
                yield (kafka, planned), request

    if jobs == 1 and log is None:
        ends = run_in_turn(wanted(), display)
    else:
        launch.runs.mkdir(parents=True, exist_ok=True)
        log = log or launch.runs / f"replays-of-{original.manifest.run_id}.log"
        display.note(f"{jobs} at once; what they say goes to {log}")
        ends = run_side_by_side(wanted(), at_once=jobs, log=log)
    with contextlib.closing(ends):
        for (kafka, planned), end in ends:
            if isinstance(end, Path):
                yield Ran(kafka=kafka, plan=planned, record=end)
            elif times == len(releases) == 1:
                raise end
            else:
                display.note(f"this replay failed: {end.what}")
                yield Ran(kafka=kafka, plan=planned, failure=end.what)


def judged(original: Recorded, ran: Ran, judge: Judge) -> Replay:
    """The replay judged, and compared with the record. One that cannot be judged has failed, and stops no other."""
    if ran.record is None:
        return Replay(kafka=ran.kafka, failure=ran.failure)
    try:
        end = judge(ran.record)
        if isinstance(end, EbbtideError):
            raise end
        run = load_recorded(ran.record)
    except EbbtideError as error:
        return Replay(kafka=ran.kafka, failure=f"{ran.record} could not be judged: {error.what}")
    return Replay(kafka=ran.kafka, run=run, repetition=compare(original, run, ran.plan.naming))


def judged_together(
    original: Recorded, done: Sequence[Ran], judge: JudgeAll, note: Callable[[str], None], *, anew: bool = True
) -> tuple[Recorded, list[Replay]]:
    """The replays judged and compared, and with `anew` the record too: by the same rules, whatever made its verdict.

    Where that cannot be, its stored verdict has to do, which `note` is told. Raises `EbbtideError` where it has none.
    """
    records = [one.record for one in done if one.record is not None]
    if not records:  # nothing is compared, and no session needed
        return original, [Replay(kafka=one.kafka, failure=one.failure) for one in done]
    again = anew or original.verdict is None
    # One that cannot be written would fail the jobs of all, which are then done again by halves.
    judged_too = again and os.access(original.folder, os.W_OK)
    with stored(original.folder) if judged_too else contextlib.nullcontext(lambda: None) as put_back:
        ends = judge([*([original.folder] if judged_too else []), *records])
        if again:
            no_right = UsageError("no permission to write", where=str(original.folder))
            original = _with(original, ends[original.folder] if judged_too else no_right, put_back, note)
    return original, [judged(original, one, ends.__getitem__) for one in done]


def _with(
    original: Recorded, end: Verdict | EbbtideError, put_back: Callable[[], None], note: Callable[[str], None]
) -> Recorded:
    """The record with its new verdict, or with the one that it had, which then is `put_back`.

    One that proves nothing takes the place of none that did: the tables that it lacks may have been there then.
    """
    before = original.verdict
    if isinstance(end, Verdict):
        if before is None or end.outcome != "inconclusive" or before.outcome == "inconclusive":
            return msgspec.structs.replace(original, verdict=end)
        why = f"proves nothing any more, judged anew ({'; '.join(end.why[:1])})"
    elif before is None:
        raise end
    else:
        why = f"could not be judged anew ({end.what})"
    put_back()
    note(f"the record {why}: the replays are compared with its stored verdict, which other rules may have made")
    return original


def unreached(run: Recorded) -> str | None:
    """The gate at which the run departed: what was seen at the end of the wait, and awaited; None: it never did."""
    for entry in run.steps:
        if entry.state.get("reached") is False:
            waited, seen = entry.state.get("waited_s"), entry.state.get("seen")
            return f"the recorded state before step {entry.index} ({entry.step}) did not come in {waited} s: {seen}"
    return None


class ReplaySummary(msgspec.Struct, frozen=True, kw_only=True):
    """What replays on one release come to. `same` of `times` had the record's outcome and finding."""

    kafka: str
    times: int
    same: int
    fidelity: float | None
    answer: ReplayAnswer | None
    exit_code: ExitCode


def summaries(original: Recorded, replays: Sequence[Replay]) -> list[ReplaySummary]:
    """Release by release, in the order in which they ran."""
    return [
        _summary(original, kafka, [one for one in replays if one.kafka == kafka])
        for kafka in dict.fromkeys(one.kafka for one in replays)
    ]


def _summary(original: Recorded, kafka: str, replays: Sequence[Replay]) -> ReplaySummary:
    compared = [one.repetition.fidelity for one in replays if one.repetition is not None]
    elsewhere = kafka != original.manifest.kafka
    runs = [one.run for one in replays if one.run is not None]
    failed = [one.failure or "no reason given" for one in replays if one.run is None]
    told = answer(original, kafka, runs, failed=failed) if elsewhere else None
    codes = [_exit_code(one, elsewhere=elsewhere) for one in replays]
    if told is not None and told.saved == "cannot tell":
        # As predicted there, but of another situation than the recorded one.
        codes.append(ExitCode.INCONCLUSIVE)
    return ReplaySummary(
        kafka=kafka,
        times=len(replays),
        same=sum(one.same for one in replays),
        fidelity=sum(compared) / len(compared) if compared else None,
        answer=told,
        exit_code=ExitCode.worst(codes),
    )


def _exit_code(replay: Replay, *, elsewhere: bool) -> ExitCode:
    """On the record's own release, whether its finding came again; on another, how that run ended."""
    if replay.run is None or replay.run.verdict is None:
        return ExitCode.HARNESS_FAILED
    outcome = replay.run.verdict.outcome
    if elsewhere or outcome == "inconclusive":
        return EXIT_OF_OUTCOME[outcome]
    return ExitCode.AS_PREDICTED if replay.same else ExitCode.CONTRADICTED


@contextmanager
def stored(record: Path) -> Iterator[Callable[[], None]]:
    """A function that makes the record's verdict, report and anomalies what they were at the start of the block."""
    scratch = Scratch()
    try:
        for name in (VERDICT, REPORT):
            if (record / name).is_file():
                shutil.copyfile(record / name, scratch.path / name)
        if (record / ANOMALIES_DIR).is_dir():
            shutil.copytree(record / ANOMALIES_DIR, scratch.path / ANOMALIES_DIR)
        yield lambda: _put_back(scratch.path, record)
    finally:
        scratch.remove()


def _put_back(aside: Path, record: Path) -> None:
    for name in (VERDICT, REPORT):
        if (aside / name).exists():
            write_atomically(record / name, (aside / name).read_bytes())
        else:
            (record / name).unlink(missing_ok=True)
    anomalies = record / ANOMALIES_DIR
    if anomalies.is_symlink():
        return  # judging replaces it: nothing was written
    shutil.rmtree(anomalies, ignore_errors=True)
    if (aside / ANOMALIES_DIR).exists():
        shutil.copytree(aside / ANOMALIES_DIR, anomalies)
