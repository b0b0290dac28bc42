"""The live part of a run: it polls the cluster from start to final read."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from cluster.runtime.base import Runtime
from cluster.runtime.verifiable_tools import ToolCommand
from ebbtide.errors import HarnessError
from ebbtide.kraft.image import describe
from ebbtide.logs.checkpoint_file import HIGH_WATERMARKS, read_checkpoint
from ebbtide.logs.segments import METADATA_FOLDER, TopicPartition, log_end
from ebbtide.record.files import RAW_DIR, write_atomically
from ebbtide.record.manifest import FinalOffsets
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.roles import CLIENTS
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import StepKind
from ebbtide.scenario.write import SCENARIO, text_of
from ebbtide.waiting import WaitExpired, wait_until
from faults.wire import nodes_to_intercept
from harness.runner.display import Display
from harness.runner.draws import Draws
from harness.runner.forming import form_on, roll_to
from harness.runner.gates import Gate
from harness.runner.node_watch import NodeWatch
from harness.runner.property_check import properties_to_check, unknown_properties_error
from harness.runner.run_state import SHOW_EVERY_S, run_state_of
from harness.runner.schedule import Schedule
from harness.runner.view import ClusterView
from workloads.group import Workload

START_TIMEOUT_S = 90.0
FINAL_READ_TIMEOUT_S = 60.0
CHECKPOINT_TIMEOUT_S = 8.0


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How the live part ended: the offsets of the final read, or why there was none.

    `disturbed` says what outside of the run ended it early.
    """

    final_offsets: dict[str, FinalOffsets] = {}
    why_no_final_read: str | None = None
    disturbed: str | None = None


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
        record: Path,
        display: Display,
        gates: Mapping[int, Gate] | None = None,
        *,
        allow_unknown_properties: bool = False,
        tools: Mapping[int, ToolCommand] | None = None,
    ) -> None:
        """`allow_unknown_properties`: as in `RunRequest`; `tools`: as in `Workload`."""
        self.run_id = run_id
        self.record = record
        self.runtime = runtime
        self._scenario = scenario
        self._display = display
        self._phase, self._shown_s = "preparing", 0.0
        self.timings_s: dict[str, float] = {}
        self._brokers = tuple(node.id for node in runtime.nodes.values() if node.role == "broker")
        controllers = [node for node in runtime.nodes.values() if node.role == "controller"]
        self._view = ClusterView(
            {node.id: runtime.data_dir(node.id) / METADATA_FOLDER for node in controllers},
            {node.id: record / RAW_DIR / node.name / METADATA_FOLDER for node in controllers},
            self._brokers,
            log_end=lambda broker, at: log_end(runtime.data_dir(broker) / str(at)),
        )
        given = properties_to_check(scenario, runtime.nodes.values())
        self._unasked = given.unasked
        self._allow_unknown_properties = allow_unknown_properties
        self._workload = Workload(
            record=record,
            run_id=run_id,
            start_client=runtime.start_client,
            bootstrap=runtime.bootstrap_servers(),
            topics=scenario.topics,
            assignments=draws.assignments,
            producers=scenario.producers,
            consumers=scenario.consumers,
            properties=given.asked,
            tools=tools,
        )
        self._schedule = Schedule(
            scenario.steps,
            record=record,
            runtime=runtime,
            view=self._view,
            counters=self._workload,
            administer=self._workload.administer,
            ask_replicas=self._workload.ask_replicas,
            display=display,
            poll_cluster=self.watch,
            gates=gates,
        )
        self._node_watch = NodeWatch(runtime, self._schedule, scenario.cluster.session_timeout_s)
        self._up = False
        self.ignored: tuple[str, ...] = ()
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
    def in_force(self) -> Sequence[tuple[StepKind, int]]:
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
        """Carry out the scenario's own steps; returns false if a step never fired, which ends the schedule.

        Raises as `carry_out` does.
        """
        with self.time_phase("steps"):
            return self._schedule.run()

    def open(self, *, tap_all: bool = False) -> None:
        """Start the cluster and its clients; `tap_all` gives every node a wire proxy, whatever the steps.

        Raises `HarnessError`, or `UsageError` for a property that Kafka refuses.
        """
        with self.time_phase("prepare"):
            nodes = self.runtime.nodes
            everyone = {CLIENTS: "clients", **{node.id: node.name for node in nodes.values()}}
            self.runtime.wire.intercept(everyone if tap_all else nodes_to_intercept(self._scenario.steps, nodes))
            if (formed_on := self._scenario.cluster.formed_on) is not None:
                form_on(self.runtime, formed_on)
            self.runtime.prepare()
            if self.runtime.warning is not None:
                self._display.note(self.runtime.warning)
        with self.time_phase("start cluster"):
            self.runtime.start(tuple(self.runtime.nodes))
            self.runtime.wait_ready(tuple(self.runtime.nodes), START_TIMEOUT_S)
        if formed_on is not None:
            with self.time_phase("upgrade"):
                roll_to(self._scenario.kafka[0], self._schedule.plan, self._display.note, START_TIMEOUT_S)
        self.join()

    def join(self) -> None:
        """Start the clients on a cluster that is up.

        `ignored` then names the properties that Kafka ignores. Raises as `open` does.
        """
        self._up = True
        with self.time_phase("start clients"):
            if unknown := self._workload.create_topics():
                if not self._allow_unknown_properties:
                    raise unknown_properties_error(unknown)
                self.ignored = tuple(f"{one.table}.{one.name}" for one in unknown)
                self._display.note(unknown_properties_error(unknown).what)
            for sentence in self._unasked:
                self._display.note(sentence)
            if self._scenario.topics:
                self._workload.start()

    def fire(self, step: StepSpec) -> StepEntry:
        """Carry out one more step now, add it to the scenario, and return its entry.

        The scenario is that of the record. Raises `EbbtideError` if the step could not be injected, `HarnessError` if a
        process failed by itself meanwhile.
        """
        self._scenario = msgspec.structs.replace(self._scenario, steps=(*self._scenario.steps, step))
        write_atomically(self.record / SCENARIO, text_of(self._scenario).encode())
        return self._schedule.add(step)

    def finish(self) -> None:
        """Heal, settle and read everything; `end` then has the result.

        Raises as `carry_out` does.
        """
        with self.time_phase("settle"):
            self._schedule.restore()
            why = self._settle()
        with self.time_phase("producers"):
            self._end_producers()
        if why is not None:
            self.end = End(why_no_final_read=why)
            return
        with self.time_phase("final read"):
            self.end = self._final_read()
        with self.time_phase("checkpoints"):
            self._await_checkpoints(self.end)

    def close(self, *, leave_nodes: bool = False) -> None:
        """End the clients, then the nodes.

        Controllers first, so that they do not record the deaths of brokers.
        """
        with self.time_phase("stop"):
            self._workload.stop()
            self._workload.close()
            self._view.poll()
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
        for row in self._view.poll():
            if row.topic in self._scenario.topics:
                self._display.note(describe(row))
        if time.monotonic() - self._shown_s >= SHOW_EVERY_S:
            self._show()
        self._schedule.look_at_wire()
        self._workload.check()
        self._node_watch.look(self._display.note, judged=bool(self._scenario.topics))

    def _settle(self) -> str | None:
        """Wait until each partition has a leader and its full ISR.

        Returns the reason if a partition does not get there.
        """

        def unsettled_partitions() -> list[str]:
            partitions = self._view.image.partitions.values()
            return [describe(row) for row in partitions if row.topic in self._scenario.topics and not _is_at_rest(row)]

        def is_settled() -> bool:
            self.watch()
            return not unsettled_partitions()

        try:
            # A broker that was restarted within its session is still unfenced in the log, with its old registration
            # and ISR. Only its new registration shows its present state.
            self.runtime.wait_ready(tuple(self.runtime.nodes), self._scenario.settle_s)
            wait_until(
                is_settled,
                awaited="every partition to have a leader and its full ISR",
                timeout_s=self._scenario.settle_s,
                last_seen=lambda: "; ".join(unsettled_partitions()),
            )
        except WaitExpired as error:
            self._display.note(f"did not settle: {error}")
            return f"the cluster did not settle, so there is no final read: {error}"
        return None

    def _end_producers(self) -> None:
        """Let producers with a count finish, and stop the others."""
        if all(producer.count is not None for producer in self._scenario.producers):
            with contextlib.suppress(WaitExpired):
                wait_until(self._producers_done, awaited="the producers", timeout_s=self._scenario.settle_s)
        self._workload.stop_producers()

    def _producers_done(self) -> bool:
        self.watch()
        return self._workload.are_producers_done()

    def _final_read(self) -> End:
        try:
            return End(
                final_offsets=self._workload.final_read(FINAL_READ_TIMEOUT_S, deleted=self._schedule.deleted_topics)
            )
        except HarnessError as error:
            self._display.note(f"no final read: {error}")
            return End(why_no_final_read=f"the final read failed: {error}")

    def _await_checkpoints(self, end: End) -> None:
        """Wait until every replica has checkpointed its final HW.

        Brokers do that every 5 s.

        Replicas are compared only below their own checkpointed HW. If a checkpoint takes too long the run continues,
        and the records above it are not compared.
        """
        wanted = {
            (node, TopicPartition.parse(name)): offsets.high_watermark
            for name, offsets in end.final_offsets.items()
            for node in self._view.image.partitions[TopicPartition.parse(name)].replicas
        }

        def behind() -> list[str]:
            nodes = {node for node, _ in wanted}
            written = {node: read_checkpoint(self.runtime.data_dir(node) / HIGH_WATERMARKS) for node in nodes}
            return [
                f"{partition} on broker {node} is at {written[node].get(partition)}, not {high_watermark}"
                for (node, partition), high_watermark in wanted.items()
                if written[node].get(partition) != high_watermark
            ]

        def is_written() -> bool:
            self.watch()
            # A file that is just being replaced cannot be read: try again.
            with contextlib.suppress(ValueError):
                return not behind()
            return False

        try:
            wait_until(is_written, awaited="every replica's HW checkpoint", timeout_s=CHECKPOINT_TIMEOUT_S)
        except WaitExpired as error:
            self._display.note(str(error))

    def _show(self) -> None:
        """Give the display the state of the run. It costs no request to the cluster."""
        self._shown_s = time.monotonic()
        self._display.state(
            run_state_of(
                self.run_id,
                self._phase,
                nodes=self.runtime.nodes.values(),
                node_states=self.node_states(),
                partitions=[row for row in self._view.image.partitions.values() if row.topic in self._scenario.topics],
                counters=self._workload,
                entries=self.entries,
                awaited=self._schedule.awaited,
            )
        )

    def node_states(self) -> dict[str, str]:
        """Return each node's state (running, down, paused, not up) and newest registration, by name."""
        return {node.name: self._node_state(node.id) for node in self.runtime.nodes.values()}

    def _node_state(self, node: int) -> str:
        if node in self._schedule.paused_nodes:
            state = "paused"
        elif self._up:
            state = "running" if self.runtime.pid(node) is not None else "down"
        else:
            state = "not up"
        event = self._view.image.brokers.get(node)
        return state if event is None else f"{state}, {event.event}"


def _is_at_rest(row: PartitionState) -> bool:
    """Whether the partition has a leader, its full ISR and no reassignment."""
    return row.leader >= 0 and set(row.isr) == set(row.replicas) and not row.adding and not row.removing
