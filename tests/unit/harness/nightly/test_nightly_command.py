"""The command from end to end, but for clusters, Spark and the host: killed, started again, closed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from unittest.mock import Mock
from xml.etree import ElementTree

import msgspec
import pytest
from nights import World, job

from cluster.doctor import VOLUMES, Check
from cluster.images.find import Image
from cluster.runtime.choose import DockerChoice
from ebbtide.errors import EbbtideError, ExitCode, HarnessError, UsageError
from harness.cli.json_outputs import NightOutput
from harness.cli.main import main
from harness.nightly.job import Job
from harness.nightly.store import FinishedJob, Followup, NightPlan

CarryOut = Callable[[Iterable[Job]], Generator[tuple[Job, Path | EbbtideError], None, None]]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(tmp_path / "store")
    world.now_s = time.time() + 1
    shutil.rmtree(world.store.folder / "nights")
    host = [Check(name="loop mounts", status="missing", detail="no device", disables=(VOLUMES,))]
    monkeypatch.setattr("cluster.doctor.check_host", lambda: host)
    monkeypatch.setattr("cluster.doctor.require_host", lambda _: None)
    monkeypatch.setattr("cluster.doctor.why_no_volumes", lambda: None)
    monkeypatch.setattr("cluster.jars.releases.ensure", lambda *_: [])
    monkeypatch.setattr("cluster.clean.clean", list)
    monkeypatch.setattr("harness.cli.nightly.privileges", lambda _: None)
    monkeypatch.setattr("harness.cli.night_work.carrier", lambda *_: world.carry_out)
    monkeypatch.setattr("harness.cli.night_work.judge_of", lambda *_: world.judge)
    monkeypatch.setattr("harness.cli.night_work.follower", lambda *_: follow)
    return world


def follow(done: FinishedJob, _until_s: float) -> Followup:
    return Followup(run_id=str(done.run_id), times=3, same=3)


def run_nightly(world: World, *flags: str) -> int:
    return main(["nightly", "--store", str(world.store.folder), "--kafka", "4.3.1", "--runtime", "local", *flags])


def killed_after(runs: int, world: World) -> CarryOut:
    def carry_out(jobs: Iterable[Job]) -> Generator[tuple[Job, Path | EbbtideError], None, None]:
        for one in jobs:
            record = world.run(one)
            if len(world.ran) == runs:
                raise KeyboardInterrupt
            yield one, record

    return carry_out


def failing_after(runs: int, world: World) -> CarryOut:
    """The host fails from then on."""

    def carry_out(jobs: Iterable[Job]) -> Generator[tuple[Job, Path | EbbtideError], None, None]:
        for one in jobs:
            yield one, world.run(one) if len(world.ran) < runs else HarnessError("no room on the disk")

    return carry_out


def test_what_had_no_turn_is_listed_and_is_skipped_for_ci(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cli.night_work.carrier", lambda *_: failing_after(2, world))
    assert run_nightly(world, "--scenarios", "healthy", "--times", "7", "--no-random") == ExitCode.HARNESS_FAILED
    out, _ = capsys.readouterr()
    assert "## Not run" in out
    assert "the night ended before its turn; the next night begins with it: healthy on 4.3.1" in out
    (junit,) = world.store.folder.glob("nights/*/junit.xml")
    cases = ElementTree.parse(junit).findall(".//testcase")
    assert len(cases) == 7
    ends = ["skipped" if case.find("skipped") is not None else "ran" for case in cases]
    assert (ends.count("ran"), ends.count("skipped")) == (5, 2)


def test_inconclusive_runs_fail_a_night_only_where_they_are_asked_to(world: World) -> None:
    world.outcomes[job().key] = "inconclusive"
    only = ("--scenarios", "healthy", "--no-random")
    assert run_nightly(world, *only, "--fail-on", "contradicted") == ExitCode.AS_PREDICTED
    assert run_nightly(world, *only) == ExitCode.INCONCLUSIVE


def test_a_night_as_json_has_its_runs_and_prints_no_summary(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.outcomes[job().key] = "inconclusive"
    assert run_nightly(world, "--scenarios", "disk-full,healthy", "--no-random", "--json") == ExitCode.INCONCLUSIVE
    night = msgspec.json.decode(capsys.readouterr().out, type=NightOutput)
    assert [(one.job.scenario, one.ended) for one in night.runs] == [("healthy", "inconclusive")]
    assert [one.job.scenario for one in night.skipped] == ["disk-full"]
    assert night.exit_code == ExitCode.INCONCLUSIVE
    assert all(Path(file).is_file() for file in (night.summary, night.junit, night.site))


def test_what_the_host_cannot_do_is_skipped_and_the_rest_is_run(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_nightly(world, "--scenarios", "disk-full,healthy", "--no-random") == 0
    assert world.ran == [job().key]
    out, err = capsys.readouterr()
    assert "this host lacks loop mounts (no device): disk-full" in out
    assert "skipped: disk-full: this host lacks loop mounts" in err


@pytest.mark.parametrize(
    ("error", "code"),
    [(UsageError("no such Kafka release"), 4), (HarnessError("no Maven client"), 3)],
    ids=lambda one: one.what if isinstance(one, EbbtideError) else "",
)
def test_an_unavailable_release_is_reported_before_there_is_a_night_or_a_store(
    error: EbbtideError,
    code: int,
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ensure = Mock(side_effect=error)
    monkeypatch.setattr("cluster.jars.releases.ensure", ensure)
    new = str(tmp_path / "new")
    assert run_nightly(world, "--kafka", "4.3.1,9.9.9", "--scenarios", "healthy", "--no-random", "--store", new) == code
    assert f"error: {error.what}\n" in capsys.readouterr().err
    assert ensure.call_args.args[0] == ["4.3.1", "9.9.9"]
    assert not (tmp_path / "new").exists()


def test_a_night_in_containers_of_an_image_that_is_there_fetches_no_jars(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = DockerChoice(image=Image(reference="kafka", id="sha256:1", why="on this host"), daemon="27")
    monkeypatch.setattr("harness.runner.launch.choose_runtime", lambda *_: choice)
    monkeypatch.setattr("cluster.jars.releases.ensure", fetched := Mock())
    assert run_nightly(world, "--scenarios", "healthy", "--no-random", "--runtime", "docker") == 0
    assert fetched.call_args.args[0] == []


def test_a_night_whose_scenarios_run_on_none_of_the_releases_is_refused(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_nightly(world, "--kafka", "4.0.0", "--scenarios", "kafka-18991", "--no-random") == 4
    error = capsys.readouterr().err
    assert "no scenario of this night runs on these releases" in error
    assert "allowed: releases that a scenario names: 3.9.0, 3.9.1\n" in error
    assert not (world.store.folder / "nights").exists()


def test_a_night_killed_among_its_random_runs_loses_none_that_was_complete(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cli.night_work.carrier", lambda *_: killed_after(4, world))
    assert run_nightly(world, "--scenarios", "healthy") == 3
    assert [one.job.origin for one in world.store.history()] == ["catalogue", "random", "random"]
    plan = world.store.unfinished_night()
    assert plan is not None
    # Started again, and killed at once.
    monkeypatch.setattr("harness.cli.night_work.carrier", lambda *_: killed_after(5, world))
    assert run_nightly(world, "--scenarios", "healthy") == 3
    assert world.store.unfinished_night() == plan
    history = world.store.history()
    assert [one.job.origin for one in history] == ["catalogue", "random", "random", "random"]
    assert {one.job.key for one in history} == set(world.ran[:4])
    assert (world.store.folder / "random" / "4.3.1" / "corpus.jsonl").read_text().count("\n") >= 1


def test_what_could_not_be_judged_is_judged_when_the_same_command_is_typed_again(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judge, judged = world.judge, Mock(side_effect=HarnessError("Spark does not start"))
    monkeypatch.setattr("harness.cli.night_work.judge_of", lambda *_: judged)
    assert run_nightly(world, "--scenarios", "healthy,rolling-kill,last-replica-standing", "--no-random") == 3
    assert (len(world.ran), world.store.history(), judged.call_count) == (1, [], 1)
    assert "the same command continues night" in capsys.readouterr().err
    judged.side_effect = judge
    assert run_nightly(world, "--scenarios", "healthy,rolling-kill,last-replica-standing", "--no-random") == 0
    assert len(set(world.ran)) == len(world.ran) == 3, "run again"
    assert [one.job.key for one in world.store.history()] == world.ran
    assert world.store.unfinished_night() is None


def test_random_runs_are_learned_from_though_failures_end_their_round(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cli.night_work.carrier", lambda *_: failing_after(2, world))
    assert run_nightly(world, "--scenarios", "healthy") == 3
    assert world.store.unfinished_night() is None
    ended = [(one.job.origin, one.ended) for one in world.store.history() if one.ended != "failed"]
    assert ended == [("catalogue", "as-predicted"), ("random", "as-predicted")]
    assert (world.store.folder / "random" / "4.3.1" / "corpus.jsonl").read_text().count("\n") == 1


def test_a_killed_night_is_closed_with_all_that_it_ran_and_the_new_one_follows_its_contradiction_up(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.store.save_plan(
        NightPlan(night="20010101T010000", settings={"runtime": "local", "times": "1"}, started_s=1.0)
    )
    record = world.record(job(), name="20010101T010500-healthy-4.3.1-aaaa")
    world.outcomes[job().key] = "contradicted"
    assert run_nightly(world, "--scenarios", "healthy", "--no-random") == 1
    first, second = world.store.history()
    assert (first.night, first.run_id) == ("20010101T010000", record.name)
    [one] = world.store.followups(second.night)
    # Of both the first, which a follow-up that was cut short would have gone on from.
    assert one.run_id == record.name
    assert "Contradictions of earlier nights, followed up" in capsys.readouterr().out


def test_a_night_that_ends_removes_what_it_needs_no_more(world: World) -> None:
    orphan = world.record(job(), "interrupted", name="20010101T010500-healthy-4.3.1-aaaa")
    assert run_nightly(world, "--scenarios", "healthy", "--no-random", "--keep", "1") == 0
    assert not orphan.exists()
    [one] = world.store.history()
    assert (world.store.runs / str(one.run_id)).is_dir()


def test_a_second_night_does_not_take_the_live_one_for_killed(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    plan = NightPlan(night="20010101T010000", settings={}, started_s=1.0)
    world.store.save_plan(plan)
    with world.store.lock():
        assert run_nightly(world, "--scenarios", "healthy", "--no-random") == 4
    assert "another night is under way in this store" in capsys.readouterr().err
    assert world.store.unfinished_night() == plan
    assert world.ran == []


def test_a_night_runs_its_shard_only(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    only = ("--scenarios", "healthy", "--times", "2", "--no-random")
    assert run_nightly(world, *only, "--shard", "2/2") == 0
    assert [one.job.number for one in world.store.history()] == [2]
    assert run_nightly(world, *only, "--shard", "3/3") == 4
    assert "at most 2 shards" in capsys.readouterr().err


def test_an_interrupt_while_a_killed_night_is_closed_says_that_the_same_command_continues(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = NightPlan(night="20010101T010000", settings={"runtime": "local", "times": "1"}, started_s=1.0)
    world.store.save_plan(killed)
    world.record(job(), name="20010101T010500-healthy-4.3.1-aaaa")
    judge = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("harness.cli.night_work.judge_of", lambda *_: judge)
    assert run_nightly(world, "--scenarios", "rolling-kill", "--no-random") == 3
    assert "the same command closes night 20010101T010000" in capsys.readouterr().err
    judge.side_effect = world.judge
    assert run_nightly(world, "--scenarios", "rolling-kill", "--no-random") == 0
    assert [one.job.scenario for one in world.store.history()] == ["healthy", "rolling-kill"]
