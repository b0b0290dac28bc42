"""Gates: a step of a replay waits for the recorded state, gently."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import evidence_builders as build
import msgspec
import pytest
from plain_steps import step_of, trigger_of
from schedule_bench import Bench, FakeClients, no_answers

from ebbtide.record.files import RecordFolder
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.words import Duration
from harness.runner.gates import Gate, GateWatch, RecordedPartition
from harness.runner.schedule import Schedule
from harness.runner.triggers import Observation
from harness.runner.view import ClusterView

AS_NOW = RecordedPartition(partition="t-0", leader=2, isr=(3, 2, 1))
NEVER = RecordedPartition(partition="t-0", leader=3, isr=(3,))


class Counters:
    """So many acked, and no more."""

    def __init__(self, acked: int) -> None:
        self._acked = acked

    def acked(self) -> int:
        return self._acked

    def high_watermark(self, topic: str, partition: int) -> int | None:
        return None


@pytest.fixture
def view(tmp_path: Path) -> ClusterView:
    log = tmp_path / "log"
    build.write_log(log, build.metadata_batch(0, build.topic("t", "T"), build.partition("T", 0, (2, 1, 3), 2)))
    view = ClusterView({100: log}, {100: tmp_path / "mirror"}, (1, 2, 3))
    view.poll()
    return view


def test_a_gate_opens_when_the_partition_is_as_it_was_in_whatever_order_its_isr_stands(view: ClusterView) -> None:
    assert GateWatch(Gate(partitions=(AS_NOW,)), view, Counters(0)).look().fired


@pytest.mark.parametrize(
    "change", [{"leader": 1}, {"isr": (1, 2)}, {"elr": (3,)}, {"recovering": True}, {"partition": "t-1"}]
)
def test_a_gate_stays_shut_while_anything_of_the_partition_is_otherwise(
    view: ClusterView, change: dict[str, object]
) -> None:
    other = msgspec.structs.replace(AS_NOW, **change)
    assert not GateWatch(Gate(partitions=(other,)), view, Counters(0)).look().fired


def test_a_gate_waits_for_records_only_as_long_as_more_of_them_come(
    view: ClusterView, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = GateWatch(Gate(acked=10), view, Counters(4))
    assert watch.look() == Observation(fired=False, what="4 acked, not 10")
    monkeypatch.setattr("harness.runner.gates._STALLED_S", 0.0)
    assert watch.look().fired
    assert GateWatch(Gate(acked=4), view, Counters(4)).look().fired


class GatedSchedule(Bench):
    """A schedule whose steps have gates; `poll_cluster` is what each look of a wait begins with."""

    def poll_cluster(self) -> None:
        """Nothing is new."""

    def run_gated(self, gates: Mapping[int, Gate], *steps: StepSpec) -> list[StepEntry]:
        Schedule(
            steps,
            record=RecordFolder(self.record),
            runtime=self.runtime,  # type: ignore[arg-type]
            view=self.view,
            counters=Counters(0),
            administer=self._administer,
            ask_replicas=no_answers,
            clients=FakeClients(),
            display=self.display,
            poll_cluster=lambda: self.poll_cluster(),
            gates=gates,
        ).run()
        return self.entries()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatedSchedule:
    return GatedSchedule(tmp_path, monkeypatch)


def test_a_state_that_does_not_come_about_is_a_departure_and_the_step_fires_all_the_same(bench: GatedSchedule) -> None:
    kill = step_of("kill", target="broker(1)")
    stop = step_of("stop", target="broker(3)")
    hopeless = Gate(partitions=(NEVER,), patience_s=0.05)
    first, second = bench.run_gated({0: hopeless, 1: hopeless}, kill, stop)
    assert first.state["reached"] is False
    assert first.state["awaited"] == ["t-0 leader 3 ISR [3]", "0 acked"]
    assert first.effect_ns is not None
    # The next step waits for what came about before it, whatever became of this one.
    assert (second.state["reached"], second.effect_ns is not None) == (False, True)
    departed = next(note for note in bench.display.notes if note.startswith("departed before step 0 (kill)"))
    assert departed.endswith("t-0 leader 2 epoch 0 ISR [1, 2, 3], not t-0 leader 3 ISR [3]")


def test_a_state_stands_in_for_a_time(bench: GatedSchedule) -> None:
    step = step_of("kill", target="broker(1)", trigger=trigger_of(after=Duration("10m")), deadline_s=0.1)
    (entry,) = bench.run_gated({0: Gate(partitions=(AS_NOW,), instead_of_trigger=True)}, step)
    assert entry.fired_ns is not None
    assert entry.state["reached"] is True


def test_a_gate_does_not_replace_the_trigger_otherwise(bench: GatedSchedule) -> None:
    step = step_of("kill", target="broker(1)", trigger=trigger_of(acked=5), deadline_s=0.05)
    (entry,) = bench.run_gated({0: Gate(partitions=(AS_NOW,))}, step)
    assert entry.fired_ns is None
