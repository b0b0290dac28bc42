"""Clocks of nodes that are set: only what the node's own clock shows right before and right after is a proof."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from plain_steps import step_of
from schedule_bench import Bench

from ebbtide.errors import StepImpossible
from ebbtide.record.clock import CLOCK_AHEAD, kafka_clocks, read_clock
from ebbtide.record.files import RecordFolder
from ebbtide.scenario.validate_order import FaultNow
from faults import clock

HOUR_MS = 3_600_000


class FakeClocks:
    """Clocks that follow what they are set to, but for `deaf` nodes; `silent` nodes do not read theirs."""

    def __init__(self, *, deaf: Iterable[int] = (), silent: Iterable[int] = (), short_ms: int = 0) -> None:
        self.is_enabled = True
        self.offsets: dict[int, int] = {}
        self._deaf, self._silent, self._short_ms = set(deaf), set(silent), short_ms

    def set(self, node_id: int, offset_ms: int) -> None:
        if node_id not in self._deaf:
            self.offsets[node_id] = offset_ms - self._short_ms

    def returned_ms(self, node_id: int) -> int:
        if node_id in self._silent:
            return 7
        return time.time_ns() // 1_000_000 + self.offsets.get(node_id, 0)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(clock, "NOTE_TIMEOUT_S", 0.1)
    made = Bench(tmp_path, monkeypatch)
    made.runtime.pids = {1: 11, 2: 12, 3: 13}
    return made


def with_clocks(bench: Bench, clocks: FakeClocks) -> FakeClocks:
    bench.runtime.clocks = clocks  # type: ignore[attr-defined]
    return clocks


def test_a_clock_is_off_by_what_the_node_itself_says_before_and_after(bench: Bench) -> None:
    with_clocks(bench, FakeClocks())
    bench.run(step_of("set-clock", target="broker(1)", offset="-3s"))
    (step,) = bench.entries()
    assert step.effect_ns is not None
    assert step.proof["offset_ms"] == -3000
    assert step.proof["before_ms"] == pytest.approx(0, abs=clock.TOLERANCE_MS)
    assert step.proof["after_ms"] == pytest.approx(-3000, abs=clock.TOLERANCE_MS)
    assert step.proof[CLOCK_AHEAD] == {"1": -3_000_000_000}


def test_the_times_of_a_node_are_corrected_by_the_proof(bench: Bench) -> None:
    with_clocks(bench, FakeClocks())
    bench.run(step_of("set-clock", offset="+1h"))
    (step,) = bench.entries()
    now_ns = (step.effect_ns or 0) + 10_000_000_000
    said_ns = now_ns + HOUR_MS * 1_000_000
    assert kafka_clocks(read_clock(RecordFolder(bench.record)), [step]).time_of(said_ns, node=2).at_ns == now_ns


@pytest.mark.parametrize(
    ("clocks", "why"),
    [
        (FakeClocks(deaf=[1]), "the clock of broker-1 did not become +3,600,000 ms off the host's"),
        (FakeClocks(short_ms=500), "the clock of broker-1 did not become +3,600,000 ms off the host's"),
        (FakeClocks(silent=[1]), "broker-1 did not read its clock within 0.1 s"),
    ],
)
def test_a_clock_that_did_not_move_so_far_is_no_proof(bench: Bench, clocks: FakeClocks, why: str) -> None:
    with_clocks(bench, clocks)
    bench.run(step_of("set-clock", target="broker(1)", offset="+1h"))
    (step,) = bench.entries()
    assert (step.effect_ns, step.why) == (None, why)


def test_a_node_that_does_not_read_its_clock_is_left_as_it_was(bench: Bench) -> None:
    clocks = with_clocks(bench, FakeClocks(silent=[2]))
    bench.run(step_of("set-clock", target="brokers", offset="+1h"))
    (step,) = bench.entries()
    assert step.effect_ns is None
    assert set(clocks.offsets) == {1, 3}
    assert set(step.proof[CLOCK_AHEAD]) == {"1", "3"}


def test_all_clocks_are_right_after_a_reset_without_a_target(bench: Bench) -> None:
    clocks = with_clocks(bench, FakeClocks())
    schedule, _ = bench.run(step_of("set-clock", target="broker(2)", offset="+1h"))
    assert schedule.in_force == [FaultNow("set-clock", 2)]
    schedule.add(step_of("reset-clock"))
    off, right = bench.entries()
    assert (off.healed_ns is not None, right.effect_ns is not None, right.nodes) == (True, True, (2,))
    assert clocks.offsets == {2: 0}
    assert schedule.in_force == []


def test_clocks_that_are_left_off_are_set_right_at_the_end(bench: Bench) -> None:
    clocks = with_clocks(bench, FakeClocks())
    schedule, _ = bench.run(step_of("set-clock", offset="-1h"))
    schedule.restore()
    (step,) = bench.entries()
    assert step.healed_ns is not None
    assert clocks.offsets == {1: 0, 2: 0, 3: 0}


def test_nodes_without_the_agent_are_one_clear_error(bench: Bench) -> None:
    with_clocks(bench, FakeClocks()).is_enabled = False
    with pytest.raises(StepImpossible, match="without the agent"):
        bench.run(step_of("set-clock", offset="-1h"))
