"""The interface of a runtime, for faults, workloads and the runner.

Faults act only on a node's pid, network namespace and volume, so that every fault works the same on every runtime.
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from cluster.host.namespaces import Cut, LimitCounts, Transfer
from cluster.host.slow_volume import Pulses
from cluster.host.volumes import Volume
from cluster.runtime.releases import NodeReleases
from cluster.wire.messages import Command, WireEvent
from ebbtide.record.node_times import NodeTimes, Span
from ebbtide.scenario.model import NodeRole

PowerLossMethod = Literal["fs-shutdown", "truncate"]


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the cluster. `name` is `broker-1` or `controller-100`."""

    id: int
    role: NodeRole
    name: str
    address: str


class LogLoss(msgspec.Struct, frozen=True, kw_only=True):
    """What a power loss did to one partition's log.

    Sizes in bytes and log end offsets (LEO), before and after. `lost_bytes` of the content before did not come back;
    they exceed the difference of the sizes where a tail came back as zeros.
    """

    bytes_before: int
    bytes_after: int
    lost_bytes: int
    leo_before: int
    leo_after: int


class PowerLoss(msgspec.Struct, frozen=True, kw_only=True):
    """What a power loss did to one node's volume; `logs` is keyed `topic-partition`.

    - `volume_down`: a probe saw the volume refuse a write before it was unmounted.
    - `unsynced_there`: the file that is written at each start of the node, and never fsynced, was on the volume
      before. Where the scenario leaves write-back to the kernel, another one is written right before the power is cut.
    - `unsynced_gone`: that file is not there any more.
    - `lost_bytes`: the sum over `logs`.
    - `write_back_change`: what something outside of the run did to the settings of write-back that the run needs, since
      it began; None: nothing.
    - `log_gone`: when the records went. By the last moment the kernel had dropped its pages of the volume.

    By truncate, every log except the metadata log was cut back to its recovery point. No volume was asked then, and
    the first three are true.
    """

    method: PowerLossMethod
    volume_down: bool
    unsynced_there: bool
    unsynced_gone: bool
    write_back_change: str | None = None
    lost_bytes: int
    logs: dict[str, LogLoss]
    log_gone: Span | None = None


class DiskReplacement(msgspec.Struct, frozen=True, kw_only=True):
    """What a replaced disk took: all logs of the node, keyed `topic-partition`.

    `left` are the partition folders that exist before the node starts again (none if the disk is new). The cluster
    ids are those of meta.properties on the old disk and on the new disk. `log_gone`: when the old disk went.
    """

    lost_bytes: int
    logs: dict[str, LogLoss]
    left: tuple[str, ...]
    cluster_id_before: str | None
    cluster_id: str | None
    log_gone: Span | None = None


class Network(Protocol):
    """Cuts and limits between nodes; a cut drops packets silently."""

    def cut(self, cuts: Iterable[Cut]) -> None:
        """Add `cuts` to the cuts in force."""

    def limit(self, pairs: Collection[Cut], rate_bytes_s: int) -> None:
        """Limit each of `pairs` (one direction) to `rate_bytes_s`. Raises `HarnessError`."""

    def limit_counts(self) -> Mapping[Cut, LimitCounts]:
        """Return what the kernel counts for each pair that is limited now."""

    def transfer(self, pairs: Iterable[Cut], size_bytes: int, timeout_s: float) -> Mapping[Cut, Transfer]:
        """Send `size_bytes` over each of `pairs` in turn, and measure what arrives when."""

    def heal(self) -> None:
        """Remove every cut and every limit."""

    def passing_pairs(self, pairs: Iterable[Cut], timeout_s: float = 0.3) -> frozenset[Cut]:
        """Return those of `pairs` whose probe packet arrives within `timeout_s`.

        The packet is sent in the source's namespace to the target's, one direction each, all at once. A pair that
        does not pass takes the whole `timeout_s`.
        """

    def dropped_packets(self) -> Mapping[Cut, int]:
        """Return how many packets each cut in force has dropped so far."""


class Wire(Protocol):
    """Kafka-aware proxies between nodes and those they connect to."""

    def intercept(self, nodes: Mapping[int, str]) -> None:
        """Send all connections of these nodes through a proxy; call it before `prepare`.

        `nodes` maps ids to names and may contain CLIENTS.
        """

    def send(self, node_id: int, command: Command) -> None:
        """Send a command to the node's proxy.

        Raises `HarnessError` when the node has no proxy, or the proxy died.
        """

    def poll(self) -> list[tuple[int, WireEvent]]:
        """Return `(node, event)` for the events since the last call.

        Raises `HarnessError` when a proxy died.
        """


class Clocks(Protocol):
    """The wall clocks of nodes, as Kafka reads them."""

    is_enabled: bool

    def enable(self) -> None:
        """Let the nodes start with the agent that sets their clocks; call it before `prepare`."""

    def set(self, node_id: int, offset_ms: int) -> None:
        """Set the node's clock off the host's from now on; 0: it is right."""

    def returned_ms(self, node_id: int) -> int:
        """Return the time (Unix, in ms) that the node's clock returned last; 0: none yet."""


class ClientProcess(Protocol):
    """One started client process; `pid` is on this host."""

    pid: int

    def exit_status(self) -> int | None:
        """Return None while it runs, then its exit code or minus the signal that ended it."""

    def kill(self) -> int:
        """Send SIGKILL, wait until the process is reaped, and return its exit status.

        Nothing is sent when it has ended.
        """


class StartClient(Protocol):
    """Starts a client of a run, such as `Runtime.start_client` does."""

    def __call__(self, argv: Sequence[str], *, name: str, output: Path) -> ClientProcess:
        """Start `argv` as the client `name`, stdout and stderr appended to `output`."""


class Runtime(Protocol):
    """A cluster's processes, volumes and network, from `prepare` to `close`."""

    name: str
    nodes: Mapping[int, NodeInfo]
    power_loss_method: PowerLossMethod
    releases: NodeReleases
    warning: str | None
    """What users should know about the cluster, found by `prepare`."""

    @property
    def network(self) -> Network:
        """The network, on which cuts and limits are made."""

    @property
    def wire(self) -> Wire:
        """The wire proxies, which hold, delay, drop and duplicate requests."""

    @property
    def clocks(self) -> Clocks:
        """The nodes' clocks, which a step can set off."""

    def prepare(self) -> None:
        """Make namespaces and volumes and format them; starts nothing.

        Raises `HarnessError`, or `UsageError` for a property that Kafka does not accept.
        """

    def start(self, node_ids: Sequence[int]) -> None:
        """Start the processes of nodes that are down; returns once they run, ready or not."""

    def require_release(self, kafka: str) -> None:
        """Raise `HarnessError` if nodes cannot run `kafka` because this host lacks its jars, or its image."""

    def wait_ready(self, node_ids: Sequence[int], timeout_s: float) -> None:
        """Wait until each process answers and each broker is registered anew and unfenced.

        Controllers of a dynamic quorum are ready once one of them is active and the first voters are committed.

        Raises `HarnessError` with the end of its log when a process died, `UsageError` when it died because of a
        property in the scenario, `WaitExpired` otherwise.
        """

    def stop(self, node_id: int, timeout_s: float) -> None:
        """Stop the process cleanly (SIGTERM). Raises `WaitExpired` after `timeout_s`."""

    def kill(self, node_id: int) -> None:
        """Send SIGKILL, and wait until the process has ended."""

    def pause(self, node_id: int) -> None:
        """Send SIGSTOP."""

    def resume(self, node_id: int) -> None:
        """Send SIGCONT."""

    def pid(self, node_id: int) -> int | None:
        """Return the pid on this host of the node's JVM; None while it is down."""

    def exit_status(self, node_id: int) -> int | None:
        """Return how the node's last process ended; None while one runs.

        It is the exit code, or minus the signal.
        """

    def process_times(self, node_id: int) -> NodeTimes:
        """Return when the node's last process started, and when it ended if it did."""

    def lose_power(self, node_id: int) -> PowerLoss:
        """Send SIGKILL, then lose all that the node did not fsync; the node stays down."""

    def replace_disk(self, node_id: int, directory: int | None = None) -> DiskReplacement:
        """Send SIGKILL, then format new, empty disks; the node stays down.

        They are formatted for the same cluster. `directory`: only the disk of this log directory.
        """

    def volume(self, node_id: int, directory: int) -> Volume:
        """Return the volume of one of the node's log directories, which count from 1.

        Raises `HarnessError` where nodes have no volumes (power loss by truncate), or not this directory.
        """

    def slow_down(self, node_id: int, delay_s: float, period_s: float, directory: int) -> Pulses:
        """Freeze the volume of one log directory for `delay_s` of every `period_s`.

        Raises `HarnessError` as `volume` does.
        """

    def data_dirs(self, node_id: int) -> tuple[Path, ...]:
        """Return the node's log.dirs as this process sees them.

        Partition folders lie directly in them.
        """

    def data_dir(self, node_id: int) -> Path:
        """Return the first of the node's log.dirs, which also holds the metadata log."""

    def log_file(self, node_id: int) -> Path:
        """Return the node's own log, which restarts append to."""

    def start_client(
        self, argv: Sequence[str], *, name: str, output: Path, inherited: Sequence[int] = ()
    ) -> ClientProcess:
        """Start `argv` in the client namespace; it dies with the harness.

        stdout and stderr are appended to `output`. The program has the file descriptors `inherited` under the same
        numbers. Raises `HarnessError`. A program that cannot run shows in its exit status and output.
        """

    def bootstrap_servers(self) -> list[str]:
        """Return `host:port` of every broker, as clients reach them."""

    def controller_servers(self) -> list[str]:
        """Return `host:port` of every controller, as clients reach them."""

    def close(self) -> None:
        """Kill what runs and undo what was made outside the run folder.

        Never raises for what is already gone.
        """


class NodeProcess(Protocol):
    """A started JVM of a node; `pid` is on this host."""

    pid: int

    @property
    def times(self) -> NodeTimes:
        """When it started, and when it ended if that was seen."""

    def is_running(self) -> bool:
        """Whether the process has not ended yet."""

    def exit_status(self) -> int | None:
        """Return None while it runs, then its exit code or minus the signal that ended it."""

    def send(self, number: signal.Signals) -> None:
        """Send a signal; does nothing when the process has ended."""

    def wait(self, timeout_s: float) -> int:
        """Wait until the process has ended; returns its exit status. Raises `WaitExpired`."""

    def kill(self) -> object:
        """Send SIGKILL, and wait until the process has ended and is reaped."""
