"""A stand-in for the runner of the pytest plugin, without Kafka.

Its records consist of a manifest and a verdict. Scenarios are named after how they end: `holds`, `loses`,
`proves-nothing`, `breaks`. A chaos run is inconclusive if a step has no proof, loses when a leader lost power,
and else ends as predicted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from ebbtide.daemon.messages import ClusterStatus, NodeStatus
from ebbtide.errors import UsageError
from ebbtide.pytest_plugin.kafka_cluster import Chaos, KafkaCluster
from ebbtide.pytest_plugin.markers import UNPLACED_CHAOS, MarkerPlace
from ebbtide.pytest_plugin.run_record import CommandFailed, RunRecord, read_record
from ebbtide.pytest_plugin.runner import Ability, Lease
from ebbtide.pytest_plugin.settings import Settings
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.steps import StepEntry
from ebbtide.record.verdict import AnomalyCount, Loss, RecordedElection, Verdict, write_verdict
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.waiting import WaitExpired

LOST = Loss(
    topic="t",
    partition=0,
    acks=-1,
    committed=True,
    cause="last-replica-standing",
    count=12,
    first_offset=3,
    last_offset=14,
    election=RecordedElection(metadata_offset=40, leader=2, leader_epoch=2),
)
ENDS: Mapping[str, Verdict] = {
    "holds": Verdict(run_id="", outcome="as-predicted"),
    "loses": Verdict(
        run_id="",
        outcome="contradicted",
        why=["12 committed records of t-0 are lost"],
        losses=[LOST],
        anomalies=[AnomalyCount(kind="lost", topic="t", partition=0, count=12)],
    ),
    "proves-nothing": Verdict(run_id="", outcome="inconclusive", why=["step 0 (kill) never fired"]),
}


def write_record(
    folder: Path, kafka: str, seed: int, verdict: Verdict, scenario: str = "holds", replay_of: str | None = None
) -> RunRecord:
    """A record that can be read back."""
    folder.mkdir(parents=True)
    manifest = {
        "record_version": 1,
        "run_id": folder.name,
        "scenario": scenario,
        "replay_of": replay_of,
        "seed": seed,
        "kafka": kafka,
        "runtime": "local",
        "power_loss_method": "fs-shutdown",
        "topology": {"controllers": [100], "brokers": [1, 2, 3]},
        "topics": {},
        "start_ns": 0,
        "status": "complete",
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    write_verdict(RecordFolder(folder), msgspec.structs.replace(verdict, run_id=folder.name))
    return read_record(folder)


class FakeSteps:
    """Takes steps without carrying them out; `fails`: kinds that have no proof."""

    def __init__(self, fails: Sequence[str] = ()) -> None:
        self.steps: list[StepSpec] = []
        self.fails = fails

    def run_step(self, step: StepSpec) -> StepEntry:
        if str(getattr(step, "target", "")) == "broker(9)":
            raise UsageError(
                "no broker of this id",
                where="target",
                got="'broker(9)'",
                allowed="broker(1) to broker(3) (cluster.brokers)",
            )
        self.steps.append(step)
        expired = step.trigger is not None and step.deadline_s < 1
        proven = not expired and step.step not in self.fails
        return StepEntry(
            index=len(self.steps) - 1,
            step=step.step,
            fired_ns=None if expired else 1,
            effect_ns=2 if proven else None,
            proof={"probe": "ok"} if proven else {},
            why=None if proven else "waited for nothing",
        )


class FakeChaos(Chaos):
    """See `FakeSteps`."""

    def __init__(self, status: ClusterStatus, topics: tuple[str, ...], steps: FakeSteps) -> None:
        super().__init__(status, topics)
        self._steps = steps

    def _ask(self, step: StepSpec) -> StepEntry:
        return self._steps.run_step(step)


class FakeCluster(KafkaCluster):
    """See `FakeSteps`; `made` are its topics."""

    def __init__(self, status: ClusterStatus) -> None:
        super().__init__(status)
        self._steps = FakeSteps()
        self.made: list[str] = []

    def create_topic(self, topic: str, **_: Any) -> str:
        self.made.append(topic)
        return topic

    def _ask(self, step: StepSpec) -> StepEntry:
        if step.step == "delete-topic":
            self.made.remove(str(step.topic))
        return self._steps.run_step(step)


class FakeProcess:
    """An owner that runs."""

    def exit_code(self) -> int | None:
        return None

    def let_go(self) -> None:
        pass


class FakeRunner:
    """A stand-in for `ebbtide.pytest_plugin.runner.CommandRunner`.

    `open` are the clusters that are up; `asked` are the requests to it. `stuck`: no cluster ends
    when it should. `refuses`: the key of a marker that Kafka refuses.
    """

    def __init__(
        self,
        lacking: Mapping[str, str] | None = None,
        fails: Sequence[str] = (),
        stuck: bool = False,
        refuses: str | None = None,
    ) -> None:
        self.lacking = lacking or {}
        self.fails = fails
        self.stuck = stuck
        self.refuses = refuses
        self.open: list[str] = []
        self.asked: list[str] = []

    def abilities(self) -> Sequence[Ability]:
        names = {"java": ("every run",), "docker": ("the docker runtime",)}
        return [Ability(name=name, lacking=self.lacking.get(name), disables=what) for name, what in names.items()]

    def fetch(self, kafka: str) -> str:
        self.asked.append(f"fetch {kafka}")
        if kafka.endswith("own.tgz"):
            return "4.5.0-SNAPSHOT@0123abcd"
        if kafka == "9.9.8":
            raise CommandFailed("Maven does not answer")
        raise CommandFailed(f"Kafka {kafka} is not published", mistake=True)

    def run_scenario(
        self, scenario: str, kafka: str, settings: Settings, *, keep: bool
    ) -> tuple[RunRecord, Lease | None]:
        self.asked.append(f"{scenario} on {kafka}")
        if scenario not in ENDS:
            if scenario == "breaks":
                raise CommandFailed("no loop device\nebbtide run breaks: exit code 3")
            raise CommandFailed("unknown scenario", mistake=True)
        return write_record(_folder(settings), kafka, settings.seed, ENDS[scenario]), self._lease(
            keep
        ) if keep else None

    def replay(self, record: Path, settings: Settings) -> RunRecord:
        self.asked.append(f"replay of {record.name}")
        was, manifest = read_record(record), read_manifest(RecordFolder(record))
        folder, seed = _folder(settings), settings.seed
        again = write_record(folder, was.kafka, seed, was.verdict, manifest.scenario, manifest.run_id)
        return replace(again, fidelity=0.75)

    def open_cluster(self, kafka: str, settings: Settings, *, keep: bool) -> tuple[KafkaCluster, Lease]:
        lease = self._lease(keep)
        return FakeCluster(_status(lease.name, kafka, settings)), lease

    def open_chaos(
        self,
        scenario: Scenario,
        kafka: str,
        settings: Settings,
        *,
        keep: bool,
        marker: MarkerPlace = UNPLACED_CHAOS,
        publish: bool = False,
    ) -> tuple[Chaos, Lease]:
        if self.refuses is not None:
            raise CommandFailed(f"{marker.label}: refused\nline {marker.line_of(self.refuses)}", mistake=True)
        lease = self._lease(keep)
        self._settings = settings
        self._steps = FakeSteps(self.fails)
        return FakeChaos(_status(lease.name, kafka, settings), tuple(scenario.topics), self._steps), lease

    def judge_chaos(self, chaos: Chaos, lease: Lease) -> RunRecord:
        kinds = [step.step for step in self._steps.steps]
        expired = any(step.deadline_s < 1 for step in self._steps.steps)
        end = "proves-nothing" if expired or set(kinds) & set(self.fails) else "holds"
        if end == "holds" and "power-loss" in kinds:
            end = "loses"
        return write_record(chaos.record, chaos.kafka, self._settings.seed, ENDS[end])

    def close(self, lease: Lease) -> None:
        if self.stuck:
            raise WaitExpired(f"the daemon of {lease.name} to end", 120, "nothing")
        if lease.name in self.open:
            self.open.remove(lease.name)

    def end_session(self) -> None:
        """Nothing is kept."""

    def _lease(self, keep: bool) -> Lease:
        lease = Lease(name=f"pytest-{os.urandom(3).hex()}", tied=not keep)
        lease.process = FakeProcess()  # type: ignore[assignment]
        self.open.append(lease.name)
        return lease


def _folder(settings: Settings) -> Path:
    return settings.runs / f"run-{os.urandom(4).hex()}"


def _status(name: str, kafka: str, settings: Settings) -> ClusterStatus:
    return ClusterStatus(
        name=name,
        run_id=name,
        record=str(_folder(settings)),
        scenario="",
        kafka=kafka,
        runtime="local",
        power_loss_method="fs-shutdown",
        powers="root",
        bootstrap=("10.99.0.1:9092",),
        namespace="/run/netns/x",
        nodes={"broker-1": NodeStatus(id=1, role="broker", state="running", registration="unfenced")},
        partitions=(),
        steps=0,
    )
