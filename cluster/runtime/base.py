"""What a runtime is made of, says of its nodes, and has as processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from cluster.host.host_ports import HostPorts
from cluster.host.ledger import Ledger
from ebbtide import run_clock
from ebbtide.record.manifest import NodeRelease
from ebbtide.record.node_times import NodeTimes, Span
from ebbtide.releases.builds import number_of
from ebbtide.scenario.model import ClusterSpec, NodeRole

PowerLossMethod = Literal["fs-shutdown", "truncate"]


class RuntimeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster of one run, whose nodes begin with release `kafka`.

    - `folder`: the run's folder.
    - `ledger`: is closed with the runtime.
    - `hold_write_back`: False: the kernel writes pages back.
    - `host_ports`: lead from the host to its brokers.
    """

    spec: ClusterSpec
    kafka: str
    folder: Path
    ledger: Ledger
    power_loss_method: PowerLossMethod = "fs-shutdown"
    hold_write_back: bool = True
    host_ports: HostPorts | None = None


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
    """Starts a client of a run, as `Runtime.start_client` does."""

    def __call__(self, argv: Sequence[str], *, name: str, output: Path) -> ClientProcess:
        """Start `argv` as the client `name`, stdout and stderr appended to `output`."""


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


Follow = Callable[[Mapping[int, Sequence[NodeRelease]]], None]
"""Called with the releases of every node."""


class NodeReleases:
    """The release of each node; every node begins with the cluster's."""

    def __init__(self, node_ids: Iterable[int], kafka: str) -> None:
        self._installed = dict.fromkeys(node_ids, kafka)
        self._started: dict[int, list[NodeRelease]] = {}
        self._follow: Follow | None = None

    def __getitem__(self, node_id: int) -> str:
        """The release that the node runs, or that its next start will run."""
        return self._installed[node_id]

    def install(self, node_id: int, kafka: str) -> None:
        """Let the node's next start run `kafka`, which `Runtime.require_release` has accepted."""
        self._installed[node_id] = kafka

    def follow(self, follow: Follow) -> None:
        """Call `follow` right before a node starts on another release than it ran before."""
        self._follow = follow

    def note_start(self, node_id: int) -> int:
        """Note that the node starts now; returns the time in nanoseconds."""
        now_ns = run_clock.now_ns()
        kafka, earlier = number_of(self._installed[node_id]), self._started.setdefault(node_id, [])
        if not (earlier and earlier[-1].kafka == kafka):
            earlier.append(NodeRelease(kafka=kafka, started_ns=now_ns))
            if earlier[1:] and self._follow is not None:
                self._follow(self._started)
        return now_ns
