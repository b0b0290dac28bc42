"""Nights on a host that cannot do everything, runs that end by a bug, and what is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from unittest.mock import Mock, call
from xml.etree import ElementTree

import msgspec
import pytest
from nights import NIGHT, World, finished_job, job
from replay_records import LOST

from cluster.doctor import LIBRDKAFKA_CLIENTS, VOLUMES, XFS_POWER_LOSS, Check
from cluster.runtime.choose import LocalChoice
from ebbtide.errors import EbbtideError, HarnessError
from ebbtide.record.analyzed import AnalyzedRecord
from ebbtide.scenario import catalogue
from ebbtide.scenario.steps.table import DISK_TROUBLES, WIRE_KINDS
from harness.cli.night_work import RUNS_LOG, carrier, judge_of
from harness.nightly.host_limits import split_jobs, unavailable_abilities
from harness.nightly.job import Job, ReleaseTarget, catalogue_jobs, oldest_runs_first
from harness.nightly.random_jobs import RandomJobs
from harness.nightly.store import Followup, NightPlan, SkippedJob
from harness.nightly.summary import summary_page, trend, write_junit
from harness.replay.recorded_run import load_run
from harness.replay.replaying import run_replays
from harness.runner.launch import Launch
from harness.runner.run import RunRequest
from harness.runner.side_by_side import run_in_turn
from harness.shrink.goal import goal_from_record
from harness.shrink.running import CandidateRunner


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "store")


NO_PROXY = Check(name="wire proxies", status="missing", detail="no nft_redir", disables=tuple(sorted(WIRE_KINDS)))
NO_VOLUMES = Check(name="ext4 shutdown", status="unknown", detail="no loop device", disables=(VOLUMES,))


def test_what_a_host_lacks_is_listed_by_kind_of_step() -> None:
    assert unavailable_abilities([msgspec.structs.replace(NO_PROXY, status="ok")]) == {}
    assert unavailable_abilities([NO_PROXY])["hold-request"] == "this host lacks wire proxies (no nft_redir)"
    # Power is lost by truncate there, so nodes have no volumes to break.
    found = unavailable_abilities([NO_VOLUMES])
    assert found.keys() >= DISK_TROUBLES
    assert "power-loss" not in found


def test_scenarios_that_the_host_cannot_do_are_left_out_and_said(world: World, tmp_path: Path) -> None:
    scenarios = [catalogue.find(name) for name in ("disk-full", "healthy")]
    jobs = list(catalogue_jobs(scenarios, [ReleaseTarget(kafka="4.3.1")], "local", times=2))
    can, skipped = split_jobs(jobs, scenarios, unavailable_abilities([NO_VOLUMES]))
    assert [one.scenario for one in can] == ["healthy", "healthy"]
    assert [one.job.scenario for one in skipped] == ["disk-full", "disk-full"]
    plan = msgspec.structs.replace(world.plan, skipped=skipped)
    page = summary_page(plan, [finished_job(NIGHT, "as-predicted")], trend([], NIGHT), "store/runs")
    assert "1 run: 1 as-predicted; 2 not run." in page
    assert "- this host lacks ext4 shutdown (no loop device): disk-full" in page
    write_junit(tmp_path / "junit.xml", NIGHT, [finished_job(NIGHT, "as-predicted")], skipped)
    [suite] = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("skipped"), suite.get("failures")) == ("3", "2", "0")
    assert len(suite.findall("testcase/skipped")) == 2


@pytest.mark.parametrize(
    ("scenario", "disables"),
    [("client-libraries", LIBRDKAFKA_CLIENTS), ("kernel-write-back-xfs", XFS_POWER_LOSS)],
)
def test_a_scenario_needs_its_client_libraries_and_its_file_system(scenario: str, disables: str) -> None:
    scenarios = [catalogue.find(name) for name in (scenario, "healthy")]
    jobs = list(catalogue_jobs(scenarios, [ReleaseTarget(kafka="4.3.1")], "local", times=1))
    lacking = Check(name="a package", status="missing", detail="not installed", disables=(disables,))
    can, skipped = split_jobs(jobs, scenarios, unavailable_abilities([lacking]))
    assert [one.scenario for one in can] == ["healthy"]
    assert [one.why for one in skipped] == ["this host lacks a package (not installed)"]


def test_without_volumes_the_file_system_does_not_matter() -> None:
    no_xfs = Check(name="xfs shutdown", status="unknown", detail="no loop device", disables=(XFS_POWER_LOSS,))
    assert XFS_POWER_LOSS not in unavailable_abilities([NO_VOLUMES, no_xfs])


def test_a_host_that_can_do_none_of_them_is_refused() -> None:
    scenarios = [catalogue.find("disk-full")]
    jobs = list(catalogue_jobs(scenarios, None, "local", times=1))
    with pytest.raises(HarnessError, match="none of these scenarios") as refused:
        split_jobs(jobs, scenarios, unavailable_abilities([NO_VOLUMES]))
    assert refused.value.got == "this host lacks ext4 shutdown (no loop device)"
    # Nothing to run, for it names other releases, is not for want of the host.
    assert split_jobs([], scenarios, unavailable_abilities([NO_VOLUMES])) == ([], ())


def test_no_schedule_is_drawn_that_the_host_cannot_do(tmp_path: Path) -> None:
    impossible = unavailable_abilities([NO_VOLUMES, NO_PROXY])
    drawing = RandomJobs(tmp_path / "random", without=tuple(DISK_TROUBLES | WIRE_KINDS))
    for _ in range(10):
        for one in drawing.next_round(ReleaseTarget(kafka="4.3.1"), "local"):
            assert not {step.step for step in drawing.scenario_of(one).steps} & impossible.keys()


def test_a_plan_of_an_earlier_version_can_be_read(world: World) -> None:
    path = world.store.night_folder(NIGHT) / "plan.json"
    path.write_text('{"night": "n1", "settings": {}, "started_s": 1.0, "ended_s": null}')
    assert world.store.unfinished_night() == NightPlan(night="n1", settings={}, started_s=1.0)
    skipped = SkippedJob(job=job(), why="no volumes")
    world.store.save_plan(msgspec.structs.replace(world.plan, skipped=(skipped,)))
    again = world.store.unfinished_night()
    assert again is not None
    assert again.skipped == (skipped,)


def test_a_bug_in_a_run_is_a_failed_run_and_the_night_goes_on(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart: list[int] = []

    def run_side_by_side(
        wanted: Iterable[tuple[Job, RunRequest | EbbtideError]], *, at_once: int, log: Path
    ) -> Iterator[tuple[Job, Path | EbbtideError]]:
        apart.append(at_once)
        return ((key, one if isinstance(one, EbbtideError) else tmp_path / "record") for key, one in wanted)

    class PreparedLaunch:
        def request(self, scenario: object, kafka: str, seed: int) -> RunRequest:
            if kafka == "3.9.1":
                raise KeyError("a bug")
            return RunRequest(scenario=catalogue.find("healthy"), kafka=kafka, seed=seed, runs=tmp_path)

    monkeypatch.setattr("harness.runner.side_by_side.run_side_by_side", run_side_by_side)
    monkeypatch.setattr("harness.runner.launch.check", lambda *_: None)
    monkeypatch.setattr("harness.runner.launch.prepare", lambda *_: PreparedLaunch())
    judging = Mock()
    judging.hand_over.side_effect = HarnessError("the judging process does not start")
    scenarios = {"healthy": catalogue.find("healthy")}
    carry_out = carrier(world.store, NIGHT, "local", RandomJobs(tmp_path / "random"), 1, judging, scenarios)
    jobs = [job(kafka="3.9.1"), job(kafka="4.3.1")]
    ends = [end for _, end in carry_out(jobs)]
    # One at a time as well: only another process can be ended whatever hangs in it.
    assert apart == [1]
    assert isinstance(ends[0], EbbtideError)
    assert ends[0].what == "a run ended by a bug in ebbtide: KeyError: 'a bug'"
    assert ends[1] == tmp_path / "record"
    # What is wrong with the judging process ends no run either.
    assert judging.mock_calls == [call.begin(), call.hand_over(tmp_path / "record")]
    assert "Traceback" in (world.store.night_folder(NIGHT) / RUNS_LOG).read_text()


def test_a_night_says_which_records_it_could_not_judge_and_ends_if_it_can_judge_none() -> None:
    answers = [
        HarnessError("the judging process ended twice with this record"),
        AnalyzedRecord(record="two", exit_code=4, failure="no manifest.json"),
        AnalyzedRecord(record="three", exit_code=3, failure="there is no Java", can_judge=False),
    ]
    judge = judge_of(Mock(judge=Mock(side_effect=answers)))
    assert [str(judge(Path(name))) for name in ("one", "two")] == [
        "the judging process ended twice with this record",
        "no manifest.json",
    ]
    with pytest.raises(HarnessError, match="there is no Java"):
        judge(Path("three"))
    with pytest.raises(HarnessError, match="does not start"):
        judge_of(Mock(begin=Mock(side_effect=HarnessError("it does not start"))))(Path("four"))


def test_a_follow_up_runs_in_a_process_of_its_own_though_nothing_else_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = load_run(LOST)
    launch = Launch(
        runs=tmp_path, runtimes={"3.9.1": LocalChoice()}, power_loss_method="fs-shutdown", hold_write_back=True
    )

    def run_side_by_side(
        wanted: Iterable[tuple[object, RunRequest]], **_: object
    ) -> Iterator[tuple[object, Path | EbbtideError]]:
        for key, request in wanted:
            apart.append(request.scenario.name)
            yield key, HarnessError("it did not end")

    apart: list[str] = []
    for module in ("harness.replay.replaying", "harness.shrink.running"):
        monkeypatch.setattr(f"{module}.run_side_by_side", run_side_by_side)
    log = tmp_path / "log"
    [*_] = run_replays(recorded, ["3.9.1"], times=2, seed=None, launch=launch, display=Mock(), log=log)
    goal = goal_from_record(recorded)
    trying = CandidateRunner(goal=goal, kafka="3.9.1", seed=1, launch=launch, display=Mock(), judge=Mock(), apart=True)
    [*_] = trying([(0, "key", recorded.scenario)])
    assert apart == [recorded.scenario.name] * 3


def test_no_replay_is_begun_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = Launch(
        runs=tmp_path, runtimes={"3.9.1": LocalChoice()}, power_loss_method="fs-shutdown", hold_write_back=True
    )
    clock = Mock(side_effect=[10.0, 20.0, 30.0])
    monkeypatch.setattr("harness.replay.replaying.time", Mock(time=clock))
    run = partial(run_in_turn, carry_out=lambda *_: tmp_path / "record")
    monkeypatch.setattr("harness.replay.replaying.run_in_turn", run)
    ran = run_replays(load_run(LOST), ["3.9.1"], times=3, seed=None, launch=launch, display=Mock(), until_s=25.0)
    assert len(list(ran)) == 2


def test_characters_that_xml_cannot_hold_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    why = "a NUL \0, an ESC \x1b[31m, \ufffe and \U0001f30a\tare seen"
    write_junit(path, NIGHT, [msgspec.structs.replace(finished_job(NIGHT, "contradicted"), why=(why,))])
    failure = ElementTree.parse(path).getroot().find(".//failure")
    assert failure is not None
    assert failure.text == "a NUL \ufffd, an ESC \ufffd[31m, \ufffd and \U0001f30a\tare seen"
    assert "\ufffd" in str(failure.get("message"))


def test_gone_is_only_what_ran_and_was_as_predicted() -> None:
    for ended in ("failed", "inconclusive"):
        history = [finished_job("n1", "contradicted"), finished_job("n2", ended), finished_job("n3", "as-predicted")]
        assert trend(history, "n2").gone == ()
        # What proved nothing in between changes nothing.
        assert trend(history, "n3").gone == ("healthy on 4.3.1 (local)",)
        assert trend([*history[:2], finished_job("n3", "contradicted")], "n3").new == ()


def test_the_catalogue_goes_on_with_what_ran_the_longest_ago() -> None:
    jobs = [job(number, name) for number in (1, 2) for name in ("a", "b", "c", "d")]
    ran = [jobs[1].group, jobs[0].group, jobs[2].group, jobs[1].group]
    order = [(one.number, one.scenario) for one in oldest_runs_first(jobs, ran)]
    assert order == [(number, name) for number in (1, 2) for name in ("d", "a", "c", "b")]


def test_the_summary_names_what_was_followed_up_of_earlier_nights(world: World) -> None:
    known = [Followup(run_id="earlier", times=3, same=2), Followup(run_id=f"{NIGHT}-1", times=3, same=1)]
    page = summary_page(world.plan, [finished_job(NIGHT, "contradicted")], trend([], NIGHT), "store/runs", known)
    assert "- `ebbtide analyze store/runs/earlier`: reproduced in 2 of 3 replays" in page
    assert page.count("reproduced in") == 2
