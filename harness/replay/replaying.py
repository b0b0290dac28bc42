"""Replays: runs the plan of a record, any number of times, has each judged, and compares each with the record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from analysis.verdict import EXIT_OF_OUTCOME, Verdict
from harness.errors import ExitCode, HarnessError
from harness.replay.answer import Answer, answer
from harness.replay.compare import Comparison, compare
from harness.replay.plan import Plan, plan
from harness.replay.recorded import Recorded, load_recorded
from harness.runner.display import Display
from harness.runner.launch import Launch
from harness.runner.run import new_seed, run_scenario

Judge = Callable[[Path], Verdict]
"""Judges a record, and writes its verdict into it."""


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """One replay, judged and compared; or, without `run`, why the harness could not carry it out."""

    kafka: str
    run: Recorded | None = None
    comparison: Comparison | None = None
    failure: str | None = None

    @property
    def same(self) -> bool:
        """Whether the same outcome and finding came again."""
        return self.comparison is not None and self.comparison.same is True


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """One replay that was run and not yet judged; without `record`, why the harness could not carry it out."""

    kafka: str
    plan: Plan
    record: Path | None = None
    failure: str | None = None


def run_replays(
    original: Recorded,
    releases: Sequence[str],
    *,
    times: int,
    seed: int | None,
    launch: Launch,
    display: Display,
) -> Iterator[Done]:
    """Run the record's plan `times` on each release. `seed` draws the brokers' ids, each time from the next seed.

    A failure of the harness ends it only where a single replay was asked for: then it is raised.
    """
    run_seed = original.manifest.seed if original.manifest.seed is not None else new_seed()
    for kafka in releases:
        for number in range(times):
            planned = plan(original, kafka=kafka, seed=None if seed is None else seed + number)
            scenario = msgspec.structs.replace(planned.scenario, kafka=(kafka,))
            request = launch.request(scenario, kafka, run_seed, replay_of=original.manifest.run_id, gates=planned.gates)
            try:
                yield Done(kafka=kafka, plan=planned, record=run_scenario(request, display))
            except HarnessError as error:
                if times == len(releases) == 1:
                    raise
                display.note(f"this replay failed: {error.what}")
                yield Done(kafka=kafka, plan=planned, failure=error.what)


def judged(original: Recorded, done: Done, judge: Judge) -> Replay:
    """The replay judged, and compared with the record."""
    if done.record is None:
        return Replay(kafka=done.kafka, failure=done.failure)
    judge(done.record)
    run = load_recorded(done.record)
    return Replay(kafka=done.kafka, run=run, comparison=compare(original, run, done.plan.naming))


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What replays on one release come to. `same` of `times` had the record's outcome and finding."""

    kafka: str
    times: int
    same: int
    fidelity: float | None
    answer: Answer | None
    exit_code: ExitCode


def summaries(original: Recorded, replays: Sequence[Replay]) -> list[Summary]:
    """Release by release, in the order in which they ran."""
    return [
        _summary(original, kafka, [one for one in replays if one.kafka == kafka])
        for kafka in dict.fromkeys(one.kafka for one in replays)
    ]


def _summary(original: Recorded, kafka: str, replays: Sequence[Replay]) -> Summary:
    compared = [one.comparison.fidelity for one in replays if one.comparison is not None]
    elsewhere = kafka != original.manifest.kafka
    runs = [one.run for one in replays if one.run is not None]
    return Summary(
        kafka=kafka,
        times=len(replays),
        same=sum(one.same for one in replays),
        fidelity=sum(compared) / len(compared) if compared else None,
        answer=answer(original, kafka, runs) if elsewhere else None,
        exit_code=ExitCode.worst(_exit_code(one, elsewhere=elsewhere) for one in replays),
    )


def _exit_code(replay: Replay, *, elsewhere: bool) -> ExitCode:
    """On the record's own release, whether its finding came again; on another, how that run ended."""
    if replay.run is None or replay.run.verdict is None:
        return ExitCode.HARNESS_FAILED
    outcome = replay.run.verdict.outcome
    if elsewhere or outcome == "inconclusive":
        return EXIT_OF_OUTCOME[outcome]
    return ExitCode.AS_PREDICTED if replay.same else ExitCode.CONTRADICTED
