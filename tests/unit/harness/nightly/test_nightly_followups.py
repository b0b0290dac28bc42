"""What nights do about contradictions: which, when, for how long, and what a killed one goes on with."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from nights import NIGHT, World, finished_job, job

from ebbtide.errors import EbbtideError, HarnessError, UsageError
from ebbtide.locks import LockUnavailable
from ebbtide.record.manifest import Manifest
from ebbtide.record.verdict import Outcome, Verdict
from ebbtide.scenario import catalogue
from ebbtide.scenario.write import SCENARIO
from harness.cli.night_work import RUNS_LOG, follower
from harness.nightly import followup
from harness.nightly.followup import (
    SHRINK_AT_MOST_S,
    FollowupRunner,
    follow_up,
    pending_contradictions,
    pending_followups,
)
from harness.nightly.job import parse_target, random_job
from harness.nightly.night import BATCH
from harness.nightly.store import FinishedJob, Followup
from harness.replay.replaying import Replay, UnjudgedReplay
from harness.shrink.search import NotReproduced, SearchCutShort


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "store")


def contradicted_job(night: str, scenario: str, number: int = 1) -> FinishedJob:
    one = finished_job(night, "contradicted", scenario, number)
    return msgspec.structs.replace(one, run_id=f"{night}-{scenario}-{number}")


def names(
    history: Sequence[FinishedJob], night: str, *, settled: Sequence[str] = (), gone: Sequence[str] = ()
) -> list[str]:
    return [
        str(one.run_id)
        for one in pending_contradictions(
            history, night, settled=settled, tried=(), has_record=lambda run_id: run_id not in gone
        )
    ]


def test_a_contradiction_that_its_own_night_did_not_follow_up_is_followed_up_later() -> None:
    random = msgspec.structs.replace(
        contradicted_job("n1", "random-3"), job=random_job(parse_target("4.3.1"), "local", 3)
    )
    history = [
        contradicted_job("n1", "again"),
        random,
        contradicted_job("n1", "once"),
        contradicted_job("n2", "again"),
        contradicted_job("n2", "new"),
    ]
    # Of this night first, of which "again" goes on from the record that it was begun with; then the newest.
    assert names(history, "n2") == ["n1-again-1", "n2-new-1", "n1-once-1", "n1-random-3-1"]
    assert names(history, "n2", gone=["n1-again-1", "n1-once-1"]) == ["n2-again-1", "n2-new-1", "n1-random-3-1"]
    assert names(history, "n2", settled=["n1-again-1", "n1-random-3-1"]) == ["n2-new-1", "n1-once-1"]


def test_one_that_comes_back_after_a_night_as_predicted_is_new_again() -> None:
    history = [contradicted_job("n1", "a"), finished_job("n2", "failed", "a"), contradicted_job("n3", "a")]
    assert names(history, "n3", settled=["n1-a-1"]) == []
    history[1] = finished_job("n2", "as-predicted", "a")
    assert names(history, "n3", settled=["n1-a-1"]) == ["n3-a-1"]
    # As predicted once, and never followed up: its record says all the same what happened.
    assert names(history[:2], "n2") == ["n1-a-1"]


class FollowupJobs:
    """Follow-ups that take some seconds each, and are settled."""

    def __init__(self, world: World, takes_s: float, settled: bool = True) -> None:
        self.world, self.takes_s, self.settled = world, takes_s, settled
        self.until_s: list[float] = []

    def __call__(self, one: FinishedJob, until_s: float) -> Followup:
        self.until_s.append(until_s)
        self.world.now_s += self.takes_s
        return Followup(run_id=str(one.run_id), times=3, same=3, settled=self.settled)

    def followup_runner(self, budget_s: float) -> FollowupRunner:
        return FollowupRunner(
            self.world.store,
            self.world.plan,
            carry_out=self,
            budget_s=budget_s,
            report=self.world.messages.append,
            clock=lambda: self.world.now_s,
        )


def contradicted_jobs(world: World, count: int) -> list[str]:
    for number in range(count):
        one = contradicted_job(NIGHT, f"s{number}")
        (world.store.runs / str(one.run_id)).mkdir()
        world.store.append_job(one)
    return [f"{NIGHT}-s{number}-1" for number in range(count)]


def test_follow_ups_take_a_third_of_the_budget_and_no_more_is_begun(world: World) -> None:
    ids = contradicted_jobs(world, 5)
    followed = FollowupJobs(world, takes_s=50)
    followed.followup_runner(300).run(until_s=5000)
    assert [one.run_id for one in world.store.followups(NIGHT)] == ids[:2]
    assert followed.until_s == [1100.0, 1100.0]
    # Killed and started again, the night has spent what it has.
    followed.followup_runner(300).run(until_s=5000)
    assert len(followed.until_s) == 2
    followed.followup_runner(300).run(until_s=1150, share=1.0)
    assert [one.run_id for one in world.store.followups(NIGHT)] == ids[:3]
    assert followed.until_s[2] == 1150


def test_what_was_not_settled_is_tried_once_a_night_and_taken_up_by_the_next(world: World) -> None:
    [run_id] = contradicted_jobs(world, 1)
    followed = FollowupJobs(world, takes_s=1, settled=False)
    for _ in range(2):
        followed.followup_runner(300).run(until_s=5000)
    assert len(followed.until_s) == 1
    world.plan = msgspec.structs.replace(world.plan, night="20261122T010000")
    assert [one.run_id for one in pending_followups(world.store, world.plan.night)] == [run_id]
    FollowupJobs(world, takes_s=1).followup_runner(300).run(until_s=5000)
    assert pending_followups(world.store, "20261123T010000") == []


def test_contradictions_are_followed_up_while_the_catalogue_runs(world: World) -> None:
    jobs = [job(number) for number in range(1, BATCH + 4)]
    world.outcomes[jobs[2].key] = "contradicted"
    following = FollowupJobs(world, takes_s=1).followup_runner(3600)
    ran_before: list[int] = []

    def after_batch() -> None:
        following.run(until_s=5000)
        ran_before.append(len(world.ran))

    world.night().run(jobs, after_batch=after_batch)
    assert ran_before == [BATCH]
    assert len(world.store.followups(NIGHT)) == 1
    assert len(world.ran) == len(jobs)


def test_lines_of_earlier_versions_count_as_settled(world: World) -> None:
    path = world.store.night_folder(NIGHT) / "followups.json"
    path.write_text('[{"run_id": "r", "times": 3, "same": 0, "failure": "it did not come again"}]')
    [one] = world.store.all_followups()
    assert one.settled


class FakeReplays:
    """Stands for what replays and shrinks: one recorded run, `failures` of the replays that are run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, same: bool, failures: int = 0) -> None:
        self.same, self.failures = same, failures
        self.run: list[int] = []
        self.at_once: dict[str, int] = {}
        self.log: Path | None = None
        self.in_time: int | None = None
        self.shrunk: EbbtideError | bool = True
        self.damaged = False
        self.disturbed: Outcome | None = None
        for name in ("load_run", "plan", "run_replays", "judge_replay", "summarize", "shrink"):
            monkeypatch.setattr(followup, name, getattr(self, name))

    def load_run(self, folder: Path) -> Any:
        return SimpleNamespace(
            manifest=Manifest(run_id=folder.name, kafka="4.3.1"), scenario=SimpleNamespace(steps=[1, 2, 3])
        )

    def plan(self, _recorded: Any, *, kafka: str) -> Any:
        return None

    def run_replays(
        self, _recorded: Any, releases: Sequence[str], *, times: int, jobs: int, log: Path, until_s: float, **_: Any
    ) -> Iterator[UnjudgedReplay]:
        self.run.append(times)
        self.until_s = until_s
        self.at_once["replay"], self.log = jobs, log
        for number in range(times if self.in_time is None else self.in_time):
            failure = "no room" if number < self.failures else None
            yield UnjudgedReplay(kafka=releases[0], plan=None, record=None if failure else Path("r"), failure=failure)  # type: ignore[arg-type]

    def judge_replay(self, _recorded: Any, ran: UnjudgedReplay, _judge: Any) -> Replay:
        if self.disturbed:
            manifest = Manifest(run_id="r", status="failed", failure="something outside of the run stopped broker-1")
            verdict = Verdict(run_id="r", outcome=self.disturbed)
            return Replay(kafka=ran.kafka, run=SimpleNamespace(manifest=manifest, verdict=verdict))  # type: ignore[arg-type]
        return Replay(kafka=ran.kafka, failure="damaged" if self.damaged else ran.failure)

    def summarize(self, _recorded: Any, ran: Sequence[Replay]) -> list[Any]:
        there = [one for one in ran if one.failure is None]
        return [SimpleNamespace(times=len(ran), same=len(there) if self.same else 0)]

    def shrink(self, *_: Any, jobs: int, apart: bool, **__: Any) -> Any:
        assert apart, "a run that hangs would end no night"
        self.at_once["shrink"] = jobs
        if isinstance(self.shrunk, EbbtideError):
            raise self.shrunk
        smaller = SimpleNamespace(scenario=SimpleNamespace(steps=[1]), finished=self.shrunk)
        return SimpleNamespace(smaller=smaller, text="name = 'smaller'\n", kept=())


def follow_up_job(world: World, one: FinishedJob, left_s: float = 1000.0) -> Followup:
    until_s = time.time() + left_s
    return follow_up(
        world.store,
        one,
        launch=None,  # type: ignore[arg-type]
        judge=None,  # type: ignore[arg-type]
        display=None,  # type: ignore[arg-type]
        until_s=until_s,
        jobs=1,
        log=world.store.folder / "log",
    )


def test_replays_that_cannot_be_judged_do_not_settle_what_they_were_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeReplays(monkeypatch, same=False).damaged = True
    end = follow_up_job(world, contradicted_job(NIGHT, "healthy"))
    assert (end.failure, end.settled) == ("damaged", False)


@pytest.mark.parametrize(("outcome", "settled"), [("inconclusive", False), ("contradicted", True)])
def test_a_replay_that_something_outside_ended_is_repeated(
    world: World, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, settled: bool
) -> None:
    replayed = FakeReplays(monkeypatch, same=False)
    replayed.disturbed = outcome
    end = follow_up_job(world, contradicted_job(NIGHT, "healthy"))
    reason = "no replay reproduced it" if settled else "something outside of the run stopped broker-1"
    assert (end.failure, end.settled) == (reason, settled)


def test_replays_that_a_killed_follow_up_left_are_taken_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    one = contradicted_job(NIGHT, "healthy")
    run_id = str(one.run_id)
    world.record(job(), name="a", replay_of=run_id)
    world.record(job(), name="b", replay_of=run_id)
    world.record(job(), "interrupted", name="c", replay_of=run_id)
    world.record(job(), name="d", replay_of="another")
    world.record(job(kafka="3.9.1"), name="e", replay_of=run_id)
    replayed = FakeReplays(monkeypatch, same=True)
    end = follow_up_job(world, one)
    assert (replayed.run, end.times, end.same, end.settled) == ([1], 3, 3, True)


def test_replays_that_failed_for_the_hosts_sake_settle_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeReplays(monkeypatch, same=True, failures=3)
    end = follow_up_job(world, contradicted_job(NIGHT, "healthy"))
    assert (end.settled, end.failure) == (False, "no room")
    FakeReplays(monkeypatch, same=False)
    end = follow_up_job(world, contradicted_job(NIGHT, "healthy"))
    assert (end.settled, end.failure) == (True, "no replay reproduced it")


@pytest.mark.parametrize(
    ("error", "left_s", "settled"),
    [
        (HarnessError("no room"), 1000.0, False),
        (UsageError("there is nothing to keep"), 1000.0, True),
        (LockUnavailable("another shrink of this run is under way"), 1000.0, False),
        (NotReproduced("the finding did not come"), 1000.0, True),
        (SearchCutShort("the budget was spent"), 1000.0, False),
        (SearchCutShort("the budget was spent"), SHRINK_AT_MOST_S + 1000.0, True),
    ],
)
def test_a_shrink_that_failed_settles_it_only_if_that_is_about_the_record(
    world: World, monkeypatch: pytest.MonkeyPatch, error: EbbtideError, left_s: float, settled: bool
) -> None:
    FakeReplays(monkeypatch, same=True).shrunk = error
    end = follow_up_job(world, contradicted_job(NIGHT, "healthy"), left_s)
    assert (end.failure, end.settled) == (error.what, settled)


def test_what_the_end_of_the_night_cut_short_is_not_settled(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    replayed = FakeReplays(monkeypatch, same=True)
    end = follow_up_job(world, contradicted_job(NIGHT, "healthy"), left_s=-1.0)
    assert (end.failure, end.times, end.settled) == ("the time ended before shrinking began", 3, False)
    assert "the next night continues this follow-up" in end.describe()
    # Of what it begins no replay may be begun later, and those that were count for the next night.
    assert replayed.until_s < time.time()
    replayed.in_time = 1
    end = follow_up_job(world, contradicted_job(NIGHT, "healthy"), left_s=1000.0)
    assert (end.failure, end.times, end.settled) == ("the time ended before all replays had run", 0, False)
    # Stopped by the bound on a shrink, with time left: another night would find no more.
    replayed.in_time, replayed.shrunk = None, False
    assert follow_up_job(world, contradicted_job(NIGHT, "healthy"), left_s=SHRINK_AT_MOST_S + 1000.0).settled
    # A search starts no run that would end after the night, so it ends before the night does.
    assert not follow_up_job(world, contradicted_job(NIGHT, "healthy"), left_s=1000.0).settled


def test_releases_with_other_feature_levels_are_shrunk_to_files_of_their_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeReplays(monkeypatch, same=True)
    plain, level = contradicted_job(NIGHT, "healthy"), contradicted_job(NIGHT, "healthy", 2)
    other = msgspec.structs.replace(level.job, target=parse_target("4.3.1:eligible.leader.replicas.version=1"))
    ends = [follow_up_job(world, plain), follow_up_job(world, msgspec.structs.replace(level, job=other))]
    assert [Path(str(one.smaller)).name for one in ends] == [
        "healthy-4.3.1-shrunk.toml",
        "healthy-4.3.1-eligible.leader.replicas.version=1-shrunk.toml",
    ]


def test_a_night_follows_up_with_as_many_runs_at_once_as_it_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    replayed = FakeReplays(monkeypatch, same=True)
    monkeypatch.setattr("harness.runner.launch.prepare", lambda *_: None)
    job = contradicted_job(NIGHT, "healthy")
    record = world.store.runs / str(job.run_id)
    record.mkdir()
    (record / SCENARIO).write_text(catalogue.text_of("healthy"))
    end = follower(world.store, NIGHT, "local", 2, world.judge)(job, time.time() + 1000.0)
    assert (end.failure, end.settled) == (None, True)
    assert replayed.at_once == {"replay": 2, "shrink": 2}
    # Not among the records, where nobody would remove it.
    assert replayed.log == world.store.night_folder(NIGHT) / RUNS_LOG
