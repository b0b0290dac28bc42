"""Nights: what is run, what is done again, what is written down, and what a person reads in the morning."""

from __future__ import annotations

import shutil
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from nights import NIGHT, World, finished_job, job

from ebbtide.errors import ExitCode, HarnessError, UsageError
from ebbtide.folding import fold_line
from ebbtide.record.files import RecordFolder
from ebbtide.record.own_producers import OwnProducer
from ebbtide.scenario import catalogue
from ebbtide.scenario.write import SCENARIO, text_of
from harness.cli.main import main
from harness.nightly.followup import pending_contradictions
from harness.nightly.job import ReleaseTarget, catalogue_jobs, parse_target
from harness.nightly.night import BATCH, UNJUDGED_MOST, exit_code, judged_job
from harness.nightly.store import OF_OWN_CLIENTS, JobEnd, Store
from harness.nightly.summary import Trend, summary_page, trend, write_junit


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "store")


def test_every_scenario_is_run_on_each_of_its_releases_before_any_is_repeated() -> None:
    scenarios = [catalogue.find(name) for name in ("healthy", "last-replica-standing")]
    jobs = list(
        catalogue_jobs(scenarios, [ReleaseTarget(kafka="4.3.1"), ReleaseTarget(kafka="2.0.0")], "local", times=2)
    )
    assert [(one.scenario, one.number) for one in jobs] == [
        ("healthy", 1),
        ("last-replica-standing", 1),
        ("healthy", 2),
        ("last-replica-standing", 2),
    ]
    everywhere = list(catalogue_jobs(scenarios, None, "local", times=1))
    assert {one.target.kafka for one in everywhere if one.scenario == "last-replica-standing"} == {
        "3.9.1",
        "4.3.1",
        "4.4.0",
    }


def test_a_build_is_run_by_every_scenario_that_predicts_something_for_its_version() -> None:
    scenarios = [catalogue.find(name) for name in ("healthy", "last-replica-standing")]
    names = ("4.3.1", "4.3.1@0123abcd", "4.5.0-SNAPSHOT@0123abcd", "4.5.0-SNAPSHOT@9123abcd", "2.8.1@0123abcd")
    jobs = list(catalogue_jobs(scenarios, [parse_target(one) for one in names[:4]], "local", times=1))
    assert [one.target.kafka for one in jobs if one.scenario == "last-replica-standing"] == list(names[:4])
    assert len({one.group for one in jobs}) == len(jobs), "the store keeps builds apart"
    assert list(catalogue_jobs(scenarios[1:], [ReleaseTarget(kafka=names[4])], "local", times=1)) == []


def test_a_scenario_that_fixes_a_feature_level_is_not_run_at_another() -> None:
    healthy = catalogue.find("healthy")
    fixed = msgspec.structs.replace(healthy, cluster=msgspec.structs.replace(healthy.cluster, features={"f": 0}))
    target = parse_target("4.3.1:f=1")
    assert list(catalogue_jobs([fixed], [target], "local", times=1)) == []
    [one] = catalogue_jobs([healthy], [target], "local", times=1)
    assert one.key == "healthy on 4.3.1:f=1 (local) #1"


@pytest.mark.parametrize("text", ["4.3.1:f", "4.3.1:f=x", "4.3.1:=1", "newest"])
def test_a_target_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_target(text)


def test_a_night_runs_each_job_once_and_writes_each_down(world: World) -> None:
    jobs = [job(number) for number in range(1, BATCH + 3)]
    world.outcomes[jobs[1].key] = "contradicted"
    world.night().run(jobs)
    assert world.ran == [one.key for one in jobs]
    history = world.store.history()
    assert [one.job for one in history] == jobs
    assert [one.ended for one in history[:3]] == ["as-predicted", "contradicted", "as-predicted"]
    assert history[1].causes == {"unexplained": 3}
    assert (history[0].seed, history[0].took_s) == (7, 5.0)
    assert history[0].harness_mib > 0


def test_runs_start_while_others_are_judged_up_to_a_limit(world: World) -> None:
    jobs = [job(number) for number in range(1, UNJUDGED_MOST + 3)]
    world.night(is_judging=lambda _: True).run(jobs)
    assert [one.job for one in world.store.history()] == jobs
    assert world.ran_when_judged[:4] == [UNJUDGED_MOST, UNJUDGED_MOST + 1, UNJUDGED_MOST + 2, UNJUDGED_MOST + 2]


def test_a_run_that_something_outside_ended_fails_the_night_and_is_no_result_of_kafka(world: World) -> None:
    disturbed, proven = job(1), job(2)
    world.disturbed = {disturbed.key, proven.key}
    world.outcomes = {disturbed.key: "inconclusive", proven.key: "contradicted"}
    world.night().run([disturbed, proven])
    history = world.store.history()
    assert [one.ended for one in history] == ["failed", "contradicted"]
    assert history[0].why == ("something outside of the run ended the process of producer-1", "a reason")
    assert exit_code(history[:1], "contradicted") == ExitCode.HARNESS_FAILED


def test_no_run_is_started_when_the_budget_is_spent(world: World) -> None:
    night = world.night(budget_s=25)
    night.run(job(number) for number in range(1, 50))
    assert len(world.ran) == 3
    assert len(world.store.history()) == 3
    night.run([job(99)])
    assert len(world.ran) == 3


def test_a_killed_night_goes_on_where_it_was(world: World) -> None:
    jobs = [job(number) for number in range(1, 6)]
    world.night().run(jobs[:2])
    # Run and not judged, run by half, and one of an earlier night.
    world.record(jobs[2])
    world.record(job(7), status="interrupted")
    world.now_s, now_s = 10.0, world.now_s
    world.record(job(8))
    world.now_s = now_s
    assert world.store.unfinished_night() == world.plan
    again = world.night()
    again.judge_unjudged(jobs)
    assert [one.job for one in world.store.history()] == jobs[:3]
    again.run(jobs)
    assert world.ran == [one.key for one in jobs if one != jobs[2]]
    assert [one.job for one in world.store.history()] == jobs
    world.store.save_plan(msgspec.structs.replace(world.plan, ended_s=world.now_s))
    assert world.store.unfinished_night() is None


def test_a_run_that_a_killed_night_left_is_filed_under_the_levels_that_it_was_formatted_with(world: World) -> None:
    healthy = [catalogue.find("healthy")]
    targets = [parse_target(word) for word in ("4.3.1", "4.3.1:eligible.leader.replicas.version=1")]
    for left in (0, 1):
        jobs = list(catalogue_jobs(healthy, targets, "local", times=1))
        ran = world.record(jobs[left])
        night = world.night()
        night.judge_unjudged(jobs)
        assert [(one.job, one.run_id) for one in night.done] == [(jobs[left], ran.name)]
        (world.store.folder / "history.jsonl").unlink()
        shutil.rmtree(ran)


def test_levels_that_the_scenario_fixes_are_no_other_target(world: World) -> None:
    fixing = next(one for one in map(catalogue.find, catalogue.names()) if one.cluster.features)
    [one] = catalogue_jobs([fixing], [ReleaseTarget(kafka=fixing.kafka[0])], "local", times=1)
    record = world.record(one)
    (record / SCENARIO).write_text(text_of(msgspec.structs.replace(fixing, kafka=fixing.kafka[:1])))
    night = world.night()
    night.judge_unjudged([one])
    assert [done.run_id for done in night.done] == [record.name]


def test_a_failure_of_the_harness_does_not_end_the_night_but_three_in_a_row_do(world: World) -> None:
    jobs = [job(number) for number in range(1, 9)]
    world.fails = {jobs[1].key, *(one.key for one in jobs[4:])}
    with pytest.raises(HarnessError, match="3 times in a row"):
        world.night().run(jobs)
    assert world.ran == [one.key for one in jobs[:7]]
    ended = {one.job.number: one.ended for one in world.store.history()}
    assert ended == {1: "as-predicted", 2: "failed", 3: "as-predicted", 4: "as-predicted"} | dict.fromkeys(
        (5, 6, 7), "failed"
    )


def test_a_line_that_was_not_finished_is_cut_off_and_a_damaged_one_is_named(world: World) -> None:
    world.night().run([job()])
    history = world.store.folder / "history.jsonl"
    whole = history.read_bytes()
    history.write_bytes(whole + b'{"night": "2')
    assert len(world.store.history()) == 1
    assert history.read_bytes() == whole
    history.write_bytes(b"{}\n" + whole)
    with pytest.raises(UsageError) as refused:
        world.store.history()
    assert refused.value.where == f"{history}:1"


def test_the_trend_tells_new_gone_and_flaky_from_what_was_before() -> None:
    history = [
        finished_job("n1", "contradicted", "gone"),
        finished_job("n1", "contradicted", "still"),
        finished_job("n1", "as-predicted", "new"),
        finished_job("n2", "as-predicted", "gone"),
        finished_job("n2", "contradicted", "still"),
        finished_job("n2", "contradicted", "new"),
        finished_job("n2", "as-predicted", "flaky", 1),
        finished_job("n2", "inconclusive", "flaky", 2),
    ]
    changes = trend(history, "n2")
    assert changes.new == ("new on 4.3.1 (local)",)
    assert changes.gone == ("gone on 4.3.1 (local)",)
    assert changes.flaky == ("flaky on 4.3.1 (local)",)


def test_no_known_bug_hides_a_contradiction_that_is_none() -> None:
    [group] = {finished_job("n1", "contradicted").job.group}
    known = [
        msgspec.structs.replace(finished_job(night, "contradicted"), known_bug="KAFKA-1")
        for night in ("n1", "n2", "n3")
    ]
    other = finished_job("n2", "contradicted", number=2)
    assert trend(known[:1], "n1").new == ()
    assert trend([known[0], other], "n2").new == (group,)
    both = trend([*known[:2], other], "n2")
    assert (both.new, both.flaky) == ((group,), (group,))
    # Seen already, and then no more; a known bug that does not come is told, too.
    assert trend([known[0], other, finished_job("n3", "contradicted")], "n3").new == ()
    for before in (known[1], other):
        assert trend([before, finished_job("n3", "as-predicted")], "n3").gone == (group,)
    assert trend([other, known[2]], "n3") == Trend(new=(), gone=(), flaky=())


def test_a_known_bug_fails_no_night_and_is_not_followed_up(world: World, tmp_path: Path) -> None:
    one = msgspec.structs.replace(finished_job(NIGHT, "contradicted"), known_bug="KAFKA-1")
    assert one.is_expected
    assert pending_contradictions([one], NIGHT, settled=[], tried=[], has_record=lambda _: True) == []
    page = summary_page(world.plan, [one], trend([one], NIGHT), "store/runs")
    assert "- healthy on 4.3.1 (local): KAFKA-1 (1 of these runs)" in page
    write_junit(tmp_path / "junit.xml", NIGHT, [one])
    [suite] = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert suite.get("failures") == "0"
    assert suite.find(".//failure") is None


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([], ExitCode.INCONCLUSIVE),
        (["as-predicted"], ExitCode.AS_PREDICTED),
        (["as-predicted", "inconclusive"], ExitCode.INCONCLUSIVE),
        (["contradicted", "inconclusive"], ExitCode.CONTRADICTED),
        (["failed", "contradicted"], ExitCode.HARNESS_FAILED),
    ],
)
def test_the_exit_code_is_that_of_the_worst_run(ends: list[JobEnd], code: ExitCode) -> None:
    finished = [finished_job(NIGHT, one) for one in ends]
    assert exit_code(finished) == code
    known = [msgspec.structs.replace(one, known_bug="KAFKA-1") for one in finished]
    assert exit_code(known) == (ExitCode.AS_PREDICTED if known else ExitCode.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([], ExitCode.INCONCLUSIVE),
        (["as-predicted", "inconclusive"], ExitCode.AS_PREDICTED),
        (["contradicted", "inconclusive"], ExitCode.CONTRADICTED),
        (["failed", "inconclusive"], ExitCode.HARNESS_FAILED),
    ],
)
def test_a_night_that_only_contradictions_fail_lets_inconclusive_runs_pass(ends: list[JobEnd], code: ExitCode) -> None:
    assert exit_code([finished_job(NIGHT, one) for one in ends], "contradicted") == code


def test_the_summary_has_the_table_and_each_reason(world: World) -> None:
    finished = [
        finished_job(NIGHT, "as-predicted"),
        finished_job(NIGHT, "contradicted", number=2),
        finished_job(NIGHT, "failed", "other"),
    ]
    page = summary_page(world.plan, finished, trend(finished, NIGHT), "store/runs")
    assert "3 runs: 1 contradicted, 1 failed, 1 as-predicted." in page
    assert "| healthy | 1 ok, 1 **CONTRADICTED** |" in page
    lines = [part for line in page.splitlines() for part in fold_line(line, 80)]
    assert f"  - `ebbtide replay store/runs/{NIGHT}-2`" in lines
    assert "**Flaky**: healthy on 4.3.1 (local)" in page
    auto = [msgspec.structs.replace(one, job=msgspec.structs.replace(one.job, runtime="auto")) for one in finished]
    page = summary_page(world.plan, auto, trend(auto, NIGHT), "store/runs")
    assert "**Flaky**: healthy on 4.3.1\n" in page
    assert "| scenario | 4.3.1 |" in page
    assert "- healthy on 4.3.1, run 2: " in page
    assert "auto" not in page


def test_the_page_of_a_night_says_by_which_rules_a_build_is_judged(world: World) -> None:
    one = finished_job(NIGHT, "as-predicted")
    of_build = msgspec.structs.replace(one.job, target=ReleaseTarget(kafka="4.5.0-SNAPSHOT@0123abcd"))
    finished = [one, msgspec.structs.replace(one, job=of_build)]
    page = summary_page(world.plan, finished, trend(finished, NIGHT), "store/runs")
    said = [line for line in page.splitlines() if "judged by" in line]
    name = of_build.target.kafka
    assert said == [f"{name} is judged by elr-43; {name} is newer than every release that Ebbtide knows."]


def test_junit_counts_contradictions_as_failures_and_what_proved_nothing_as_errors(tmp_path: Path) -> None:
    outcomes: tuple[JobEnd, ...] = ("as-predicted", "contradicted", "inconclusive", "failed")
    write_junit(tmp_path / "junit.xml", NIGHT, [finished_job(NIGHT, one, number=at) for at, one in enumerate(outcomes)])
    [suite] = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "1", "2")
    assert [child.tag for case in suite for child in case if child.tag != "properties"] == ["failure", "error", "error"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--budget", "0h"], "not a time"),
        (["--jobs", "0"], "1 or more"),
        (["--scenarios", "bridge,my/file.toml"], "where:   my/file.toml"),
        (["--scenarios", "healthy.toml"], "did you mean the scenario healthy?"),
        (["--scenarios", "helthy,brigde"], "2 problems"),
        (["--kafka", "newest"], "newest"),
        (["--kafka", "4.3.1,", "--scenarios", ",", "--shard", "3/2"], "3 problems"),
    ],
)
def test_a_night_that_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    assert main(["nightly", "--store", str(tmp_path / "store"), *flags]) == 4
    assert said in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_a_store_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="the store cannot be made"):
        Store(tmp_path / "file")


def test_what_own_producers_lost_counts_in_the_history_and_fails_the_night_if_asked(world: World) -> None:
    own = OwnProducer(client="orders-1", acks=-1, topic="orders", partition=0, acked=600, lost=500, why="gone")
    record = world.record(job())
    judged = msgspec.structs.replace(world.verdict(record), own_producers=[own])
    done = judged_job(NIGHT, job(), RecordFolder(record), judged)
    assert (done.causes, done.lost_committed) == ({OF_OWN_CLIENTS: 500}, 500)
    assert exit_code([done]) is ExitCode.AS_PREDICTED
    assert exit_code([done], "loss") is ExitCode.CONTRADICTED
