"""The live part of a run: it polls the cluster from start to final read.

The values that a scenario leaves open are drawn from the run's seed. A seed reproduces these values and nothing else:
timing, leader elections and the kernel's write-back vary.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

import msgspec

from cluster.runtime.cluster import Runtime
from cluster.runtime.tool_command import ToolCommand
from ebbtide.errors import HarnessError, NodeEnded
from ebbtide.folders import HeldFolder
from ebbtide.kraft.image import describe
from ebbtide.logs.segments import METADATA_FOLDER, log_dir_of, log_end, replica_folder
from ebbtide.record.files import LOGS_DIR, RAW_DIR, RecordFolder, write_atomically
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import CLOCK_KINDS
from ebbtide.scenario.validate_order import FaultNow
from ebbtide.scenario.words import CLIENTS, Role
from ebbtide.scenario.write import SCENARIO, recorded_text_of
from faults.base import Effect
from faults.injector import Plan
from faults.wire import nodes_to_intercept
from harness.runner.display import SHOW_EVERY_S, Display, NodeState, run_state_of
from harness.runner.ending import End, Ending
from harness.runner.gates import Gate
from harness.runner.node_watch import ClockLog, NodeEnds, NodeWatch
from harness.runner.schedule import Schedule
from harness.runner.view import ClusterView
from workloads.forked_clients import ForkedClients
from workloads.group import Workload


class Draws(msgspec.Struct, frozen=True, kw_only=True):
    """The drawn values.

    `assignments`: for each topic the replicas of each partition, preferred leader first.
    """

    assignments: Mapping[str, tuple[tuple[int, ...], ...]]

    def lines(self) -> dict[str, str]:
        """Return each drawn value by name, as the run prints it and the manifest keeps it."""
        return {
            f"replicas of {topic}-{partition}": ", ".join(map(str, replicas))
            for topic, partitions in self.assignments.items()
            for partition, replicas in enumerate(partitions)
        }


def draw(scenario: Scenario, seed: int) -> Draws:
    """Draw what the scenario leaves open.

    The same seed draws the same values for the same scenario.
    """
    random = Random(seed)
    brokers = range(1, scenario.cluster.brokers + 1)
    return Draws(
        assignments={
            name: topic.assignment
            or tuple(tuple(random.sample(brokers, topic.replication_factor)) for _ in range(topic.partitions))
            for name, topic in scenario.topics.items()
        }
    )


START_TIMEOUT_S = 90.0


class Session:
    """One cluster and its clients during one scenario; `close` ends both at any point.

    A run calls `open` (or `join`), then steps, then `finish`; `carry_out` does all of it with the scenario's own steps.
    """

    def __init__(
        self,
        scenario: Scenario,
        draws: Draws,
        runtime: Runtime,
        run_id: str,
        record: RecordFolder,
        display: Display,
        gates: Mapping[int, Gate] | None = None,
        *,
        tools: Mapping[int, ToolCommand] | None = None,
        held: HeldFolder | None = None,
    ) -> None:
        """`tools`: as in `Workload`.

        `held` is the folder of the record, which the session and its clients then write through its handle.
        """
        self.run_id = run_id
        self.record = record
        self._held = held
        self._files = record if held is None else RecordFolder(held.path)
        self.runtime = runtime
        self._scenario = scenario
        self._display = display
        self._phase, self._shown_s, self._unrecorded = "preparing", 0.0, ""
        self.timings_s: dict[str, float] = {}
        self._brokers = tuple(node.id for node in runtime.nodes.values() if node.role == "broker")
        controllers = [node for node in runtime.nodes.values() if node.role == "controller"]
        self._view = ClusterView(
            {node.id: runtime.data_dir(node.id) / METADATA_FOLDER for node in controllers},
            {node.id: self._files / RAW_DIR / node.name / METADATA_FOLDER for node in controllers},
            self._brokers,
            log_end=lambda broker, at: log_end(replica_folder(runtime.data_dirs(broker), at)),
            log_dir=lambda broker, at: log_dir_of(runtime.data_dirs(broker), at),
            has_dynamic_quorum=scenario.cluster.has_dynamic_quorum,
        )
        self._clock = ClockLog(self._files)
        self._clients = ForkedClients(runtime.start_client, self._files / LOGS_DIR / "clients.log")
        self._workload = Workload(
            record=self._files,
            run_id=run_id,
            start_client=self._clients.start,
            bootstrap=runtime.bootstrap_servers(),
            topics=scenario.topics,
            assignments=draws.assignments,
            producers=scenario.producers,
            consumers=scenario.consumers,
            tools=tools,
            final_partition_counts=scenario.final_partition_counts,
        )
        self._schedule = Schedule(
            scenario.steps,
            record=self._files,
            runtime=runtime,
            view=self._view,
            counters=self._workload,
            administer=self._workload.administer,
            ask_replicas=self._workload.ask_replicas,
            clients=self._workload.client_steps,
            display=display,
            poll_cluster=self.watch,
            gates=gates,
        )
        self._node_watch = NodeWatch(runtime, self._schedule, scenario.cluster.session_timeout_s)
        self._up = False
        self.node_ends = NodeEnds(display.note)
        self.end = End(why_no_final_read="the run ended before it")

    @property
    def view(self) -> ClusterView:
        """The cluster's state as of the last `watch`."""
        return self._view

    @property
    def scenario(self) -> Scenario:
        """The scenario, with the steps that `fire` added."""
        return self._scenario

    @property
    def entries(self) -> Sequence[StepEntry]:
        """The entries of steps.jsonl so far."""
        return self._schedule.entries

    @property
    def in_force(self) -> Sequence[FaultNow]:
        """The faults in force, as `Schedule.in_force` returns them."""
        return self._schedule.in_force

    @property
    def features(self) -> Mapping[str, int]:
        """The finalized feature levels as of the last `watch`."""
        return self._view.image.features

    @property
    def client_settings(self) -> dict[str, str]:
        """The settings of each client, by name."""
        return self._workload.settings()

    def carry_out(self) -> None:
        """Open the cluster, carry out the scenario's steps, and finish.

        Raises `HarnessError` if the harness, a client or a node failed by itself.
        """
        self.open()
        self.run_steps()
        self.finish()

    def run_steps(self) -> bool:
        """Carry out the scenario's own steps.

        Returns false if a step never fired, or Kafka ended a node, which ends the schedule. Raises as `carry_out` does.
        """
        with self.time_phase("steps"):
            try:
                return self._schedule.run()
            except NodeEnded as error:
                self.node_ends.add(error)
                return False

    def open(self, *, tap_all: bool = False, set_clocks: bool = False) -> None:
        """Start the cluster and its clients.

        Whatever the steps, `tap_all` gives every node a wire proxy, and `set_clocks` the agent that sets its clock.

        Raises `HarnessError`, or `UsageError` for a property that Kafka refuses.
        """
        with self.time_phase("prepare"):
            nodes = self.runtime.nodes
            everyone = {CLIENTS: "clients", **{node.id: node.name for node in nodes.values()}}
            self.runtime.wire.intercept(everyone if tap_all else nodes_to_intercept(self._scenario.steps, nodes))
            if set_clocks or any(step.step in CLOCK_KINDS for step in self._scenario.steps):
                self.runtime.clocks.enable()
            if (formed_on := self._scenario.cluster.formed_on) is not None:
                form_on(self.runtime, formed_on)
            self.runtime.prepare()
            if self.runtime.warning is not None:
                self._display.note(self.runtime.warning)
        with self.time_phase("start cluster"):
            self._clients.begin()
            for group in self._start_order():
                self.runtime.start(group)
                self.runtime.wait_ready(group, START_TIMEOUT_S)
        if formed_on is not None:
            with self.time_phase("upgrade"):
                roll_to(self._scenario.kafka[0], self._schedule.plan, self._display.note, START_TIMEOUT_S)
        self.join()

    def _start_order(self) -> tuple[tuple[int, ...], ...]:
        """Return the nodes that start together, group by group.

        In a dynamic quorum the controllers start first. A broker that fetched the record of the first voters before it
        was committed, and truncated it, never finds a controller again (docs/findings/truncated-voters.md).
        """
        everyone = tuple(self.runtime.nodes)
        if not self._scenario.cluster.has_dynamic_quorum:
            return (everyone,)
        return tuple(node for node in everyone if node not in self._brokers), self._brokers

    def join(self) -> None:
        """Start the clients on a cluster that is up. Raises as `open` does."""
        self._up = True
        with self.time_phase("start clients"):
            self._workload.create_topics()
            if self._scenario.topics:
                self._workload.start()

    def fire(self, step: StepSpec) -> StepEntry:
        """Carry out one more step now, add it to the scenario, and return its entry.

        The scenario is that of the record. Raises `EbbtideError` if the step could not be injected, `HarnessError` if a
        process failed by itself meanwhile.
        """
        self._scenario = msgspec.structs.replace(self._scenario, steps=(*self._scenario.steps, step))
        write_atomically(self._files / SCENARIO, recorded_text_of(self._scenario).encode())
        return self._schedule.add(step)

    def finish(self) -> None:
        """Heal, settle and read everything; `end` then has the result.

        A node that Kafka ends meanwhile is started once more. Raises as `carry_out` does.
        """
        ending = Ending(
            scenario=self._scenario,
            runtime=self.runtime,
            view=self._view,
            workload=self._workload,
            schedule=self._schedule,
            display=self._display,
            watch=self.watch,
            time_phase=self.time_phase,
        )
        ended: set[str] = set()
        while True:
            try:
                self.end = ending.carry_out()
                return
            except NodeEnded as error:
                self.node_ends.add(error)
                if error.node in ended:
                    self.end = End(why_no_final_read=f"Kafka ended a node again, so nothing was read: {error.what}")
                    return
                ended.add(error.node)
                for node in self.runtime.nodes:
                    if self.runtime.pid(node) is None:
                        self._schedule.note_down(node)

    def close(self, *, leave_nodes: bool = False) -> None:
        """End the clients, then the nodes.

        Controllers first, so that they do not record the deaths of brokers.
        """
        with self.time_phase("stop"), contextlib.closing(self._clients):
            self._workload.stop()
            self._workload.close()
            self._view.poll()
            self._clock.look(self._view.end_offset)
            self._clock.close()
            if leave_nodes:
                return
            self._up = False
            for node in sorted(self.runtime.nodes, key=lambda one: one in self._brokers):
                if self.runtime.pid(node) is not None:
                    self.runtime.kill(node)

    @contextlib.contextmanager
    def time_phase(self, phase: str) -> Iterator[None]:
        """Show the name of the phase, and measure how long the block takes."""
        self._phase = phase
        began = time.monotonic()
        try:
            self._show()
            yield
        finally:
            self.timings_s[phase] = round(time.monotonic() - began, 3)
            self._display.note(f"{phase}: {self.timings_s[phase]:.1f} s")

    def watch(self) -> None:
        """Poll the cluster and show what is new.

        Raises `HarnessError` if a process died by itself, `Disturbed` if something outside of the run ended a client
        or stopped a node. On a cluster without topics there is nothing to judge: the death of a node is noted, and
        the cluster stays.
        """
        if self._held is not None:
            self._held.require_in_place()
        for row in self._view.poll():
            if row.topic in self._scenario.topics:
                self._display.note(describe(row))
        self._clock.look(self._view.end_offset)
        if time.monotonic() - self._shown_s >= SHOW_EVERY_S:
            self._show()
        self._schedule.look_at_wire()
        self._workload.check()
        if self.runtime.published is not None and (why := self.runtime.published.check() or "") != self._unrecorded:
            self._unrecorded = why
            self._display.note(f"your own clients are no longer recorded: {why}")
        try:
            self._node_watch.look(self._display.note, judged=bool(self._scenario.topics))
        except NodeEnded as error:
            self.node_ends.add(error)
            raise

    def _show(self) -> None:
        """Give the display the state of the run. It costs no request to the cluster."""
        self._shown_s = time.monotonic()
        self._display.state(
            run_state_of(
                self.run_id,
                self._phase,
                nodes=self.runtime.nodes.values(),
                node_states={name: str(one) for name, one in self.node_states().items()},
                partitions=[row for row in self._view.image.partitions.values() if row.topic in self._scenario.topics],
                counters=self._workload,
                entries=self.entries,
                awaited=self._schedule.awaited,
            )
        )

    def node_states(self) -> dict[str, NodeState]:
        """Return the state of each node, by name."""
        return {node.name: self._node_state(node.id) for node in self.runtime.nodes.values()}

    def _node_state(self, node: int) -> NodeState:
        event = self._view.image.brokers.get(node)
        registration = None if event is None else event.event
        if node in self._schedule.paused_nodes:
            return NodeState("paused", registration)
        if not self._up:
            return NodeState("not up", registration)
        return NodeState("running" if self.runtime.pid(node) is not None else "down", registration)


_FIRST, _SECOND = Role("controllers"), Role("brokers")


def form_on(runtime: Runtime, kafka: str) -> None:
    """Let every node begin on this release; call it before `prepare`. Raises `HarnessError`."""
    runtime.require_release(kafka)
    for node in runtime.nodes:
        runtime.releases.install(node, kafka)


def roll_to(kafka: str, plan: Callable[[UpgradeStep], Plan], note: Callable[[str], None], timeout_s: float) -> None:
    """Move the controllers, then the brokers to this release, one after the other.

    Raises `HarnessError` if a node does not get there.
    """
    for role in (_FIRST, _SECOND):
        planned = plan(UpgradeStep(target=role, to=kafka, deadline_s=timeout_s))
        effect = planned.act()
        assert isinstance(effect, Effect)
        if effect.effect_ns is None:
            raise HarnessError(f"the {role} could not be moved to Kafka {kafka}", got=effect.why)
        note(f"upgrade {planned.description}: took effect")
