"""A daemon that serves in a thread, over stand-ins for its session and runtime."""

from __future__ import annotations

import threading
from pathlib import Path

import evidence_builders as build

from cluster.runtime.base import NodeInfo
from ebbtide.daemon.control import status_of
from ebbtide.errors import EbbtideError, HarnessError
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.model import ClusterSpec, Scenario
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import WIRE_KINDS
from ebbtide.scenario.validate_order import FaultNow
from ebbtide.waiting import wait_until
from harness.daemon.owned_runs import plain_scenario
from harness.daemon.serving import ClusterDaemon, OwnedCluster
from harness.runner.display import NodeState
from harness.runner.view import ClusterView


class Session:
    """A session whose steps take effect, except a kill, which has no proof.

    Power loss cannot be injected.
    """

    def __init__(self, folder: Path, scenario: Scenario) -> None:
        self.scenario = scenario
        self.entries: list[StepEntry] = []
        self.dies: HarnessError | None = None
        self.in_force: list[FaultNow] = []
        self.runtime = StandIn()
        log = folder / "log"
        build.write_log(log, build.metadata_batch(0, build.topic("t", "T"), build.partition("T", 0, (2, 1, 3), 2)))
        self.view = ClusterView({100: log}, {100: folder / "mirror"}, (1, 2, 3))

    def watch(self) -> None:
        self.view.poll()
        if self.dies is not None:
            raise self.dies

    def fire(self, step: StepSpec) -> StepEntry:
        if step.step == "power-loss":
            raise HarnessError("no volume", where="broker-1")
        proof = None if step.step in ("kill", *WIRE_KINDS) else 2
        why = "it is still there" if step.step == "kill" else None
        whom = "broker-1 | broker-2, clients" if step.step == "partition" else "broker-1"
        entry = StepEntry(
            index=len(self.entries),
            step=step.step,
            nodes=(1,),
            whom=whom,
            fired_ns=1,
            effect_ns=proof,
            why=why,
        )
        self.entries.append(entry)
        return entry

    def node_states(self) -> dict[str, NodeState]:
        return {node.name: NodeState("running", "unfenced") for node in self.runtime.nodes.values()}


class NoClocks:
    """The clocks of nodes without the agent."""

    is_enabled = False


class StandIn:
    """The part of a runtime that a daemon uses."""

    name = "local"
    power_loss_method = "fs-shutdown"
    published = None

    def __init__(self) -> None:
        self.clocks = NoClocks()
        self.nodes = {
            id: NodeInfo(id=id, role="broker", name=f"broker-{id}", address=f"10.99.0.{id}") for id in (1, 2, 3)
        }

    def bootstrap_servers(self) -> list[str]:
        return ["10.99.0.1:9092"]

    def controller_servers(self) -> list[str]:
        return ["10.99.0.100:9093"]


class Notes:
    """A display that keeps its notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class Up:
    """A cluster named `one` whose daemon serves in a thread; `ended` how that went."""

    def __init__(self, folder: Path, tied_to: int | None = None, *, tapped: bool = False, started_by: str = "") -> None:
        self.session = Session(folder, plain_scenario("4.3.1", ClusterSpec()))
        owned = OwnedCluster(
            name="one",
            run_id="run-1",
            folder=folder,
            kafka="4.3.1",
            runtime=self.session.runtime,  # type: ignore[arg-type]
            session=self.session,  # type: ignore[arg-type]
            tapped=tapped,
            started_by=started_by,
            up_again="ebbtide cluster up --kafka 4.3.1",
        )
        self.daemon = ClusterDaemon(owned, Notes(), tied_to)  # type: ignore[arg-type]
        self.ended: list[BaseException | None] = []
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()
        wait_until(lambda: status_of("one"), awaited="the daemon", timeout_s=60)

    def _serve(self) -> None:
        try:
            self.daemon.serve()
            self.ended.append(None)
        except EbbtideError as error:
            self.ended.append(error)
        finally:
            self.daemon.release()
