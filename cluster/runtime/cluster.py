"""The common part of every runtime on this host, as faults, workloads and the runner know it.

Faults act only on a node's pid, network namespace and volume, so that every fault works the same on every runtime.
This part covers volumes, the switch, properties, readiness, power loss, clients and the end. A runtime adds how a
node's processes start, and in which network namespace they are. The run folder's `cluster/` belongs to the nodes and
is deleted by `close`; `logs/` stays, compressed.
"""

from __future__ import annotations

import shutil
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from cluster.host.bridge import BridgeNetwork, address_of
from cluster.host.children import Child, start_child
from cluster.host.slow_volume import Pulses, Slowness
from cluster.host.volumes import Volume
from cluster.host.writeback_watch import WriteBackWatch, settle_write_back
from cluster.relay.publication import Publication
from cluster.runtime.base import (
    DiskReplacement,
    NodeInfo,
    NodeProcess,
    NodeReleases,
    PowerLoss,
    PowerLossMethod,
    RuntimeSettings,
)
from cluster.runtime.disks import NodeDisks
from cluster.runtime.jvm import SERVER, TOOL_HEAP_MB, JavaProgram, compress, end_error, tail_of
from cluster.runtime.node_clocks import NodeClocks
from cluster.runtime.properties import (
    BROKER_PORT,
    CONTROLLER_PORT,
    PUBLISHED_PORT,
    cluster_id,
    format_arguments,
    plan_cluster,
    properties_of,
    refused_value_error,
)
from cluster.runtime.properties import TOOL as STORAGE_TOOL
from cluster.wire.tap import Taps
from ebbtide.errors import EbbtideError, HarnessError
from ebbtide.kraft.quorum import QuorumLogs
from ebbtide.logs.segments import METADATA_FOLDER
from ebbtide.namespaces import call_in_namespace
from ebbtide.properties_file import render
from ebbtide.record.files import LOGS_DIR
from ebbtide.record.node_times import NodeTimes
from ebbtide.releases.known_releases import METADATA_VERSION
from ebbtide.scenario.words import CLIENTS
from ebbtide.signals import defer_signals
from ebbtide.waiting import wait_until

FORMAT_TIMEOUT_S = 60.0


class Runtime(ABC):
    """A cluster's processes, volumes and network, from `prepare` to `close`."""

    name: str

    def __init__(self, settings: RuntimeSettings) -> None:
        spec, ledger, folder = settings.spec, settings.ledger, settings.folder.absolute()
        self._plan = plan_cluster(spec, address_of)
        if (ports := settings.host_ports) is not None:
            published = dict(zip(ports.by_broker, ports.addresses, strict=True))
            self._plan = msgspec.structs.replace(self._plan, published=published)
        self.nodes: Mapping[int, NodeInfo] = self._plan.nodes
        self.network = BridgeNetwork(ledger)
        self.wire = Taps(ledger, ports=(BROKER_PORT, CONTROLLER_PORT), logs=folder / LOGS_DIR)
        self.power_loss_method: PowerLossMethod = settings.power_loss_method
        self.releases = NodeReleases(self.nodes, settings.kafka)
        self._folder = folder
        self._ledger = ledger
        self._hold_write_back = settings.hold_write_back
        self._host_ports = settings.host_ports
        self.published: Publication | None = None
        """The ports on the host that lead to the brokers, once `prepare` opened them; None: there are none."""
        self._write_back = spec.write_back
        self._has_dynamic_quorum = spec.has_dynamic_quorum
        self._write_back_watch: WriteBackWatch | None = None
        self.warning: str | None = None
        """What users should know about the cluster, found by `prepare`."""
        self._client_namespace = Path()
        self.clocks = NodeClocks(self.nodes, self._cluster / "clocks", ledger)
        self._disks = NodeDisks(self._cluster, self.nodes, spec, ledger)
        self._processes: dict[int, NodeProcess] = {}
        self._incarnations: dict[int, str | None] = {}
        """The newest registration of each broker from before its start, by the id that each process draws."""
        self._replaced: set[int] = set()
        self._quorum = QuorumLogs(
            {
                node.id: self.data_dir(node.id) / METADATA_FOLDER
                for node in self.nodes.values()
                if node.role == "controller"
            }
        )

    def prepare(self) -> None:
        """Make namespaces, volumes and the write-back hold, and format the nodes; starts nothing.

        Raises `HarnessError`, or `UsageError` for a property that Kafka does not accept.
        """
        self.network.open()
        self._client_namespace = self.network.add_namespace(CLIENTS)
        self.wire.open({CLIENTS: self._client_namespace})
        if (ports := self._host_ports) is not None:
            targets = {id: (self.nodes[id].address, PUBLISHED_PORT) for id in ports.by_broker}
            folders = self._folder, self._cluster
            brokers = self.bootstrap_servers()
            self.published = Publication(self._ledger, ports, self._client_namespace, targets, brokers, *folders)
        self._make_node_places()
        self.clocks.prepare(self._folder / LOGS_DIR / "clock-agent.log")
        if self.power_loss_method == "fs-shutdown":
            self._write_back_watch, self.warning = settle_write_back(self._ledger, hold=self._hold_write_back)
            self._disks.make_volumes()
        self._lay_out()
        # StorageTool does not fsync. A machine that loses power was formatted long before.
        self._disks.sync()

    def _lay_out(self) -> None:
        """Make every node's log directories and properties, and format."""
        for node in self.nodes.values():
            data_dirs = self._disks.make_data_dirs(node.id)
            properties = self._properties_file(node)
            properties.parent.mkdir(exist_ok=True)
            properties.write_text(render(properties_of(self._plan, node, data_dirs)), "ascii")
        self._format(tuple(self.nodes))

    def start(self, node_ids: Sequence[int]) -> None:
        """Start the processes of nodes that are down; returns once they run, ready or not."""
        for node_id in node_ids:
            if self.pid(node_id) is not None:
                raise HarnessError(f"{self.nodes[node_id].name} runs already", got=f"pid {self.pid(node_id)}")
        registered = self._quorum.poll().brokers
        for node_id in node_ids:
            self._disks.write_unsynced(node_id)
            self.releases.note_start(node_id)
            event = registered.get(node_id)
            self._incarnations[node_id] = None if event is None else event.incarnation
        self._start_servers(node_ids)

    def wait_ready(
        self, node_ids: Sequence[int], timeout_s: float, poll_cluster: Callable[[], None] = lambda: None
    ) -> None:
        """Wait until each process answers and each broker has registered again and is unfenced.

        Controllers of a dynamic quorum are ready once one of them is active and the first voters are committed. Every
        check calls `poll_cluster`.

        Raises `HarnessError` with the end of its log when a process died, `UsageError` when it died because of a
        property in the scenario, `WaitExpired` otherwise.
        """

        def is_ready() -> bool:
            poll_cluster()
            return not self._why_not_ready(node_ids)

        wait_until(
            is_ready,
            awaited=f"{', '.join(self.nodes[id].name for id in node_ids)} to be ready",
            timeout_s=timeout_s,
            last_seen=lambda: "; ".join(self._why_not_ready(node_ids)) or "all ready",
            poll_s=0.05,
        )

    def stop(self, node_id: int, timeout_s: float) -> None:
        """Stop the process cleanly (SIGTERM). Raises `WaitExpired` after `timeout_s`."""
        process = self._running_process(node_id)
        process.send(signal.SIGTERM)
        process.wait(timeout_s)

    def kill(self, node_id: int) -> None:
        """Send SIGKILL, and wait until the process has ended and is reaped."""
        self._running_process(node_id).kill()

    def pause(self, node_id: int) -> None:
        """Send SIGSTOP."""
        self._running_process(node_id).send(signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        """Send SIGCONT."""
        self._running_process(node_id).send(signal.SIGCONT)

    def pid(self, node_id: int) -> int | None:
        """Return the pid on this host of the node's JVM; None while it is down."""
        process = self._processes.get(node_id)
        return process.pid if process is not None and process.is_running() else None

    def exit_status(self, node_id: int) -> int | None:
        """Return how the node's last process ended; None while one runs.

        It is the exit code, or minus the signal.
        """
        process = self._processes.get(node_id)
        return None if process is None else process.exit_status()

    def process_times(self, node_id: int) -> NodeTimes:
        """Return when the node's last process started, and when it ended if it did."""
        process = self._processes.get(node_id)
        if process is None:
            return NodeTimes()
        process.is_running()  # looks: an end that nobody has seen yet is seen now
        return process.times

    def lose_power(self, node_id: int) -> PowerLoss:
        """Send SIGKILL, then lose all that the node did not fsync; the node stays down."""
        if self.pid(node_id) is not None:
            self.kill(node_id)
        watch = self._write_back_watch
        return self._disks.lose_power(
            node_id,
            self.power_loss_method,
            # The kernel has long written back what was unsynced at the start of the node.
            at_the_cut=self._write_back == "kernel",
            look=lambda: watch.look() if watch is not None else None,
        )

    def replace_disk(self, node_id: int, directory: int | None = None) -> DiskReplacement:
        """Send SIGKILL, then format new, empty disks; the node stays down.

        They are formatted for the same cluster. `directory`: only the disk of this log directory.
        """
        if self.pid(node_id) is not None:
            self.kill(node_id)
        if directory in (None, 1):
            self._replaced.add(node_id)
        return self._disks.replace(node_id, directory, lambda: self._format([node_id]))

    def volume(self, node_id: int, directory: int) -> Volume:
        """Return the volume of one of the node's log directories, which count from 1.

        Raises `HarnessError` where nodes have no volumes (power loss by truncate), or not this directory.
        """
        return self._disks.volume(node_id, directory)

    def slow_down(self, node_id: int, delay_s: float, period_s: float, directory: int) -> Pulses:
        """Freeze the volume of one log directory for `delay_s` of every `period_s`.

        Raises `HarnessError` as `volume` does.
        """
        slowness = Slowness.of(self.volume(node_id, directory))
        self._ledger.record(slowness)
        return Pulses(slowness, delay_s, period_s)

    def data_dirs(self, node_id: int) -> tuple[Path, ...]:
        """Return the node's log.dirs as this process sees them; partition folders lie directly in them."""
        return self._disks.data_dirs(node_id)

    def data_dir(self, node_id: int) -> Path:
        """Return the first of the log.dirs, which also holds the metadata log."""
        return self._disks.data_dirs(node_id)[0]

    def log_file(self, node_id: int) -> Path:
        """Return the node's own log, which restarts append to; `close` compresses it to `<name>.log.gz`."""
        return self._folder / LOGS_DIR / f"{self.nodes[node_id].name}.log"

    def start_client(self, argv: Sequence[str], *, name: str, output: Path, inherited: Sequence[int] = ()) -> Child:
        """Start `argv` in the client namespace; it dies with the harness.

        stdout and stderr are appended to `output`. The program has the file descriptors `inherited` under the same
        numbers. Raises `HarnessError`. A program that cannot run shows in its exit status and output.
        """
        return start_child(
            self._ledger, argv, name=name, output=output, namespace=self._client_namespace, inherited=inherited
        )

    def bootstrap_servers(self) -> list[str]:
        """Return `host:port` of every broker, as clients reach them."""
        return [f"{node.address}:{BROKER_PORT}" for node in self.nodes.values() if node.role == "broker"]

    def controller_servers(self) -> list[str]:
        """Return `host:port` of every controller, as clients reach them."""
        return [f"{node.address}:{CONTROLLER_PORT}" for node in self.nodes.values() if node.role == "controller"]

    def close(self) -> None:
        """Kill what runs, undo the ledger and compress the logs. Idempotent.

        Never raises for what is already gone. Raises `HarnessError` when something on the host could not be undone.
        """
        with defer_signals():
            for process in self._processes.values():
                process.kill()
            if self._write_back_watch is not None:
                self._write_back_watch.end()
            if self._host_ports is not None:
                self._host_ports.close()
            self.wire.close()
            self.network.close()
            self._ledger.close()
            shutil.rmtree(self._cluster, ignore_errors=True)
            for log in (self._folder / LOGS_DIR).glob("*.log"):
                compress(log)

    @abstractmethod
    def require_release(self, kafka: str) -> None:
        """Raise `HarnessError` if nodes cannot run `kafka` because this host lacks its jars, or its image."""

    @abstractmethod
    def _make_node_places(self) -> None:
        """Make what the nodes' processes will run in, before their volumes and files."""

    @abstractmethod
    def _run_formatting(self, node_ids: Sequence[int]) -> Mapping[int, int]:
        """Run each node's `_format_program`, which needs no network, and return the exit status of each."""

    @abstractmethod
    def _start_servers(self, node_ids: Sequence[int]) -> None:
        """Start each node's `_server_program` in its network, and add it to `_processes`."""

    @abstractmethod
    def _namespace(self, node_id: int) -> Path:
        """Return the path that enters a running node's network namespace."""

    @property
    def _cluster(self) -> Path:
        return self._folder / "cluster"

    def _properties_file(self, node: NodeInfo) -> Path:
        return self._cluster / "properties" / f"{node.name}.properties"

    def _running_process(self, node_id: int) -> NodeProcess:
        if self.pid(node_id) is None:
            raise HarnessError(f"{self.nodes[node_id].name} is down", next="start it first")
        return self._processes[node_id]

    def _format(self, node_ids: Sequence[int]) -> None:
        for node_id, status in self._run_formatting(node_ids).items():
            if status != 0:
                raise self._end_error(self.nodes[node_id], "could not be formatted", status)

    def _end_error(self, node: NodeInfo, what: str, status: int | None) -> EbbtideError:
        log = self.log_file(node.id)
        return refused_value_error(self._plan.spec, node, tail_of(log)) or end_error(node.name, what, status, log)

    def _server_program(self, node: NodeInfo) -> JavaProgram:
        return JavaProgram(
            main=SERVER,
            arguments=(str(self._properties_file(node)),),
            options=(
                f"-XX:ErrorFile={self._folder}/{LOGS_DIR}/{node.name}-hs_err_%p.log",
                *self.clocks.options(node.id),
            ),
        )

    def _format_program(self, node: NodeInfo) -> JavaProgram:
        run_id = self._ledger.run_id
        file, features = str(self._properties_file(node)), self._plan.spec.features
        quorum = self._plan.quorum_arguments(node, run_id, is_first_disk=node.id not in self._replaced)
        arguments = format_arguments(self.releases[node.id], cluster_id(run_id), file, features, quorum)
        # A disk is replaced beside others that stay.
        arguments += ["--ignore-formatted"] if len(self.data_dirs(node.id)) > 1 else []
        return JavaProgram(main=STORAGE_TOOL, arguments=tuple(arguments), heap_mb=TOOL_HEAP_MB)

    def _why_not_ready(self, node_ids: Sequence[int]) -> list[str]:
        """Return a sentence for each node that is not ready; raises if one died."""
        lacking = []
        image = self._quorum.poll()
        brokers = image.brokers
        for node_id in node_ids:
            node = self.nodes[node_id]
            if self.pid(node_id) is None:
                raise self._end_error(node, "ended before it was ready", self.exit_status(node_id))
            event = brokers.get(node_id)
            if not self._accepts_connections(node):
                lacking.append(
                    f"{node.name} does not answer on its port, its log ends: {tail_of(self.log_file(node_id), 1)}"
                )
            elif node.role == "controller":
                # A controller writes the level once it is active: a majority then has the voters' record before it.
                if self._has_dynamic_quorum and METADATA_VERSION not in image.features:
                    lacking.append(f"{node.name} answers, and no controller is active yet")
            # Not by the record's time, which the controller's clock says.
            elif event is None or event.incarnation == self._incarnations[node_id]:
                lacking.append(f"{node.name} is not registered")
            elif event.event != "unfenced":
                lacking.append(f"{node.name} is registered and fenced")
        return lacking

    def _accepts_connections(self, node: NodeInfo) -> bool:
        """Whether the node's port accepts a connection from its own namespace (no cuts)."""
        port = BROKER_PORT if node.role == "broker" else CONTROLLER_PORT

        def connect() -> None:
            socket.create_connection((node.address, port), timeout=0.5).close()

        try:
            call_in_namespace(self._namespace(node.id), connect)
        except OSError:
            return False
        return True
