"""What a run notes of the wall clock: nothing that it does not need, both sides of a step, and at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ebbtide import run_clock
from ebbtide.record.clock import ClockReading, kafka_clocks, read_clock
from ebbtide.record.folder import RecordFolder
from harness.runner.clock_log import ClockLog

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
