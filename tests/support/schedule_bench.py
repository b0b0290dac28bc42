"""A schedule of steps on stand-ins of a cluster, which notes what was injected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import evidence_builders as build
import pytest

from cluster.host.namespaces import Cut
from cluster.kafka_api.admin_requests import AdminAnswer, AdminRequest
from cluster.kafka_api.replica_log import ReplicaAnswers
from cluster.runtime.base import LogLoss, NodeInfo
from cluster.wire.messages import Arm, Command, WireEvent
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.files import RecordFolder
from ebbtide.record.node_times import NodeTimes
from ebbtide.record.steps import StepEntry, read_steps
from ebbtide.scenario.model import StepSpec
from ebbtide.waiting import WaitExpired
from faults import disk, network, process
from faults.base import Effect, proven_effect, unproven_effect
from harness.runner.display import RunState
from harness.runner.schedule import Schedule
from harness.runner.view import ClusterView


class Counters:
    """Nothing is ever acked."""

    def acked(self) -> int:
        return 0

    def high_watermark(self, topic: str, partition: int) -> int | None:
        return None


class Notes:
    """A display that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def __enter__(self) -> Notes:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)

    def state(self, state: RunState) -> None:
        pass


class StandIn:
    """What a schedule asks of a runtime: names, and which nodes run (`pids`)."""

    def __init__(self) -> None:
        self.nodes: Mapping[int, NodeInfo] = {
            id: NodeInfo(id=id, role="broker", name=f"broker-{id}", address="") for id in (1, 2, 3)
        }
        self.ready = True
        self.pids: dict[int, int] = {}
        self.wire: Proxies | None = None

    def process_times(self, node_id: int) -> NodeTimes:
        return NodeTimes()

    def pid(self, node_id: int) -> int | None:
        return self.pids.get(node_id)

    def wait_ready(self, node_ids: list[int], timeout_s: float, poll_cluster: object = None) -> None:
        if not self.ready:
            raise WaitExpired("the node to be ready", timeout_s, "nothing")


class Proxies:
    """Wire proxies that obey every request; `done` is what they released."""

    def __init__(self, done: list[object]) -> None:
        self._done = done
        self._told: list[tuple[int, WireEvent]] = []

    def send(self, node_id: int, command: Command) -> None:
        if isinstance(command, Arm):
            self._told.append((node_id, WireEvent(event="armed", at_ns=1, rule=command.rule.number)))
        else:
            self._done.append(("release", node_id))
            self._told.append((node_id, WireEvent(event="released", at_ns=1, rule=command.number)))

    def poll(self) -> list[tuple[int, WireEvent]]:
        told, self._told = self._told, []
        return told


class MendOnce:
    """A volume in trouble that lost 9 bytes of its one log."""

    def __init__(self, done: list[object]) -> None:
        self._done = done

    def mend(self) -> tuple[Effect, dict[str, LogLoss]]:
        self._done.append("mend")
        return proven_effect(), {"t-0": LogLoss(bytes_before=9, bytes_after=0, lost_bytes=9, leo_before=1, leo_after=0)}


class NoAnswers:
    """Replicas that do not answer."""

    def answers(self) -> ReplicaAnswers:
        return ReplicaAnswers(asking=True)

    def administer(self, request: AdminRequest, timeout_s: float) -> AdminAnswer:
        raise AssertionError("nobody was chosen")

    def close(self) -> None: ...


class FakeClients:
    """Clients by the names of their processes, those that run; what ends them, and what they say, is up to a test."""

    def __init__(self, running: Iterable[str] = (), ended_by: int = -9, *, works: bool = True) -> None:
        self.running = set(running)
        self.asked: list[str] = []
        self._ended_by = ended_by
        self._works = works

    def runs(self, name: str) -> bool:
        return name in self.running

    def kill_client(self, name: str) -> int:
        self.asked.append(f"kill {name}")
        self.running.discard(name)
        return self._ended_by

    def stop_client(self, name: str, timeout_s: float) -> int:
        self.asked.append(f"stop {name}")
        self.running.discard(name)
        return self._ended_by

    def start_client(self, name: str, timeout_s: float) -> None:
        self.asked.append(f"start {name}")
        self.running.add(name)

    def works(self, name: str) -> bool:
        return self._works


def no_answers(_at: TopicPartition, _replicas: Sequence[int]) -> NoAnswers:
    """Ask replicas that do not answer."""
    return NoAnswers()


class Bench:
    """A schedule on stand-ins; `done` is what was injected, in order."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.record = tmp_path
        self.runtime, self.display = StandIn(), Notes()
        self.done: list[object] = []
        self.runtime.wire = Proxies(self.done)
        self.fails: set[str] = set()
        self.clients = FakeClients()
        self.answer = "NOT_CONTROLLER"
        log = tmp_path / "log"
        build.write_log(log, build.metadata_batch(0, build.topic("t", "T"), build.partition("T", 0, (2, 1, 3), 2)))
        self.view = ClusterView({100: log}, {100: tmp_path / "mirror"}, (1, 2, 3))
        self.view.poll()
        for family in (process, disk):
            for kind in family.INJECT:
                monkeypatch.setitem(family.INJECT, kind, self._inject(kind))
        monkeypatch.setattr(disk, "Trouble", lambda _runtime, _node, _directory: MendOnce(self.done))
        for kind in disk.TROUBLES:
            monkeypatch.setitem(disk.TROUBLES, kind, lambda _trouble: proven_effect())
        monkeypatch.setattr(network, "partition", self._partition)
        monkeypatch.setattr(network, "limit", lambda _runtime, _pairs, _rate: self._effect("limit"))
        monkeypatch.setattr(network, "heal", lambda _runtime: self._effect("heal"))

    def run(self, *steps: StepSpec, poll_cluster: Callable[[], None] = lambda: None) -> tuple[Schedule, bool]:
        self.schedule = schedule = Schedule(
            steps,
            record=RecordFolder(self.record),
            runtime=self.runtime,  # type: ignore[arg-type]
            view=self.view,
            counters=Counters(),
            administer=self._administer,
            ask_replicas=no_answers,
            clients=self.clients,
            display=self.display,
            poll_cluster=poll_cluster,
        )
        return schedule, schedule.run()

    def entries(self) -> list[StepEntry]:
        return read_steps(RecordFolder(self.record)) or []

    def _inject(self, kind: str) -> Callable[[object, int], Effect]:
        return lambda _runtime, node: self._effect(kind, node)

    def _administer(self, request: AdminRequest, timeout_s: float) -> AdminAnswer:
        self.done.append(request)
        return AdminAnswer(broker="broker-1", error=self.answer)

    def _partition(self, _runtime: object, cuts: list[Cut]) -> Effect:
        self.done.append(("cuts", {(cut.source, cut.target) for cut in cuts}))
        return self._effect("partition")

    def _effect(self, *what: object) -> Effect:
        self.done.append(what)
        lost = {"lost_bytes": 5} if what[0] == "power-loss" else {}
        return unproven_effect("it did not", **lost) if what[0] in self.fails else proven_effect(**lost)
