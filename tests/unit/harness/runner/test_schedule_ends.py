"""What ends a schedule early, and that its record and its error say at which step."""

from __future__ import annotations

import errno
from pathlib import Path

import evidence_builders as build
import msgspec
import pytest
from plain_steps import step_of, trigger_of
from schedule_bench import Bench

from ebbtide.errors import HarnessError, StepImpossible
from ebbtide.scenario.triggers import Trigger
from ebbtide.waiting import pause
from faults import process
from faults.base import Effect
from harness.runner import schedule
from harness.runner.triggers import text_of
from harness.runner.view import ClusterView


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


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
