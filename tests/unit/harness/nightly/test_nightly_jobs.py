"""What nights run: what the host can do, files, shards; what becomes of runs that a bug ended; the examples."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from unittest.mock import Mock, call
from xml.etree import ElementTree

import msgspec
import pytest
from checkout import ROOT
from nights import NIGHT, World, finished_job, job
from replay_records import LOST

from cluster.doctor import LIBRDKAFKA_CLIENTS, VOLUMES, XFS_POWER_LOSS, Check
from cluster.runtime.choose import LocalChoice
from ebbtide.errors import EbbtideError, HarnessError, UsageError
from ebbtide.record.outcomes import AnalyzedRecord
from ebbtide.scenario import catalogue
from ebbtide.scenario.steps.table import DISK_TROUBLES, WIRE_KINDS
from harness.cli.night_settings import scenarios_of
from harness.cli.night_work import RUNS_LOG, carrier, judge_of
from harness.cli.nightly import _scenarios_of
from harness.nightly.job import Job, ReleaseTarget, catalogue_jobs, oldest_runs_first
from harness.nightly.random_jobs import RandomJobs
from harness.nightly.shards import Shard, jobs_of_shard, measured_s, parse_shard, split_jobs, unavailable_abilities
from harness.nightly.store import NightPlan, SkippedJob
from harness.nightly.summary import summary_page, trend, write_junit
from harness.replay.recorded_run import load_run
from harness.replay.replaying import run_replays
from harness.runner.launch import Launch
from harness.runner.run import RunRequest
from harness.runner.side_by_side import limit_s, run_in_turn


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


def test_no_replay_is_begun_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = Launch(runs=tmp_path, runtimes={"3.9.1": LocalChoice()}, power_loss_method="fs-shutdown")
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


# A night of scenario files: their names are unique, and a killed night finds them again.


def mine(folder: Path, **names: str) -> Path:
    """A folder with a scenario file for each name."""
    folder.mkdir()
    text = catalogue.text_of("healthy")
    for file, name in names.items():
        (folder / f"{file}.toml").write_text(text.replace('name = "healthy"', f'name = "{name}"', 1))
    return folder


def test_a_night_runs_the_files_of_a_folder_beside_scenarios_of_the_catalogue(tmp_path: Path) -> None:
    folder = mine(tmp_path / "mine", a="one", b="two")
    assert [one.name for one in scenarios_of(f"bridge,{folder}")] == ["bridge", "one", "two"]
    assert [one.name for one in scenarios_of(None)] == catalogue.names()


def test_two_files_of_a_night_cannot_have_one_name(tmp_path: Path) -> None:
    folder = mine(tmp_path / "mine", a="one", b="one")
    with pytest.raises(UsageError, match="two scenarios of a night have the name one"):
        scenarios_of(str(folder))


def test_a_killed_night_of_files_judges_their_runs(tmp_path: Path) -> None:
    folder = mine(tmp_path / "mine", a="one")
    (scenario,) = scenarios_of(str(folder))
    plan = NightPlan(night=NIGHT, settings={"scenarios": str(folder)}, started_s=0)
    assert _scenarios_of(plan) == {"one": scenario}
    shutil.rmtree(folder)
    assert set(_scenarios_of(plan)) == set(catalogue.names())
    everything = NightPlan(night=NIGHT, settings={"scenarios": "None"}, started_s=0)
    assert set(_scenarios_of(everything)) == set(catalogue.names())


# The shards of a night are disjoint, complete and about equally long, whoever makes them.


def _jobs(*names: str, times: int = 1) -> list[Job]:
    return [
        Job(scenario=name, target=ReleaseTarget(kafka="4.3.1"), runtime="local", number=number + 1)
        for number in range(times)
        for name in names
    ]


@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_the_shards_of_the_catalogue_are_disjoint_complete_and_balanced(count: int) -> None:
    scenarios = [catalogue.find(name) for name in catalogue.names()]
    jobs = list(catalogue_jobs(scenarios, None, "auto", times=2))
    shards = [jobs_of_shard(jobs, Shard(number, count)) for number in range(1, count + 1)]
    assert Counter(job.key for shard in shards for job in shard) == Counter(job.key for job in jobs)
    measured = measured_s()
    assert not {job.scenario for job in jobs}.isdisjoint(measured)
    lengths = [sum(measured.get(job.scenario, 30.0) for job in shard) for shard in shards]
    assert max(lengths) - min(lengths) <= max(measured.values())


def test_a_long_run_has_its_shard_to_itself_and_the_order_of_the_others_stays() -> None:
    jobs = _jobs("a", "long", "c", "b")
    took = {"a": 10.0, "b": 10.0, "c": 10.0, "long": 30.0}
    assert [job.scenario for job in jobs_of_shard(jobs, Shard(1, 2), took)] == ["long"]
    assert [job.scenario for job in jobs_of_shard(jobs, Shard(2, 2), took)] == ["a", "c", "b"]


def test_a_scenario_that_was_never_measured_counts_as_one_of_median_length() -> None:
    jobs = _jobs("new", "short", "middle", "long")
    took = {"short": 1.0, "middle": 20.0, "long": 21.0}
    assert [job.scenario for job in jobs_of_shard(jobs, Shard(1, 2), took)] == ["short", "long"]


def test_a_shard_is_two_numbers() -> None:
    assert parse_shard("2/5") == Shard(2, 5)
    assert str(Shard(2, 5)) == "2/5"
    for text in ("0/5", "6/5", "5", "1/", "-1/5", "1/2/3", "1/99999", "٢/5"):
        with pytest.raises(UsageError, match="not a shard"):
            parse_shard(text)


# What docs and examples tell to type or to copy for a night.


EXAMPLES = ROOT / "examples" / "nightly"


def test_the_command_is_named_by_its_path_where_no_virtual_environment_is_on_the_path() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *EXAMPLES.iterdir()]
    bare = re.compile(r"^.*(?:\b(?:sudo|root) |Exec\w+=)ebbtide\b.*$", re.MULTILINE)
    assert {page.name: found for page in pages if (found := bare.findall(page.read_text()))} == {}


def test_the_history_is_kept_of_nights_that_fail_the_job_too() -> None:
    steps = re.split(r"\n      - ", (EXAMPLES / "github-workflow.yml").read_text())
    [restored] = [at for at, step in enumerate(steps) if step.startswith("uses: actions/cache/restore@")]
    [night] = [at for at, step in enumerate(steps) if "ebbtide nightly" in step and "run:" in step]
    [saved] = [at for at, step in enumerate(steps) if step.startswith("uses: actions/cache/save@")]
    assert restored < night < saved
    assert "if: always()" in steps[saved]
    assert not [step for step in steps if step.startswith("uses: actions/cache@")]
    same = re.compile(r" (?:path: \|(?:\n {12}\S+)+|key: .*)")
    assert same.findall(steps[restored]) == same.findall(steps[saved])
    assert len(same.findall(steps[saved])) == 2


def test_the_unit_ends_a_night_that_does_not_end_and_not_one_whose_last_run_hangs() -> None:
    unit = (EXAMPLES / "ebbtide-nightly.service").read_text()
    [budget_h], [limit_h] = re.findall(r"--budget (\d+)h", unit), re.findall(r"\nTimeoutStartSec=(\d+)h\n", unit)
    requests = [
        RunRequest(scenario=catalogue.find(name), kafka="4.3.1", seed=1, runs=Path()) for name in catalogue.names()
    ]
    assert int(limit_h) * 3600 > int(budget_h) * 3600 + max(map(limit_s, requests))
