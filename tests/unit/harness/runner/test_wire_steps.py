"""Wire steps in scenario files, and in the schedule: armed at once, proven when something comes by."""

from __future__ import annotations

from pathlib import Path

import evidence_builders as build
import pytest
from plain_steps import step_of, trigger_of
from schedule_bench import FakeClients, no_answers

from cluster.runtime.base import NodeInfo
from cluster.wire.messages import Arm, Command, Release, WireEvent
from ebbtide.errors import Problems
from ebbtide.record.files import RecordFolder
from ebbtide.record.steps import read_steps
from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import parse
from ebbtide.scenario.steps.step import StepSpec
from harness.runner.display import RunState
from harness.runner.schedule import Schedule
from harness.runner.view import ClusterView

ALTER_PARTITION = 56


def _problems(old: str, new: str) -> dict[str, str]:
    text = catalogue.text_of("stale-isr-join")
    assert old in text
    with pytest.raises(Problems) as caught:
        parse(text.replace(old, new, 1), file="x.toml")
    return {str(one.where): one.render() for one in caught.value.problems}


def test_an_api_that_kafka_does_not_have_is_refused_with_the_nearest() -> None:
    problems = _problems('\napi = "AlterPartition"', '\napi = "AlterPartitions"')
    assert "did you mean 'AlterPartition'" in problems["steps[1].api"]
    # What then waits for AlterPartition waits for ever.
    assert "can never fire" in problems["steps[3].trigger.held.api"]


def test_a_wait_for_requests_that_nothing_holds_is_refused() -> None:
    problems = _problems('step(hold)", api = "AlterPartition"', 'step(hold)", api = "Fetch"')
    assert "can never fire" in problems["steps[3].trigger.held.api"]


@pytest.mark.parametrize(
    ("step", "where"),
    [
        ('step = "delay-request"\n', "steps[1].delay"),
        ('step = "delay-request"\ndelay = "soon"\n', "steps[1].delay"),
        ('step = "hold-request"\ndelay = "1s"\n', "steps[1].delay"),
        ('step = "hold-request"\ntimes = 0\n', "steps[1].times"),
        ('step = "hold-request"\ndirection = "both"\n', "steps[1].direction"),
    ],
)
def test_a_wire_step_has_the_keys_of_its_kind(step: str, where: str) -> None:
    assert where in _problems('step = "hold-request"\n', step)


def test_a_release_with_nothing_armed_is_refused() -> None:
    kill = '\n[[steps]]\nname = "leader-dies"'
    again = '\n[[steps]]\nstep = "release"\n'
    assert "nothing to release" in _problems(kill, again + kill)["steps[8].step"]


class FakeWire:
    """Proxies that answer; `hold` lets a request come by."""

    def __init__(self) -> None:
        self.todo: list[tuple[int, WireEvent]] = []
        self.sent: list[Command] = []

    def send(self, node_id: int, command: Command) -> None:
        self.sent.append(command)
        armed = isinstance(command, Arm)
        number = command.rule.number if isinstance(command, Arm) else command.number
        self.todo.append((node_id, WireEvent(event="armed" if armed else "released", at_ns=1, rule=number, passed={})))

    def hold(self) -> None:
        self.todo.append((2, WireEvent(event="held", at_ns=5, rule=1, api=ALTER_PARTITION, peer="", size_bytes=9)))

    def poll(self) -> list[tuple[int, WireEvent]]:
        events, self.todo = self.todo, []
        return events


class Bench:
    """A schedule over one partition that broker 2 leads; at every look of a wait a request comes by, if it may."""

    def __init__(self, record: Path) -> None:
        self.record = record
        self.notes: list[str] = []
        self.nodes = {id: NodeInfo(id=id, role="broker", name=f"broker-{id}", address="") for id in (1, 2, 3)}
        self.wire = FakeWire()
        self.comes = True
        log = record / "log"
        build.write_log(log, build.metadata_batch(0, build.topic("t", "T"), build.partition("T", 0, (2, 1, 3), 2)))
        self.view = ClusterView({100: log}, {100: record / "mirror"}, (1, 2, 3))
        self.view.poll()

    def note(self, text: str) -> None:
        self.notes.append(text)

    def state(self, state: RunState) -> None:
        pass

    def acked(self) -> int:
        return 0

    def high_watermark(self, topic: str, partition: int) -> int | None:
        return None

    def schedule(self, *steps: StepSpec) -> Schedule:
        schedule: Schedule

        def poll_cluster() -> None:
            if self.comes:
                self.wire.hold()
            schedule.look_at_wire()

        schedule = Schedule(
            steps,
            record=RecordFolder(self.record),
            runtime=self,  # type: ignore[arg-type]
            view=self.view,
            counters=self,
            administer=None,  # type: ignore[arg-type]
            ask_replicas=no_answers,
            clients=FakeClients(),
            display=self,  # type: ignore[arg-type]
            poll_cluster=poll_cluster,
        )
        return schedule


HOLD = step_of("hold-request", name="hold", target="leader(t-0)", api="AlterPartition")
_ARRIVED = trigger_of(held={"node": "step(hold)", "api": "AlterPartition"})
HELD = step_of("wait", trigger=_ARRIVED, deadline_s=20.0)
NEVER_HELD = step_of("wait", trigger=_ARRIVED, deadline_s=0.2)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_hold_takes_effect_when_a_request_is_held(bench: Bench) -> None:
    assert bench.schedule(HOLD, HELD).run()
    hold, wait = read_steps(RecordFolder(bench.record)) or []
    assert (hold.effect_ns, hold.proof["held"], hold.healed_ns) == (5, 1, None)
    assert wait.fired_ns is not None
    assert hold.fired_ns is not None
    assert "hold-request AlterPartition broker-2: armed" in bench.notes


def test_a_hold_that_holds_nothing_is_never_proven(bench: Bench) -> None:
    bench.comes = False
    schedule = bench.schedule(HOLD, NEVER_HELD)
    assert not schedule.run()
    (hold, _) = read_steps(RecordFolder(bench.record)) or []
    assert (hold.effect_ns, hold.why) == (None, None)
    schedule.restore()
    hold, wait = read_steps(RecordFolder(bench.record)) or []
    assert hold.effect_ns is None
    assert hold.why == "no AlterPartition request of broker-2 came by"
    assert "last seen: 0 AlterPartition held" in (wait.why or "")


def test_what_a_schedule_leaves_held_is_released_at_its_end(bench: Bench) -> None:
    schedule = bench.schedule(HOLD, HELD)
    schedule.run()
    schedule.restore()
    assert bench.wire.sent[1:] == [Release(1)]
    (hold, _) = read_steps(RecordFolder(bench.record)) or []
    assert hold.healed_ns is not None
    assert hold.effect_ns == 5


def test_a_release_ends_the_hold(bench: Bench) -> None:
    schedule = bench.schedule(HOLD, HELD, step_of("release", target="step(hold)"))
    bench.wire.todo += [(2, WireEvent(event="forwarded", at_ns=6, rule=1, api=ALTER_PARTITION, size_bytes=9))]
    bench.wire.todo += [(2, WireEvent(event="answered", at_ns=7, rule=1, api=ALTER_PARTITION))]
    assert schedule.run()
    hold, _, release = read_steps(RecordFolder(bench.record)) or []
    assert release.proof["forwarded_bytes"] == 9
    assert release.nodes == (2,)
    assert hold.healed_ns is not None


def test_a_hold_ends_with_its_release_also_where_the_release_has_no_proof(bench: Bench) -> None:
    bench.comes = False
    assert bench.schedule(HOLD, step_of("release")).run()
    hold, release = read_steps(RecordFolder(bench.record)) or []
    assert (release.effect_ns, release.why) == (None, "nothing was held")
    assert hold.healed_ns is not None


def test_a_release_ends_the_rules_that_it_is_about_and_no_other_at_the_same_nodes(bench: Bench) -> None:
    both = step_of("drop-request", target="followers(t-0)", api="Fetch")
    one = step_of("drop-request", target="broker(3)", api="Produce")
    schedule = bench.schedule(both, one, step_of("release", target="broker(1)"))
    assert schedule.run()
    assert [entry.healed_ns is not None for entry in schedule.entries] == [True, False, False]
    schedule.restore()
    assert [entry.healed_ns is not None for entry in schedule.entries] == [True, True, False]
