"""The interface of a runtime: what faults, workloads and the runner may ask of the place where nodes live.

Faults act on a node's pid, network namespace and volume only, so that every fault works the same on every
runtime.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from cluster.host.links import Cut, LimitCounts, Transfer
from cluster.host.slow_volume import Pulses
from cluster.host.volumes import Volume
from cluster.wire.messages import Command, WireEvent
from ebbtide.scenario.model import NodeRole

PowerLossMethod = Literal["fs-shutdown", "truncate"]


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the cluster. `name` is `broker-1` or `controller-100`."""

    id: int
    role: NodeRole
    name: str
    address: str


class LogLoss(msgspec.Struct, frozen=True, kw_only=True):
    """What a power loss did to one partition's log: bytes and log end offsets (LEO) before and after.

    `lost_bytes` of the content before did not come back; more than the difference of the sizes where a tail
    came back as zeros.
    """

    bytes_before: int
    bytes_after: int
    lost_bytes: int
    leo_before: int
    leo_after: int


class PowerLoss(msgspec.Struct, frozen=True, kw_only=True):
    """What a power loss did to one node's volume; `logs` is keyed `topic-partition`.

    `volume_down`: a probe saw the volume refuse a write before it was unmounted. `unsynced_there`: a file written when
    the node started, and never fsynced, was on it before; `unsynced_gone`: it is not any more. By truncate every log
    but the metadata log was cut back to its recovery point; no volume was asked, and all three are true.
    `lost_bytes` is the sum over `logs`.
    """

    method: PowerLossMethod
    volume_down: bool
    unsynced_there: bool
    unsynced_gone: bool
    lost_bytes: int
    logs: dict[str, LogLoss]


class DiskReplacement(msgspec.Struct, frozen=True, kw_only=True):
    """What a replaced disk took: every log of the node, keyed `topic-partition`, all of it.

    `left` are the partition folders that are there before the node starts again (none, if the disk is new);
    the cluster ids are those of meta.properties on the old and on the new disk.
    """

    lost_bytes: int
    logs: dict[str, LogLoss]
    left: tuple[str, ...]
    cluster_id_before: str | None
    cluster_id: str | None


class Network(Protocol):
    """Cuts between nodes, and limits; a cut drops packets silently, as a broken switch does."""

    def cut(self, cuts: Iterable[Cut]) -> None:
        """Add cuts to those in force."""

    def limit(self, pairs: Collection[Cut], rate_bytes_s: int) -> None:
        """Let no more than that pass each of `pairs`, one direction each. Raises `HarnessError`."""

    def limit_counts(self) -> Mapping[Cut, LimitCounts]:
        """The pairs that are limited now, as the kernel says."""

    def transfer(self, pairs: Iterable[Cut], size_bytes: int, timeout_s: float) -> Mapping[Cut, Transfer]:
        """Send `size_bytes` over each of `pairs` at once, and see what arrives when."""

    def heal(self) -> None:
        """Remove every cut and every limit."""

    def passing_pairs(self, pairs: Iterable[Cut], timeout_s: float = 0.3) -> frozenset[Cut]:
        """Those of `pairs` whose probe packet, sent in the source's namespace, arrives in the target's.

        One direction each, all at once; a pair that does not pass takes the whole `timeout_s`.
        """

    def dropped_packets(self) -> Mapping[Cut, int]:
        """Packets dropped so far, by cut in force."""


class Wire(Protocol):
    """Kafka-aware proxies between nodes and those they connect to."""

    def intercept(self, nodes: Mapping[int, str]) -> None:
        """Have all connections of these nodes (id to name; CLIENTS too) pass a proxy; called before `prepare`."""

    def send(self, node_id: int, command: Command) -> None:
        """Tell the node's proxy. Raises `HarnessError` when there is none, or it died."""

    def poll(self) -> list[tuple[int, WireEvent]]:
        """What happened at which node since the last call. Raises `HarnessError` when a proxy died."""


class ClientProcess(Protocol):
    """One started client process; `pid` is on this host."""

    pid: int

    def exit_status(self) -> int | None:
        """None while it runs; then its exit code, or minus the signal that ended it."""

    def kill(self) -> int:
        """SIGKILL, and wait until it is reaped; its exit status. Nothing is sent when it is gone."""


class StartClient(Protocol):
    """The shape of `Runtime.start_client`, for what needs no more of a runtime."""

    def __call__(self, argv: Sequence[str], *, name: str, output: Path) -> ClientProcess:
        """Start `argv` as the client `name`, stdout and stderr appended to `output`."""


class Runtime(Protocol):
    """A cluster's processes, volumes and network, from `prepare` to `close`."""

    name: str
    nodes: Mapping[int, NodeInfo]
    power_loss_method: PowerLossMethod

    @property
    def network(self) -> Network:
        """Where cuts are made."""

    @property
    def wire(self) -> Wire:
        """Where requests are held, delayed and dropped."""

    def prepare(self) -> None:
        """Make namespaces and volumes and format them; starts nothing.

        Raises `HarnessError`, or `UsageError` for a property that Kafka does not take.
        """

    def start(self, node_ids: Sequence[int]) -> None:
        """Start the processes of nodes that are down; returns once they run, ready or not."""

    def wait_ready(self, node_ids: Sequence[int], timeout_s: float) -> None:
        """Wait until each process runs and answers, and each broker is registered anew and unfenced.

        Raises `HarnessError` with the end of its log when a process died, `UsageError` when it died of a property of
        the scenario's, `WaitExpired` otherwise.
        """

    def stop(self, node_id: int, timeout_s: float) -> None:
        """Clean stop (SIGTERM); raises `WaitExpired` when the process outlives `timeout_s`."""

    def kill(self, node_id: int) -> None:
        """SIGKILL, and wait until the process is gone."""

    def pause(self, node_id: int) -> None:
        """SIGSTOP."""

    def resume(self, node_id: int) -> None:
        """SIGCONT."""

    def pid(self, node_id: int) -> int | None:
        """The pid on this host of the node's JVM; None while it is down."""

    def exit_status(self, node_id: int) -> int | None:
        """How the node's last process ended: its exit code, or minus the signal; None while one runs."""

    def lose_power(self, node_id: int) -> PowerLoss:
        """SIGKILL, then everything the node did not fsync is gone; the node stays down."""

    def replace_disk(self, node_id: int) -> DiskReplacement:
        """SIGKILL, then a new, empty disk, formatted for the same cluster; the node stays down."""

    def volume(self, node_id: int) -> Volume:
        """The node's volume. Raises `HarnessError` where nodes have none (power loss by truncate)."""

    def slow_down(self, node_id: int, delay_s: float, period_s: float) -> Pulses:
        """Freeze the node's volume for `delay_s` of every `period_s`. Raises `HarnessError` as `volume` does."""

    def data_dir(self, node_id: int) -> Path:
        """The node's log.dirs folder as this process sees it (partition folders lie directly in it)."""

    def log_file(self, node_id: int) -> Path:
        """The node's own log, appended over restarts."""

    def start_client(self, argv: Sequence[str], *, name: str, output: Path) -> ClientProcess:
        """Start `argv` in the client namespace, stdout and stderr appended to `output`; it dies with the harness.

        Raises `HarnessError`. That the program itself cannot run shows in its exit status and output.
        """

    def bootstrap_servers(self) -> list[str]:
        """`host:port` of every broker, as clients reach them."""

    def close(self) -> None:
        """Kill what runs and undo everything made outside the run folder; never raises for what is gone."""
