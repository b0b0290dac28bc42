"""What ends a schedule early, and that its record and its error say at which step."""

from __future__ import annotations

import errno
from pathlib import Path

import evidence_builders as build
import msgspec
import pytest
from plain_steps import step_of, trigger_of
from schedule_bench import Bench, MendOnce

from ebbtide.errors import HarnessError, StepImpossible
from ebbtide.record.node_times import NodeTimes, Span
from ebbtide.scenario.triggers import Trigger
from ebbtide.waiting import pause
from faults import process
from faults.base import Effect, proven_effect, unproven_effect
from harness.runner import schedule
from harness.runner.triggers import text_of
from harness.runner.view import ClusterView


@pytest.mark.parametrize(("where", "told"), [(None, "step 1 (kill)"), ("broker-1.log", "broker-1.log")])
def test_a_step_that_could_not_be_injected_is_named_in_the_error_and_says_why_in_the_record(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, where: str | None, told: str
) -> None:
    def kill(_runtime: object, _node: int) -> Effect:
        raise HarnessError("broker-1 is down", where=where)

    monkeypatch.setitem(process.INJECT, "kill", kill)
    with pytest.raises(HarnessError) as caught:
        bench.run(step_of("heal"), step_of("kill", target="broker(1)"))
    assert caught.value.where == told
    assert str(caught.value) == f"broker-1 is down\n  where:   {told}"
    heal, failed = bench.entries()
    assert (heal.why, failed.why) == (None, str(caught.value))
    assert failed.fired_ns is not None


@pytest.mark.parametrize("in_trouble", [True, False])
def test_a_start_on_a_volume_in_trouble_is_impossible_and_on_any_other_a_failure(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, in_trouble: bool
) -> None:
    def start(_runtime: object, _node: int) -> Effect:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setitem(process.INJECT, "start", start)
    before = step_of("read-only" if in_trouble else "kill", target="broker(1)")
    with pytest.raises(StepImpossible if in_trouble else OSError, match="Read-only file system"):
        bench.run(before, step_of("start", target="broker(1)"))


OF_THE_LEADER = step_of(
    "wait", trigger=trigger_of(broker_is={"broker": "leader(t-0)", "state": "registered"}), deadline_s=0.5
)


WITHOUT_LEADER = (
    build.metadata_batch(0, build.topic("t", "T"), build.partition("T", 0, (2, 1, 3), -1)),
    build.metadata_batch(2, build.register(1, 3, "I")),
)


@pytest.fixture
def log(bench: Bench) -> Path:
    """The metadata log of a partition that has no leader now."""
    folder = bench.record / "log"
    build.write_log(folder, *WITHOUT_LEADER)
    bench.view = ClusterView({100: folder}, {100: bench.record / "another mirror"}, (1, 2, 3))
    bench.view.poll()
    return folder


def test_a_trigger_whose_role_stands_for_nobody_waits_until_it_does(bench: Bench, log: Path) -> None:
    looks = 0

    def poll_cluster() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            build.write_log(log, *WITHOUT_LEADER, build.metadata_batch(3, build.change("T", 0, leader=1)))
        bench.view.poll()

    _, finished = bench.run(OF_THE_LEADER, poll_cluster=poll_cluster)
    assert (finished, looks) == (True, 3)


@pytest.mark.usefixtures("log")
def test_a_trigger_whose_role_stands_for_nobody_says_so_at_its_deadline(bench: Bench) -> None:
    _, finished = bench.run(msgspec.structs.replace(OF_THE_LEADER, deadline_s=0.1))
    (wait,) = bench.entries()
    assert not finished
    assert "waited 0.1 s for the trigger broker_is" in str(wait.why)
    assert "leader(t-0) stands for nobody: t-0 leader none" in str(wait.why)


def test_a_time_that_is_as_long_as_the_deadline_passes_also_on_a_busy_host(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []

    def slow_text(trigger: Trigger) -> str:
        if texts:  # after the first look
            pause(0.15)
        texts.append(text_of(trigger))
        return texts[-1]

    monkeypatch.setattr(schedule, "text_of", slow_text)
    _, finished = bench.run(step_of("wait", trigger=trigger_of(after="100ms"), deadline_s=0.1))
    assert finished


# When a fault counts as healed, and what the end of a schedule heals: what has ended, and nothing else.


def test_a_paused_node_that_died_to_have_its_volume_mended_is_started_and_not_resumed(bench: Bench) -> None:
    schedule, _ = bench.run(
        step_of("pause", target="broker(1)"),
        step_of("read-only", target="broker(1)"),
        step_of("mend-disk", target="broker(1)"),
    )
    assert schedule.paused_nodes == set()
    bench.done.clear()
    schedule.restore()
    assert bench.done == [("start", 1)]


def test_the_death_of_a_node_that_was_restarted_on_a_volume_in_trouble_is_still_expected(bench: Bench) -> None:
    schedule, _ = bench.run(step_of("fill-disk", target="broker(1)"), step_of("restart", target="followers(t-0)"))
    restart = bench.entries()[1]
    assert [(one["step"], *one["nodes"]) for one in restart.proof["parts"]] == bench.done
    assert bench.done == [("stop", 1), ("start", 1), ("stop", 3), ("start", 3)]
    assert schedule.down == {1}


def test_a_node_whose_stop_was_not_clean_is_not_started_by_its_restart(bench: Bench) -> None:
    bench.fails.add("stop")
    schedule, _ = bench.run(step_of("restart", target="broker(1)"))
    assert (bench.done, schedule.down) == ([("stop", 1)], {1})
    assert bench.entries()[0].why == "it did not"


def test_a_fault_that_the_end_of_a_schedule_could_not_heal_is_recorded_as_unhealed_with_the_reason(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule, _ = bench.run(
        step_of("partition", groups=(("broker(1)",), ("broker(2)",))),
        step_of("pause", target="broker(1)"),
        step_of("fail-disk", target="broker(2)"),
        step_of("kill", target="broker(3)"),
    )
    monkeypatch.setattr(MendOnce, "mend", lambda _trouble: (unproven_effect("it refuses a write"), {}))
    bench.fails |= {"heal", "resume", "start"}
    schedule.restore()
    assert [entry.healed_ns for entry in bench.entries()] == [None] * 4
    assert [note for note in bench.display.notes if "NO PROOF" in note] == [
        "heal: NO PROOF that it took effect: it did not",
        "resume broker-1: NO PROOF that it took effect: it did not",
        "mend-disk broker-2: NO PROOF that it took effect: it refuses a write",
        "start broker-2: NO PROOF that it took effect: it did not",
        "start broker-3: NO PROOF that it took effect: it did not",
    ]


def test_a_node_that_ends_by_itself_on_a_broken_volume_has_its_end_in_the_step_that_broke_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule, _ = bench.run(step_of("fail-disk", target="broker(1)"), step_of("kill", target="broker(2)"))
    ended = NodeTimes(ended=Span(first_ns=5, last_ns=6))
    monkeypatch.setattr(bench.runtime, "process_times", lambda _node: ended)
    for node in (1, 1, 2):
        schedule.note_end(node)
    failed, killed = bench.entries()
    assert failed.of_node == {1: ended}
    assert killed.of_node == {}


def test_the_end_of_a_node_that_a_later_step_killed_is_not_said_of_its_broken_volume(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule, _ = bench.run(step_of("fail-disk", target="broker(1)"), step_of("kill", target="broker(1)"))
    monkeypatch.setattr(bench.runtime, "process_times", lambda _node: NodeTimes(ended=Span(first_ns=5, last_ns=6)))
    schedule.note_end(1)
    assert bench.entries()[0].of_node == {}


def test_a_pause_ends_with_its_process_whatever_ended_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def end_processes(effect: Effect) -> Effect:
        bench.runtime.pids.clear()
        return effect

    bench.runtime.pids = {1: 11}
    pause = step_of("pause", target="broker(1)")
    bench.run(pause, step_of("isolate", target="broker(1)"))
    assert bench.entries()[0].healed_ns is None
    monkeypatch.setitem(process.INJECT, "kill", lambda _runtime, _node: end_processes(proven_effect()))
    bench.run(pause, step_of("kill", target="broker(1)"))
    assert bench.entries()[0].healed_ns is not None
    bench.runtime.pids = {1: 12}
    monkeypatch.setattr(MendOnce, "mend", lambda _trouble: (end_processes(unproven_effect("it refuses a write")), {}))
    bench.run(pause, step_of("read-only", target="broker(1)"), step_of("mend-disk", target="broker(1)"))
    assert [entry.healed_ns is not None for entry in bench.entries()] == [True, False, False]


def test_a_heal_of_several_nodes_counts_on_those_where_it_has_a_proof(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {1: False, 3: True}

    def start(_runtime: object, node: int) -> Effect:
        return unproven_effect("it runs already") if runs[node] else proven_effect()

    monkeypatch.setitem(process.INJECT, "start", start)
    schedule, _ = bench.run(step_of("kill", target="followers(t-0)"))
    schedule.add(step_of("start", target="followers(t-0)"))
    assert schedule.entries[0].healed_ns is None
    runs[3] = False
    schedule.add(step_of("start", target="broker(3)"))
    assert schedule.entries[0].healed_ns is not None
