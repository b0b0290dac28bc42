"""What a shrink can say of a candidate before it is run, and of its record before it is judged."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any, Literal
from unittest.mock import Mock

import msgspec
import pytest
from plain_steps import step_of, trigger_of
from real_records import unpack_record
from records import as_record
from replay_records import LOST, SAVED

from analysis.record.whole import Gap
from cluster.runtime.choose import LocalChoice
from ebbtide.errors import ExitCode, HarnessError, StepImpossible, UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import failure_keys, read_manifest, write_manifest
from ebbtide.record.steps import read_steps, write_steps
from ebbtide.record.sums import write_sums
from ebbtide.record.verdict import Verdict
from ebbtide.scenario.model import ProducerSpec, Scenario
from ebbtide.scenario.parse import load
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.triggers import Trigger
from ebbtide.scenario.words import Duration
from ebbtide.scenario.write import text_of
from ebbtide.waiting import WaitExpired
from faults.process import kill
from harness.cli.main import main
from harness.replay.finding import RunFinding
from harness.replay.recorded_run import load_run
from harness.runner import launch
from harness.runner.launch import Launch
from harness.runner.run import RunRequest
from harness.shrink.goal import goal_from_record, goal_to_keep
from harness.shrink.journal import Decision
from harness.shrink.running import CandidateRunner, is_any_acked_record_missing, with_short_deadlines

SCENARIO = load_run(LOST).scenario


KILL = step_of("kill", name="kill", target="leader(t-0)")


def with_steps(*steps: StepSpec) -> Scenario:
    return msgspec.structs.replace(SCENARIO, steps=steps)


def test_a_record_whose_final_read_holds_every_acked_value_needs_no_judgement() -> None:
    assert is_any_acked_record_missing(RecordFolder(LOST))
    assert not is_any_acked_record_missing(RecordFolder(SAVED))


def try_candidate(folder: Path, judge: Any = None, scenario: Scenario = SCENARIO) -> list[Decision | HarnessError]:
    """What comes of one candidate; nothing is told or launched by itself."""
    launch = Launch(runs=folder, runtimes={"3.9.1": LocalChoice()}, power_loss_method="fs-shutdown")
    trying = CandidateRunner(
        goal=goal_from_record(load_run(LOST)), kafka="3.9.1", seed=1, launch=launch, display=Mock(), judge=judge
    )
    return [decision for _, decision in trying([(0, "key", scenario)])]


@pytest.mark.parametrize(
    ("optional", "why"), [(True, "the final read has every acked record"), (False, "step 3 (heal) never")]
)
def test_only_a_step_that_is_not_optional_must_have_fired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optional: bool, why: str
) -> None:
    folder = Path(shutil.copytree(SAVED, tmp_path / "run"))
    steps = read_steps(RecordFolder(folder)) or []
    left_out = msgspec.structs.replace(steps[3], fired_ns=None, parameters={"optional": optional})
    write_steps(RecordFolder(folder), [*steps[:3], left_out])
    monkeypatch.setattr("harness.shrink.running.run_scenario", lambda *_: folder)
    [decision] = try_candidate(tmp_path)
    assert isinstance(decision, Decision)
    assert decision.why.startswith(why)


def test_the_record_of_a_candidate_is_judged_without_gaps_though_its_scenario_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = unpack_record("last-replica-standing-3.9.1", tmp_path)
    scenario = load(record / "scenario.toml")
    (record / "scenario.toml").write_text(text_of(msgspec.structs.replace(scenario, settle_s=1.0)))
    write_sums(RecordFolder(record))
    found: list[tuple[Gap, ...]] = []

    def judge(folder: Path) -> Verdict:
        found.append(as_record(folder).gaps)
        verdict = load_run(LOST).verdict
        assert verdict is not None
        return verdict

    monkeypatch.setattr("harness.shrink.running.run_scenario", lambda *_: record)
    [decision] = try_candidate(tmp_path, judge, scenario)
    assert isinstance(decision, Decision)
    assert decision.shows, decision.why
    assert found == [()]
    assert load(record / "scenario.toml").settle_s == scenario.settle_s


def test_without_a_final_read_nothing_is_ruled_out(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(SAVED, tmp_path / "run"))
    shutil.rmtree(folder / "polls")
    assert is_any_acked_record_missing(RecordFolder(folder))


def test_the_prediction_asks_for_the_cause_where_there_is_one() -> None:
    goal = goal_from_record(load_run(LOST))
    assert goal.outcome == "as-predicted"
    assert goal.prediction.kafka == "==3.9.1"
    assert (goal.prediction.loss.committed, goal.prediction.loss.cause) == ("some", "last-replica-standing")


@pytest.mark.parametrize(
    ("facts", "outcome", "committed", "uncommitted"),
    [
        (("committed loss by last-known-leader", "committed loss by unclean-election"), "as-predicted", "some", "any"),
        (("uncommitted loss by uncommitted-at-failover",), "as-predicted", "none", "some"),
        (("committed loss by unexplained",), "contradicted", "any", "any"),
        (("violated leader-in-isr",), "contradicted", "any", "any"),
        (("vanished",), "as-predicted", "any", "any"),
    ],
)
def test_a_violation_can_only_contradict_and_all_else_is_predicted(
    facts: tuple[str, ...], outcome: str, committed: str, uncommitted: str
) -> None:
    goal = goal_to_keep(RunFinding(outcome="contradicted", facts=facts), "3.9.1", "a test")
    assert goal.outcome == outcome
    assert (goal.prediction.loss.committed, goal.prediction.loss.uncommitted) == (committed, uncommitted)


def test_a_record_that_shows_nothing_cannot_be_shrunk() -> None:
    with pytest.raises(UsageError, match="there is nothing to shrink"):
        goal_from_record(load_run(SAVED))


def test_a_run_that_failed_is_no_answer_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(request: RunRequest, *_: object) -> Path:
        (request.runs / "begun").mkdir(parents=True)
        raise HarnessError("broker-1 died by itself", where="broker-1.log")

    monkeypatch.setattr("harness.shrink.running.run_scenario", fail)
    [failure] = try_candidate(tmp_path)
    assert isinstance(failure, HarnessError)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_something_outside_of_it_ended_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(shutil.copytree(SAVED, tmp_path / "run"))
    ended = "something outside of the run ended the process of producer-1 (by signal 9)"
    write_manifest(
        RecordFolder(folder),
        msgspec.structs.replace(read_manifest(RecordFolder(folder)), status="failed", failure=ended),
    )
    monkeypatch.setattr("harness.shrink.running.run_scenario", lambda *_: folder)
    [failure] = try_candidate(tmp_path)
    assert isinstance(failure, HarnessError)
    assert failure.what == ended


def test_a_step_that_became_impossible_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Path:
        runtime = Mock(nodes={1: Mock()}, pid=Mock(return_value=None))
        runtime.nodes[1].name = "broker-1"
        try:
            kill(runtime, 1)
        except StepImpossible as error:
            error.add_where("step 3 (kill)")
            # As from the process of a run that goes on beside others.
            raise pickle.loads(pickle.dumps(error)) from None
        raise AssertionError("a node that is down was killed")

    monkeypatch.setattr("harness.shrink.running.run_scenario", fail)
    [decision] = try_candidate(tmp_path)
    assert isinstance(decision, Decision)
    assert not decision.shows
    assert decision.why == "step 3 (kill) could not be carried out: broker-1 is down, so that this step is impossible"


@pytest.mark.parametrize(
    "error",
    [
        HarnessError("the kernel refused to limit a link", got="EBUSY"),
        HarnessError("the Docker daemon cannot start the container of broker-1"),
        WaitExpired("the wire proxies to say armed", 5.0, "nothing"),
    ],
)
def test_a_host_that_could_not_carry_a_step_out_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: HarnessError
) -> None:
    error.add_where("step 3 (limit-bandwidth)")

    def fail(*_: object) -> Path:
        raise error

    monkeypatch.setattr("harness.shrink.running.run_scenario", fail)
    assert try_candidate(tmp_path) == [error]


def test_a_second_cause_beside_the_one_to_keep_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(shutil.copytree(LOST, tmp_path / "run"))
    monkeypatch.setattr("harness.shrink.running.run_scenario", lambda *_: folder)
    verdict = load_run(LOST).verdict
    assert verdict is not None
    loss = msgspec.structs.replace(verdict.losses[0], cause="unclean-election")
    [decision] = try_candidate(tmp_path, lambda _: msgspec.structs.replace(verdict, losses=[*verdict.losses, loss]))
    assert decision == Decision(shows=True, took_s=decision.took_s, record=str(folder))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("session_s", "lag_s", "trigger", "at_least_s", "at_most_s"),
    [
        (3.0, 4.0, trigger_of(isr={"partition": "t-0", "size": 1}), 15, 15),
        (2.0, 2.0, trigger_of(isr={"partition": "t-0", "size": 1}), 12, 12),
        (20.0, 4.0, trigger_of(isr={"partition": "t-0", "size": 1}), 28, 40),
        (3.0, 4.0, trigger_of(after=Duration("20s")), 21, 30),
        (3.0, 4.0, trigger_of(acked=3000), 30, 40),
    ],
)
def test_a_hurried_step_still_has_the_time_that_it_waits_for(
    session_s: float, lag_s: float, trigger: Trigger, at_least_s: float, at_most_s: float
) -> None:
    step = msgspec.structs.replace(KILL, trigger=trigger, deadline_s=60.0)
    cluster = msgspec.structs.replace(SCENARIO.cluster, session_timeout_s=session_s, replica_lag_max_s=lag_s)
    producer = ProducerSpec(id=1, topic="t", rate_per_s=100.0)
    scenario = msgspec.structs.replace(with_steps(step), cluster=cluster, producers=(producer,), settle_s=90.0)
    made = with_short_deadlines(scenario)
    assert at_least_s <= made.steps[0].deadline_s <= at_most_s
    assert made.settle_s == session_s + lag_s + 18


def test_of_several_facts_the_gravest_is_kept_and_of_losses_the_greatest() -> None:
    verdict = load_run(LOST).verdict
    assert verdict is not None
    small = msgspec.structs.replace(verdict.losses[0], cause="unclean-election", count=1)
    recorded = msgspec.structs.replace(
        load_run(LOST), verdict=msgspec.structs.replace(verdict, losses=[small, *verdict.losses])
    )
    goal = goal_from_record(recorded)
    assert goal.facts == ("committed loss by last-replica-standing",)
    assert goal.besides == ("committed loss by unclean-election",)
    assert goal.prediction.loss.cause is None
    unexplained = msgspec.structs.replace(small, cause="unexplained")
    graver = msgspec.structs.replace(verdict, losses=[unexplained, *verdict.losses])
    goal = goal_from_record(msgspec.structs.replace(recorded, verdict=graver))
    assert (goal.facts, goal.outcome) == (("committed loss by unexplained",), "contradicted")


DIED = HarnessError("broker-1 ended by itself", where="broker-1", got="exit code 1", next="read logs/broker-1.log")


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return Path(shutil.copytree(LOST, tmp_path / "run"))


def end_as(record: Path, status: Literal["failed", "interrupted"], error: HarnessError | None) -> None:
    keys = {} if error is None else failure_keys(error)
    write_manifest(
        RecordFolder(record), msgspec.structs.replace(read_manifest(RecordFolder(record)), status=status, **keys)
    )


def without_facts(record: Path) -> UsageError:
    recorded = load_run(record)
    assert recorded.verdict is not None
    nothing = msgspec.structs.replace(
        recorded.verdict, losses=(), commits=(), properties=(), anomalies=(), regressions=()
    )
    with pytest.raises(UsageError) as refused:
        goal_from_record(msgspec.structs.replace(recorded, verdict=nothing))
    return refused.value


def test_a_failed_run_without_a_finding_is_refused_with_its_failure(record: Path) -> None:
    end_as(record, "failed", DIED)
    refused = without_facts(record)
    assert refused.what.startswith("the run failed, and until then it showed no loss")
    assert refused.got == "broker-1 ended by itself (broker-1) (exit code 1)"
    assert refused.next == "read logs/broker-1.log"


def test_a_failed_run_with_a_finding_can_be_shrunk(record: Path) -> None:
    end_as(record, "failed", DIED)
    assert goal_from_record(load_run(record)).facts


def test_a_run_that_failed_before_it_began_is_refused_before_it_is_judged(
    record: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launch, "prepare", lambda *_: pytest.fail("prepared before"))
    (record / "verdict.json").unlink()
    end_as(record, "failed", DIED)
    write_steps(
        RecordFolder(record),
        [msgspec.structs.replace(step, fired_ns=None) for step in read_steps(RecordFolder(record)) or []],
    )
    for table in RecordFolder(record).files("sends"):
        table.unlink()
    assert main(["shrink", str(record)]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "got:     broker-1 ended by itself (broker-1) (exit code 1)\n" in said
    assert "next:    read logs/broker-1.log\n" in said
