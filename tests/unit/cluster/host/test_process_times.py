"""When a process started and ended, as its owner sees it; a real child shows that the looks say the truth."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cluster.host import children
from cluster.host.children import ProcessTimes, start_child
from cluster.host.ledger import Ledger
from ebbtide import run_clock
from ebbtide.record.node_times import NodeTimes, Span
from ebbtide.waiting import pause, wait_until


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0

    def now_ns(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(run_clock, "now_ns", clock.now_ns)
    assert children.run_clock is run_clock
    return clock


def looks(times: ProcessTimes, clock: Clock, *at: tuple[int, bool]) -> NodeTimes:
    for clock.now, runs in at:
        assert times.look(lambda runs=runs: runs) is runs
    return times.times


def test_a_process_ended_after_the_last_look_at_which_it_ran(clock: Clock) -> None:
    times = looks(ProcessTimes(1), clock, (5, True), (7, True), (9, False), (20, False))
    assert times.ended == Span(first_ns=7, last_ns=9)


def test_a_process_that_nobody_saw_running_may_have_ended_at_once(clock: Clock) -> None:
    assert looks(ProcessTimes(1), clock, (9, False)).ended == Span(first_ns=1, last_ns=9)


def test_after_sigkill_a_process_that_is_still_there_may_have_ended(clock: Clock) -> None:
    times = ProcessTimes(1)
    looks(times, clock, (5, True))
    times.note_kill()
    assert looks(times, clock, (6, True), (7, True), (9, False)).ended == Span(first_ns=5, last_ns=9)


def test_a_process_has_started_once_its_gate_was_opened(clock: Clock) -> None:
    times = ProcessTimes(1)
    looks(times, clock, (5, True))
    assert times.times == NodeTimes()
    clock.now = 6
    times.note_start()
    assert times.times == NodeTimes(started=Span(first_ns=5, last_ns=6))


def test_a_span_cannot_end_before_it_begins() -> None:
    with pytest.raises(ValueError, match="cannot end at 1, before it begins at 2"):
        Span(first_ns=2, last_ns=1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_real_child_ended_between_the_signal_and_the_end_of_the_wait(
    ledger: Ledger, tmp_path: Path, number: signal.Signals
) -> None:
    began_ns = run_clock.now_ns()
    child = start_child(ledger, ["sleep", "300"], name="s", output=tmp_path / "log")
    let_go_ns = run_clock.now_ns()
    pause(0.05)
    signalled_ns = run_clock.now_ns()
    child.send(number)
    child.wait(60)
    reaped_ns = run_clock.now_ns()
    times = child.times
    assert times.started is not None
    assert times.ended is not None
    assert began_ns <= times.started.first_ns <= times.started.last_ns <= let_go_ns
    assert signalled_ns <= times.ended.first_ns <= times.ended.last_ns <= reaped_ns


def test_a_real_child_that_ends_by_itself_is_seen_at_the_next_look(ledger: Ledger, tmp_path: Path) -> None:
    child = start_child(ledger, ["true"], name="t", output=tmp_path / "log")
    wait_until(lambda: not child.is_running(), awaited="the end", timeout_s=60)
    ended = child.times.ended
    child.is_running()
    assert ended is not None
    assert child.times.ended == ended
