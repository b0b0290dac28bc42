"""Every kind of step planted as ineffective: what it asks for is accepted and does nothing, and the run proves nothing.

The steps, the faults and their proofs are the real ones; only the host below them does nothing.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import evidence_builders as build
import pytest
from plain_steps import step_of
from schedule_bench import Counters, FakeClients, Notes, no_answers

from analysis.judge.outcome.reasons import unproven_reasons
from cluster.host.namespaces import Cut, LimitCounts, Transfer
from cluster.host.processes import state_of
from cluster.kafka_api.admin_requests import AdminAnswer, AdminRequest
from cluster.runtime.base import DiskReplacement, LogLoss, NodeInfo, NodeReleases, PowerLoss
from cluster.wire.messages import Arm, Command, WireEvent
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import Manifest
from ebbtide.record.node_times import NodeTimes
from ebbtide.record.steps import read_steps
from ebbtide.scenario.steps.clients import ClientName
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import KINDS, WIRE_KINDS, StepKind
from ebbtide.scenario.words import ClockOffset, Duration, Rate
from ebbtide.waiting import wait_until
from faults import admin, clock, disk, process, wire
from harness.runner.schedule import Schedule
from harness.runner.view import ClusterView

LEFT = LogLoss(bytes_before=9, bytes_after=9, lost_bytes=0, leo_before=2, leo_after=2)


class Inert:
    """A host that says yes and does nothing; node 2 is down, node 3's volume stays full, nothing reaches node 3."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.nodes = {id: NodeInfo(id=id, role="broker", name=f"broker-{id}", address="") for id in (1, 2, 3)}
        self.network = self.wire = self.clocks = self
        self.is_enabled = True
        self.image = str(folder / "broker.img")
        self.folder = str(folder)
        self._pid = pid
        self._asked = 0
        self._told: list[tuple[int, WireEvent]] = []
        self.releases = NodeReleases(self.nodes, "3.9.1")
        build.write_log(folder / "t-0", build.plain_batch(0, b"one"))
        (folder / "meta.properties").write_text("cluster.id=C\ndirectory.id=D\n")

    def process_times(self, node_id: int) -> NodeTimes:
        return NodeTimes()

    def pid(self, node_id: int) -> int | None:
        return None if node_id == 2 else self._pid

    def exit_status(self, node_id: int) -> int | None:
        return None

    def require_release(self, kafka: str) -> None: ...

    def start(self, node_ids: list[int]) -> None: ...

    def stop(self, node_id: int, timeout_s: float) -> None: ...

    def kill(self, node_id: int) -> None: ...

    def pause(self, node_id: int) -> None: ...

    def resume(self, node_id: int) -> None: ...

    def wait_ready(self, node_ids: list[int], timeout_s: float, poll_cluster: object = None) -> None: ...

    def lose_power(self, node_id: int) -> PowerLoss:
        return PowerLoss(
            method="fs-shutdown",
            volume_down=False,
            unsynced_there=True,
            unsynced_gone=False,
            lost_bytes=0,
            logs={"t-0": LEFT},
        )

    def replace_disk(self, node_id: int, directory: int | None = None) -> DiskReplacement:
        return DiskReplacement(lost_bytes=0, logs={}, left=("t-0",), cluster_id_before="C", cluster_id="C")

    def data_dir(self, node_id: int) -> Path:
        return Path(self.folder)

    def data_dirs(self, node_id: int) -> tuple[Path, ...]:
        return (self.data_dir(node_id),)

    def volume(self, node_id: int, directory: int) -> Inert:
        self._asked = node_id
        return self

    def slow_down(self, node_id: int, delay_s: float, period_s: float, directory: int) -> Inert:
        return self

    def wait_frozen(self, within_s: float) -> bool:
        return False

    def end_status(self) -> int | None:
        return None

    def fill(self) -> int:
        return 0

    def free(self) -> None: ...

    def set_read_only(self) -> None: ...

    def shut_down(self) -> bool:
        return True

    def write_error(self) -> int | None:
        return errno.ENOSPC if self._asked == 3 else None

    def cut(self, cuts: Iterable[Cut]) -> None: ...

    def heal(self) -> None: ...

    def passing_pairs(self, pairs: Iterable[Cut], timeout_s: float = 0.3) -> frozenset[Cut]:
        return frozenset(pair for pair in pairs if 3 not in (pair.source, pair.target))

    def dropped_packets(self) -> Mapping[Cut, int]:
        return {}

    def limit(self, pairs: Iterable[Cut], rate_bytes_s: int) -> None: ...

    def limit_counts(self) -> Mapping[Cut, LimitCounts]:
        return {}

    def transfer(self, pairs: Iterable[Cut], size_bytes: int, timeout_s: float) -> Mapping[Cut, Transfer]:
        return dict.fromkeys(pairs, Transfer(arrived_bytes=size_bytes, took_s=0.001))

    def set(self, node_id: int, offset_ms: int) -> None: ...

    def returned_ms(self, node_id: int) -> int:
        return time.time_ns() // 1_000_000

    def send(self, node_id: int, command: Command) -> None:
        what = ("armed", command.rule.number) if isinstance(command, Arm) else ("released", command.number)
        self._told.append((node_id, WireEvent(event=what[0], at_ns=1, rule=what[1])))  # type: ignore[arg-type]

    def poll(self) -> list[tuple[int, WireEvent]]:
        told, self._told = self._told, []
        return told


def accept_request(request: AdminRequest, timeout_s: float) -> AdminAnswer:
    return AdminAnswer(broker="broker-1", error="NONE")


ONE = ("broker(1)",)
SET_CLOCK = step_of("set-clock", target="broker(1)", offset=ClockOffset("+1h"))
HOLD = step_of("hold-request", target="broker(1)", api="Fetch")
INEFFECTIVE: dict[StepKind, tuple[StepSpec, ...]] = {
    "start": (step_of("start", target="broker(2)"),),
    "upgrade": (step_of("upgrade", to="4.3.1", target="broker(1)", deadline_s=0.1),),
    "rolling": (step_of("rolling", mode="power-loss", target="broker(1)", deadline_s=0.1),),
    "slow-disk": (step_of("slow-disk", target="broker(1)", delay=Duration("200ms"), period=Duration("250ms")),),
    "mend-disk": (step_of("fill-disk", target="broker(3)"), step_of("mend-disk", target="broker(3)")),
    "set-clock": (SET_CLOCK,),
    "reset-clock": (SET_CLOCK, step_of("reset-clock", target="broker(1)")),
    "partition": (step_of("partition", groups=(ONE, ("clients",))),),
    "flap": (step_of("flap", groups=(ONE, ("clients",)), times=1, period=Duration("20ms")),),
    "limit-bandwidth": (step_of("limit-bandwidth", from_=ONE, to=("clients",), rate=Rate("256kbit")),),
    "heal": (step_of("heal"),),
    "reassign": (step_of("reassign", partition="t-0", replicas=("broker(3)",), deadline_s=0.1),),
    "elect": (step_of("elect", partition="t-0", type="unclean", deadline_s=0.1),),
    "recover": (step_of("recover", partition="t-0", strategy="proactive", deadline_s=0.1),),
    "set-config": (step_of("set-config", resource="topic:t", config="x", value="1", deadline_s=0.1),),
    "set-feature": (step_of("set-feature", feature="group.version", level=1, deadline_s=0.1),),
    "delete-topic": (step_of("delete-topic", topic="t", deadline_s=0.1),),
    "create-topic": (step_of("create-topic", topic="t", deadline_s=0.1),),
    "add-partitions": (step_of("add-partitions", topic="t", count=3, deadline_s=0.1),),
    "delete-records": (step_of("delete-records", partition="t-0", deadline_s=0.1),),
    "move-replica": (step_of("move-replica", partition="t-0", target="broker(1)", directory=1, deadline_s=0.1),),
    "unregister": (step_of("unregister", target="broker(1)", deadline_s=0.1),),
    "add-voter": (step_of("add-voter", target="broker(1)", deadline_s=0.1),),
    "remove-voter": (step_of("remove-voter", target="broker(1)", deadline_s=0.1),),
    "hold-request": (HOLD,),
    "delay-request": (step_of("delay-request", target="broker(1)", api="Fetch", delay=Duration("1ms")),),
    "drop-request": (step_of("drop-request", target="broker(1)", api="Fetch"),),
    "duplicate-request": (step_of("duplicate-request", target="broker(1)", api="Fetch"),),
    "release": (HOLD, step_of("release")),
    "kill-client": (step_of("kill-client", client=ClientName("consumer(1)")),),
    "stop-client": (step_of("stop-client", client=ClientName("consumer(1)")),),
    "start-client": (step_of("start-client", client=ClientName("producer(1)")),),
}


def steps_of(kind: StepKind) -> tuple[StepSpec, ...]:
    return INEFFECTIVE[kind] if kind in INEFFECTIVE else (step_of(kind, target="broker(1)"),)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The pid of a process that does nothing."""
    monkeypatch.setattr(process, "PROBE_TIMEOUT_S", 0.05)
    monkeypatch.setattr(clock, "NOTE_TIMEOUT_S", 0.05)
    monkeypatch.setattr(admin, "_RECORD_WAIT_MIN_S", 0.05)
    monkeypatch.setattr(wire, "ANSWER_TIMEOUT_S", 0.05)
    monkeypatch.setattr(disk, "_PULSES_START_S", 0.0)
    with subprocess.Popen(["sleep", "60"]) as popen:
        yield popen.pid
        popen.kill()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "wait"])
def test_a_step_that_did_nothing_proves_nothing_and_says_why(kind: StepKind, tmp_path: Path, idle: int) -> None:
    log = tmp_path / "log"
    records = (build.topic("t", "T"), build.partition("T", 0, (1, 2, 3), 1), build.register(1, 3, "I"))
    build.write_log(log, build.metadata_batch(0, *records))
    view = ClusterView({100: log}, {100: tmp_path / "mirror"}, (1, 2, 3))
    view.poll()
    if kind == "resume":
        os.kill(idle, signal.SIGSTOP)
        wait_until(lambda: state_of(idle) == "T", awaited="a stopped process", timeout_s=60)
    schedule = Schedule(
        steps_of(kind),
        record=RecordFolder(tmp_path),
        runtime=Inert(tmp_path / "data", idle),  # type: ignore[arg-type]
        view=view,
        counters=Counters(),
        administer=accept_request,
        ask_replicas=no_answers,
        clients=FakeClients({"producer-1"}),
        display=Notes(),
        poll_cluster=lambda: None,
    )
    assert schedule.run()
    if kind in WIRE_KINDS:
        # As every run does at its end: a rule on the wire may take effect as long as it is in force.
        schedule.restore()
    entries = read_steps(RecordFolder(tmp_path)) or []
    last = entries[-1]
    assert (last.step, last.effect_ns, last.proof["probe"]) == (kind, None, "failed")
    assert last.why
    manifest = Manifest(run_id="r", scenario="s", kafka="4.3.1", status="complete")
    assert any(f"({kind}" in said and said.endswith(last.why) for said in unproven_reasons(manifest, None, entries))
