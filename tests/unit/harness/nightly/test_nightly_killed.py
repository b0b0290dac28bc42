"""Nights that were killed, one beside another, and what a store keeps: the store is made as it would be left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from nights import NIGHT, World, finished_job, job

from ebbtide.errors import UsageError
from ebbtide.record.files import write_atomically
from ebbtide.scenario.parse import load
from ebbtide.scenario.write import SCENARIO, text_of
from harness.nightly.job import ReleaseTarget, parse_target, random_job
from harness.nightly.random_jobs import RandomJobs
from harness.nightly.store import FinishedJob, Store, stale_folders


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "store")


def random_record(world: World, seed: int, target: ReleaseTarget) -> Path:
    """A random run that was complete when its night was killed."""
    drawn = random_job(target, "local", seed)
    record = world.record(drawn, name=f"run-{seed}")
    scenario = msgspec.structs.replace(load(record / SCENARIO), name=drawn.scenario)
    (record / SCENARIO).write_text(text_of(scenario))
    return record


def test_random_runs_of_a_killed_night_are_judged_and_bred_from(world: World, tmp_path: Path) -> None:
    targets = [parse_target(word) for word in ("4.3.1", "4.0.2:eligible.leader.replicas.version=1")]
    for seed, target in enumerate(targets, start=5):
        random_record(world, seed, target)
    night = world.night()
    night.judge_unjudged([job()])
    assert [one.job for one in night.done] == [random_job(targets[0], "local", 5), random_job(targets[1], "local", 6)]
    for _ in range(2):
        RandomJobs(tmp_path / "random").catch_up(night.done, world.store.runs)
    for target, seed in zip(targets, (5, 6), strict=True):
        corpus = tmp_path / "random" / str(target).replace(":", "-") / "corpus.jsonl"
        assert corpus.read_text().count(f'"random-{seed}"') == 1


def test_a_killed_night_that_is_closed_takes_in_what_it_had_run(world: World) -> None:
    world.record(job(1), name="run-1")
    world.record(job(1), name="run-2")
    world.record(job(scenario="no-longer-there"), name="run-3")
    night = world.night()
    night.judge_unjudged()
    assert [(one.job.number, one.run_id) for one in night.done] == [(1, "run-1"), (2, "run-2")]


def test_a_replay_is_not_taken_for_a_run_of_the_catalogue(world: World) -> None:
    world.record(job(), replay_of="another")
    night = world.night()
    night.judge_unjudged([job()])
    assert night.done == []


def test_a_second_night_in_a_store_ends_at_once_and_says_who_holds_it(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    code = (
        "import sys; from pathlib import Path; from harness.nightly.store import Store\n"
        "with Store(Path(sys.argv[1])).lock(): print('held', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    try:
        with pytest.raises(UsageError, match="another night") as refused, Store(folder).lock():
            pass
        assert refused.value.got == f"held by process {other.pid}"
    finally:
        other.kill()
        other.communicate()
    # Killed, it holds nothing any more.
    with Store(folder).lock():
        assert (folder / "lock").read_text() == f"{os.getpid()}\n"


OLD, NEW, LATEST = "20261101T010000", "20261120T010000", "20261121T010000"


def kept_record(world: World, name: str, *, status: str = "complete", replay_of: str | None = None) -> Path:
    return world.record(job(), status, name=f"{name}-healthy-4.3.1-aaaa", replay_of=replay_of)


def test_records_that_nothing_needs_go_by_their_age(world: World) -> None:
    old = {
        ended: kept_record(world, f"2026110{at}T020000") for at, ended in enumerate(("as-predicted", "contradicted"), 1)
    }
    orphan = kept_record(world, "20261103T020000", status="interrupted")
    failed = kept_record(world, "20261104T020000", status="failed")
    replay = kept_record(world, "20261105T020000", replay_of="settled")
    needed = kept_record(world, "20261106T020000", replay_of="pending")
    young = kept_record(world, "20261120T030000", status="interrupted")
    damaged = world.store.runs / "20261107T020000-healthy-4.3.1-bbbb"
    damaged.mkdir()
    mine = world.store.runs / "0-notes"
    mine.mkdir()
    history = [
        msgspec.structs.replace(finished_job(OLD, "as-predicted"), run_id=old["as-predicted"].name),
        msgspec.structs.replace(finished_job(OLD, "contradicted"), run_id=old["contradicted"].name),
        finished_job(NEW, "as-predicted"),
        finished_job(LATEST, "as-predicted"),
    ]
    for run_id, at_s in (("settled", 1e9), ("pending", 1e9), ("begun", 4e9)):
        journal = world.store.runs / ".shrink" / run_id / "journal.jsonl"
        write_atomically(journal, b"")
        os.utime(journal, (at_s, at_s))
    gone = set(stale_folders(world.store.runs, history, night=LATEST, keep=2, pending={"pending"}))
    assert gone == {old["as-predicted"], orphan, failed, replay, damaged, world.store.runs / ".shrink" / "settled"}
    assert not gone & {needed, young, mine, old["contradicted"]}
    younger = set(stale_folders(world.store.runs, history, night=LATEST, keep=3, pending=()))
    assert not younger & set(world.store.runs.iterdir())


def test_random_runs_that_were_judged_and_not_learned_from_are_caught_up_with(world: World, tmp_path: Path) -> None:
    record = random_record(world, 5, ReleaseTarget(kafka="4.3.1"))
    drawn = random_job(ReleaseTarget(kafka="4.3.1"), "local", 5)
    lost = random_job(ReleaseTarget(kafka="4.3.1"), "local", 6)
    finished = [
        FinishedJob(night=NIGHT, job=drawn, run_id=record.name, ended="as-predicted", coverage={"recovering": 2}),
        FinishedJob(night=NIGHT, job=lost, run_id="gone", ended="as-predicted"),
    ]
    RandomJobs(tmp_path / "random").catch_up(finished, world.store.runs)
    assert '"recovering":2' in (tmp_path / "random" / "4.3.1" / "corpus.jsonl").read_text()
