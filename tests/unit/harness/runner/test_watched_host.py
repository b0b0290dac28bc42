"""What a run watches beside its schedule: nodes that something outside stopped, and the wall clock."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ebbtide import run_clock
from ebbtide.errors import Disturbed, HarnessError
from ebbtide.record.clock import ClockReading, kafka_clocks, read_clock
from ebbtide.record.files import RecordFolder
from ebbtide.record.steps import StepEntry
from harness.runner.node_watch import ClockLog, NodeWatch

SESSION_S = 3.0


class World:
    """One node, a clock, and the state of the node's process."""

    def __init__(self, folder: Path) -> None:
        self.now_s = 100.0
        self.state = "S"
        self.pid: int | None = 7
        self.notes: list[str] = []
        self.schedule: Any = SimpleNamespace(
            down=set(), paused_nodes=set(), note_down=self._note_down, note_end=lambda _node: None, entries=[]
        )
        node = SimpleNamespace(id=1, name="broker-1")
        runtime: Any = SimpleNamespace(nodes={1: node}, pid=lambda _: self.pid, log_file=lambda _: folder / "log")
        self.log = folder / "log"
        self.log.write_text("the end\n")
        self.watch = NodeWatch(
            runtime, self.schedule, SESSION_S, clock=lambda: self.now_s, state=lambda _pid: self.state
        )

    def _note_down(self, node: int) -> None:
        self.schedule.down.add(node)

    def look(self, after_s: float, state: str, *, judged: bool = True) -> None:
        self.now_s += after_s
        self.state = state
        self.watch.look(self.notes.append, judged=judged)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("state", ["T", "t"])
def test_a_node_that_stays_stopped_for_longer_than_a_session_is_named_with_the_time(world: World, state: str) -> None:
    for after_s, seen in ((0.0, "S"), (0.1, state), (2.9, state)):
        world.look(after_s, seen)
    with pytest.raises(Disturbed, match=r"process of broker-1 \(SIGSTOP\) for at least 3\.1 s, .* session of 3 s"):
        world.look(0.2, state)


def test_a_stop_that_ended_between_two_looks_counts_as_long_as_it_can_have_been(world: World) -> None:
    for after_s, seen in ((0.0, "S"), (1.0, "T")):
        world.look(after_s, seen)
    with pytest.raises(Disturbed, match=r"for up to 3\.5 s"):
        world.look(2.5, "S")
    with pytest.raises(Disturbed, match=r"for up to 3\.5 s"):
        world.look(0.1, "S")


def test_a_short_stop_is_none(world: World) -> None:
    for after_s, seen in ((0.0, "S"), (0.1, "T"), (1.0, "T"), (0.1, "R"), (1.0, "T"), (1.0, "T"), (0.1, "S")):
        world.look(after_s, seen)


def test_a_pause_by_a_step_is_none_and_time_counts_only_after_it(world: World) -> None:
    world.look(0.0, "S")
    world.schedule.paused_nodes.add(1)
    for _ in range(5):
        world.look(2.0, "T")
    world.schedule.paused_nodes.clear()
    world.look(0.1, "T")
    world.look(0.1, "S")


def test_a_node_that_died_by_itself_ends_a_judged_run_and_is_noted_on_a_plain_cluster(world: World) -> None:
    world.pid = None
    with pytest.raises(HarnessError, match="broker-1 died by itself"):
        world.look(0.0, "S")
    world.look(0.0, "S", judged=False)
    assert "broker-1 died by itself" in world.notes[0]
    world.look(0.0, "S", judged=False)
    assert len(world.notes) == 1


FULL = """ERROR Error while appending records to t-0 in dir /volumes/broker-1 (LogDirFailureChannel)
java.io.IOException: No space left on device
\tat java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method)
ERROR Shutdown broker because all log dirs in /volumes/broker-1 have failed (LogManager)
"""


def test_a_node_whose_volume_somebody_filled_is_said_as_that_and_the_run_is_inconclusive(world: World) -> None:
    world.log.write_text(FULL + "INFO shut down\n" * 100)
    world.pid = None
    with pytest.raises(Disturbed, match="the volume of broker-1 was full, and no step filled it: the node ended"):
        world.look(0.0, "S")
    world.look(0.0, "S", judged=False)
    assert world.notes[0].startswith("the volume of broker-1 was full, and no step filled it")


def test_a_node_whose_volume_a_step_filled_once_is_not_said_as_filled_by_somebody(world: World) -> None:
    world.log.write_text(FULL)
    world.pid = None
    step = StepEntry(index=0, step="fill-disk", nodes=[1], fired_ns=1)
    world.schedule.entries.append(step)
    with pytest.raises(HarnessError, match="broker-1 died by itself"):
        world.look(0.0, "S")


# What a run notes of the wall clock: nothing that it does not need, both sides of a step, and at once.


S = 10**9


class WallClock:
    """The wall clock of this process, which a test may set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = time.time_ns
        self.ahead_ns = 0
        monkeypatch.setattr("time.time_ns", lambda: self._real() + self.ahead_ns)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    return WallClock(monkeypatch)


def _ends(readings: tuple[ClockReading, ...]) -> list[int]:
    return [one.metadata_end for one in readings]


def test_looks_that_see_nothing_new_leave_one_reading_and_the_last(tmp_path: Path) -> None:
    log = ClockLog(RecordFolder(tmp_path))
    for _ in range(5):
        log.look(7)
    log.close()
    assert _ends(read_clock(RecordFolder(tmp_path))) == [7, 7]


def test_a_log_that_grew_has_the_last_look_before_and_the_first_after(tmp_path: Path) -> None:
    log = ClockLog(RecordFolder(tmp_path))
    for end in (7, 7, 7, 9):
        log.look(end)
    readings = read_clock(RecordFolder(tmp_path))
    assert _ends(readings) == [7, 7, 9]


@pytest.mark.parametrize("by_ns", [-3600 * S, -3 * S, 3 * S])
def test_a_step_of_the_wall_clock_is_in_the_record_at_once(tmp_path: Path, wall: WallClock, by_ns: int) -> None:
    log = ClockLog(RecordFolder(tmp_path))
    log.look(7)
    log.look(7)
    wall.ahead_ns = by_ns
    log.look(7)
    ((before, after),) = kafka_clocks(read_clock(RecordFolder(tmp_path)), None).steps()
    assert before.lead_ns == 0
    assert after.lead_ns == pytest.approx(by_ns, abs=1_000_000)
    assert 0 <= after.at_ns - before.at_ns < S


def test_the_clock_of_a_run_does_not_go_back_with_the_wall_clock(wall: WallClock) -> None:
    before = run_clock.now_ns()
    wall.ahead_ns = -3600 * S
    assert 0 <= run_clock.now_ns() - before < S


@pytest.mark.parametrize("by_ns", [-3600 * S, 3600 * S])
def test_a_time_that_java_noted_before_the_wall_clock_was_set_is_right_after_it(wall: WallClock, by_ns: int) -> None:
    run_clock.use_base(run_clock.base_ns())
    noted, at_ns = time.time_ns(), run_clock.now_ns()
    wall.ahead_ns = by_ns
    assert run_clock.time_of_wall(noted) == pytest.approx(at_ns, abs=10_000_000)
    assert run_clock.time_of_wall(time.time_ns()) == pytest.approx(run_clock.now_ns(), abs=10_000_000)
