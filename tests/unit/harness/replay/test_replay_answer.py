"""What replays of a record say of a release, and the exit codes that follow."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from replay_records import LOST, SAVED, judged_otherwise

from ebbtide.errors import ExitCode
from ebbtide.record.files import RecordFolder
from ebbtide.record.steps import read_steps, write_steps
from harness.replay.compare import compare
from harness.replay.finding import answer
from harness.replay.recorded_run import LoadedRun, load_run
from harness.replay.replaying import (
    Replay,
    missed_gate,
    summarize,
    with_recorded_power_loss,
)
from harness.runner.launch import LaunchOptions


def test_a_release_that_lost_nothing_and_proved_it_would_have_saved_the_records() -> None:
    told = answer(load_run(LOST), "4.3.1", [load_run(SAVED)])
    assert told.saved == "yes"
    assert told.why == (
        "Kafka 3.9.1 lost 2,000 committed records (last-replica-standing); 4.3.1 lost none of 2,000 acked"
    )
    assert [clause.split(":")[0] for clause in told.clauses] == ["3.9.1", "4.3.1"]


def test_a_release_on_which_a_step_never_fired_cannot_be_said_to_save(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(SAVED, tmp_path / "run"))
    steps = read_steps(RecordFolder(folder)) or []
    write_steps(RecordFolder(folder), [*steps[:3], msgspec.structs.replace(steps[3], fired_ns=None)])
    told = answer(load_run(LOST), "4.3.1", [load_run(SAVED), load_run(folder)])
    assert (told.saved, told.why) == ("cannot tell", "4.3.1 is inconclusive: step 3 (heal) never fired")


def test_a_step_that_may_come_to_nothing_does_not_stand_in_the_way_of_an_answer(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(SAVED, tmp_path / "run"))
    steps = read_steps(RecordFolder(folder)) or []
    optional = msgspec.structs.replace(steps[3], fired_ns=None, parameters={"optional": True})
    write_steps(RecordFolder(folder), [*steps[:3], optional])
    assert answer(load_run(LOST), "4.3.1", [load_run(folder)]).saved == "yes"


def test_a_fault_whose_probe_failed_says_nothing_of_a_release(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(SAVED, tmp_path / "run"))
    steps = read_steps(RecordFolder(folder)) or []
    write_steps(RecordFolder(folder), [*steps[:3], msgspec.structs.replace(steps[3], proof={"probe": "failed"})])
    assert answer(load_run(LOST), "4.3.1", [load_run(folder)]).saved == "cannot tell"


def test_replays_that_failed_leave_it_open_whether_a_release_saves() -> None:
    lost, saved = load_run(LOST), load_run(SAVED)
    failures = [Replay(kafka="4.3.1", failure="no space")] * 2
    clean = Replay(kafka="4.3.1", run=saved, repetition=compare(lost, saved))
    (summary,) = summarize(lost, [*failures, clean])
    assert summary.answer is not None
    assert summary.answer.saved == "cannot tell"
    assert summary.answer.why.endswith("is inconclusive: 2 of 3 have no verdict: no space")


@pytest.mark.parametrize(("missed", "saved"), [(0, "cannot tell"), (1, "yes")])
def test_a_release_whose_first_fault_met_another_state_cannot_be_said_to_save(missed: int, saved: str) -> None:
    run = load_run(SAVED)
    steps = [
        msgspec.structs.replace(one, state={"reached": one.index != missed, "waited_s": 12.0, "seen": "else"})
        for one in run.steps
    ]
    told = answer(load_run(LOST), "4.3.1", [msgspec.structs.replace(run, steps=tuple(steps))])
    assert told.saved == saved


def test_a_release_on_which_nothing_was_acked_cannot_be_said_to_save() -> None:
    run = load_run(SAVED)
    assert run.verdict is not None
    verdict = msgspec.structs.replace(run.verdict, counts=msgspec.structs.replace(run.verdict.counts, acked=0))
    told = answer(load_run(LOST), "4.3.1", [msgspec.structs.replace(run, verdict=verdict)])
    assert (told.saved, told.why) == ("cannot tell", "4.3.1 is inconclusive: no record was acked")


def test_power_is_lost_as_in_the_record_unless_another_way_was_asked_for() -> None:
    lost = load_run(LOST)
    truncated = _with_method(lost, "truncate")
    assert with_recorded_power_loss(truncated, LaunchOptions()).power_loss == "truncate"
    assert with_recorded_power_loss(truncated, LaunchOptions(power_loss="fs-shutdown")).power_loss == "fs-shutdown"
    assert with_recorded_power_loss(lost, LaunchOptions()).power_loss == "auto"


def _with_method(recorded: LoadedRun, method: str, runtime: str = "local") -> LoadedRun:
    manifest = msgspec.structs.replace(recorded.manifest, power_loss_method=method, runtime=runtime)
    return msgspec.structs.replace(recorded, manifest=manifest)


def test_one_replay_that_lost_outweighs_those_that_did_not() -> None:
    told = answer(load_run(LOST), "4.3.1", [load_run(SAVED), load_run(LOST)])
    assert told.saved == "no"
    assert "in 1 of 2 replays" in told.why


def _replay(run: Path, kafka: str) -> Replay:
    original, replayed = load_run(LOST), load_run(run)
    return Replay(kafka=kafka, run=replayed, repetition=compare(original, replayed))


def test_on_the_records_own_release_the_exit_code_says_whether_the_finding_came_again() -> None:
    lost = load_run(LOST)
    (both,) = summarize(lost, [_replay(LOST, "3.9.1"), _replay(SAVED, "3.9.1")])
    assert (both.same, both.times, both.exit_code, both.answer) == (1, 2, ExitCode.CONTRADICTED, None)
    (again,) = summarize(lost, [_replay(LOST, "3.9.1")])
    assert again.exit_code == ExitCode.AS_PREDICTED


def test_on_another_release_the_exit_code_is_that_runs_own() -> None:
    (other,) = summarize(load_run(LOST), [_replay(SAVED, "4.3.1")])
    assert other.exit_code == ExitCode.AS_PREDICTED
    assert other.answer is not None
    (failed,) = summarize(load_run(LOST), [Replay(kafka="4.3.1", failure="no space")])
    assert failed.exit_code == ExitCode.HARNESS_FAILED


def test_a_replay_elsewhere_that_met_another_situation_is_no_pass() -> None:
    saved = load_run(SAVED)
    assert saved.verdict is not None
    steps = [msgspec.structs.replace(one, state={"reached": False}) for one in saved.steps]
    elsewhere = msgspec.structs.replace(saved, steps=tuple(steps))
    replay = msgspec.structs.replace(_replay(SAVED, "4.3.1"), run=elsewhere)
    (summary,) = summarize(load_run(LOST), [replay])
    assert summary.answer is not None
    assert (saved.verdict.outcome, summary.answer.saved) == ("as-predicted", "cannot tell")
    assert summary.exit_code == ExitCode.INCONCLUSIVE


def test_a_replay_that_proved_nothing_is_inconclusive_even_if_the_record_was_too(tmp_path: Path) -> None:
    original = judged_otherwise(tmp_path, outcome="inconclusive")
    replay = Replay(kafka="3.9.1", run=original, repetition=compare(original, original))
    (summary,) = summarize(original, [replay])
    assert summary.exit_code == ExitCode.INCONCLUSIVE


def test_the_gate_at_which_a_replay_departed_is_reported_with_what_was_awaited_and_seen() -> None:
    run = load_run(LOST)
    assert missed_gate(run) is None
    seen = "t-0 leader 2 epoch 1 ISR [2], not t-0 leader 1 ISR [1]"
    steps = [msgspec.structs.replace(one, state={"reached": True}) for one in run.steps]
    steps[1] = msgspec.structs.replace(steps[1], state={"reached": False, "waited_s": 12.0, "seen": seen})
    told = missed_gate(msgspec.structs.replace(run, steps=tuple(steps)))
    assert told == f"the recorded state before step 1 ({steps[1].step}) did not come within 12.0 s: {seen}"
