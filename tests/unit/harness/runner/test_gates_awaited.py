"""Which differences a gate accepts and which it waits for, against a metadata log that grows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import evidence_builders as build
import msgspec
import pytest
from plain_steps import step_of, trigger_of
from test_cluster_view import Log
from test_gates import Counters, GatedSchedule
from test_gates import bench as bench

from ebbtide.record.steps import StepEntry
from ebbtide.scenario.words import Duration
from harness.runner.gates import _STALLED_S, Gate, GateWatch, RecordedPartition, sides_of
from harness.runner.view import ClusterView
from workloads.config import ProducerConfig

EVERYBODY = frozenset({1, 2, 3})
T_ALONE = RecordedPartition(partition="t-0", leader=1, isr=(1,))
U_ALONE = RecordedPartition(partition="u-0", leader=1, isr=(1,))


class Live:
    """A cluster of three brokers, all unfenced; t-0 and u-0 are led by 1 and have their whole ISR."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._log = Log(tmp_path / "log")
        self.now_s = 100.0
        self.counters = LastAckedCount()
        monkeypatch.setattr("harness.runner.gates.time.monotonic", lambda: self.now_s)
        self.view = ClusterView({100: self._log.folder}, {100: tmp_path / "mirror"}, (1, 2, 3))
        for name in ("t", "u"):
            self._append(build.topic(name, name.upper()), build.partition(name.upper(), 0, (1, 2, 3), 1))
        self._append(*(build.register(broker, broker, "I", fenced=False) for broker in EVERYBODY))

    def isr(self, topic: str, *brokers: int, leader: int = 1, elr: tuple[int, ...] = ()) -> None:
        self._append(build.change(topic.upper(), 0, isr=brokers, leader=leader, elr=elr))

    def fence(self, broker: int, *, fenced: bool = True) -> None:
        self._append(build.registration_change(broker, broker, fenced=1 if fenced else -1))

    def watch(self, gate: Gate, *before: StepEntry) -> Callable[[], bool]:
        """Asks a gate; it has been looked at once."""
        watch = GateWatch(gate, self.view, self.counters, before)
        watch.look()
        return lambda: watch.look().fired

    def _append(self, *messages: bytes) -> None:
        self._log.append(*messages)
        self.view.poll()


class LastAckedCount(Counters):
    """As many as were said last."""

    def __init__(self) -> None:
        super().__init__(0)

    def now(self, acked: int) -> None:
        self._acked = acked


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Live:
    return Live(tmp_path, monkeypatch)


def _fired_step(step: str, *nodes: int, index: int = 0, whom: str | None = None) -> StepEntry:
    return StepEntry(index=index, step=step, nodes=nodes, whom=whom, fired_ns=1)


def test_two_partitions_may_change_in_either_order_and_the_first_may_have_gone_on_meanwhile(live: Live) -> None:
    opened = live.watch(Gate(partitions=(T_ALONE, U_ALONE)))
    live.isr("t", 1)
    assert not opened()
    live.isr("t", 1, 2)
    assert not opened()
    live.isr("u", 1)
    assert opened()


def test_a_broker_may_be_fenced_before_or_after_the_isr_shrinks(live: Live) -> None:
    opened = live.watch(Gate(partitions=(T_ALONE,), broker_states={2: "fenced"}))
    live.fence(2)
    assert not opened()
    live.fence(2, fenced=False)
    live.isr("t", 1)
    assert opened()


def test_a_gate_accepts_either_of_two_untouched_brokers_leaving_the_isr(live: Live) -> None:
    was = RecordedPartition(partition="t-0", leader=1, isr=(1, 2))
    opened = live.watch(Gate(partitions=(was,), alike=EVERYBODY))
    by_id = live.watch(Gate(partitions=(was,)))
    live.isr("t", 1, 3)
    assert opened()
    assert not by_id()


def test_a_broker_stands_for_the_one_that_the_same_step_acted_on_in_the_record(live: Live) -> None:
    was = RecordedPartition(partition="t-0", leader=1, isr=(1, 3))
    gate = Gate(partitions=(was,), broker_states={2: "fenced"}, alike=EVERYBODY, acted={0: (frozenset({2}),)})
    opened = live.watch(gate, _fired_step("kill", 3))
    live.isr("t", 1, 3)
    live.fence(2)
    assert not opened()
    live.fence(3)
    assert not opened()
    live.isr("t", 1, 2)
    assert opened()


def test_the_sides_of_a_cut_tell_brokers_apart(live: Live) -> None:
    whom = "broker-1 | broker-2, broker-3, clients, controller-100"
    cut = _fired_step("isolate", 0, 1, 2, 3, 100, whom=whom)
    assert sides_of(cut) == (frozenset({1}), frozenset({0, 2, 3, 100}))
    assert sides_of(_fired_step("partition", 1, 2, whom="broker-1 > broker-2")) == (frozenset({1}), frozenset({2}))
    was = RecordedPartition(partition="t-0", leader=2, isr=(2,))
    opened = live.watch(Gate(partitions=(was,), alike=EVERYBODY, acted={0: sides_of(cut)}), cut)
    live.isr("t", 1)
    assert not opened()
    live.isr("t", 3, leader=3)
    assert opened()


def test_a_step_that_only_the_record_took_tells_no_brokers_apart(live: Live) -> None:
    was = RecordedPartition(partition="t-0", leader=1, isr=(1, 3))
    gate = Gate(partitions=(was,), alike=EVERYBODY, acted={0: (frozenset({2}),)})
    opened = live.watch(gate)
    live.isr("t", 1, 2)
    assert opened()


def test_on_another_release_an_isr_without_a_leader_is_not_compared(live: Live) -> None:
    was = RecordedPartition(partition="t-0", leader=-1, isr=(2,), elr=None)
    opened = live.watch(Gate(partitions=(was,)))
    live.isr("t", 2, leader=2)
    assert not opened()
    live.isr("t", leader=-1, elr=(1, 2))
    assert opened()


def test_records_count_from_the_state_and_not_from_the_start(live: Live) -> None:
    live.counters.now(995)
    opened = live.watch(Gate(partitions=(T_ALONE,), acked=1010, acked_since=10))
    live.isr("t", 1)
    assert not opened()
    live.counters.now(1004)
    assert not opened()
    live.counters.now(1005)
    assert opened()


def test_a_step_that_fired_as_soon_as_the_state_came_waits_for_no_records(live: Live) -> None:
    opened = live.watch(Gate(partitions=(T_ALONE,), acked=1000, acked_since=0))
    live.isr("t", 1)
    assert opened()


def test_a_state_that_begins_to_pass_is_fired_on_however_few_were_acked(live: Live) -> None:
    was = RecordedPartition(partition="t-0", leader=1, isr=(1, 2))
    opened = live.watch(Gate(partitions=(was,), acked=1000, acked_since=5, instead_of_trigger=True, lasted_s=3.0))
    live.isr("t", 1, 2)
    assert not opened()
    live.isr("t", 1)
    assert opened()


def test_a_producer_whose_requests_hang_is_waited_for(live: Live) -> None:
    hang_s = _default("request_timeout_ms") / 1000 + _default("retry_backoff_ms") / 1000
    opened = live.watch(Gate(partitions=(T_ALONE,), acked=900, acked_since=900))
    live.now_s += 3
    live.isr("t", 1)
    assert not opened()
    live.now_s += hang_s - 3
    assert not opened()
    live.counters.now(450)
    assert not opened()
    # None of the other half ever comes.
    live.now_s += _STALLED_S
    assert opened()


def _default(name: str) -> int:
    return int(next(field.default for field in msgspec.structs.fields(ProducerConfig) if field.name == name))


def test_a_time_goes_on_from_the_state_that_came_about_in_it(live: Live) -> None:
    opened = live.watch(Gate(partitions=(T_ALONE,), instead_of_trigger=True, lasted_s=5.0))
    live.now_s += 7
    live.isr("t", 1)
    assert not opened()
    live.now_s += 4.9
    assert not opened()
    live.now_s += 0.2
    assert opened()


def test_what_came_about_while_the_trigger_was_awaited_has_come_about(
    bench: GatedSchedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ISR shrinks and is whole again before the trigger fires."""
    segment = bench.record / "log" / build.segment_name(0)
    to_come = [
        build.metadata_batch(2, build.change("T", 0, isr=(2,))),
        build.metadata_batch(3, build.change("T", 0, isr=(2, 1, 3))),
    ]

    def grow() -> None:
        if to_come:
            segment.write_bytes(segment.read_bytes() + to_come.pop(0))
        bench.view.poll()

    monkeypatch.setattr(bench, "poll_cluster", grow)
    gate = Gate(partitions=(RecordedPartition(partition="t-0", leader=2, isr=(2,)),), patience_s=0.05)
    step = step_of("kill", target="broker(1)", trigger=trigger_of(after=Duration("100ms")))
    (entry,) = bench.run_gated({0: gate}, step)
    assert not to_come
    assert entry.state["reached"] is True
