"""Tries on this host, for real and in miniature, what a run will need.

Each trial uses the same code as a run and leaves nothing behind. It has a ledger of its own, so that `ebbtide clean`
also undoes what a killed trial left. A trial returns one line about what it saw, or raises `HarnessError`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from cluster.host.bridge import BridgeNetwork, address_of
from cluster.host.ledger import Ledger
from cluster.host.limits import burst_bytes
from cluster.host.namespaces import Cut, Namespace
from cluster.host.slow_volume import Pulses, Slowness, timed_write
from cluster.host.volumes import Volume
from cluster.wire.frames import LENGTH_BYTES, REQUEST_HEAD
from cluster.wire.messages import Arm, Rule
from cluster.wire.tap import Taps
from ebbtide.errors import HarnessError
from ebbtide.namespaces import call_in_namespace
from ebbtide.scenario.model import FileSystem
from ebbtide.scratch import DOCTOR, ScratchFolder

_RATE_BYTES_S = 32_000
_PORT = 39097
_REQUEST_API = 18
_EXT4_SIZE_BYTES = 16 << 20
_XFS_SIZE_BYTES = 300 << 20
"""The smallest size that mkfs.xfs accepts; the file is sparse."""


def make_namespace() -> str:
    """Make a network namespace and remove it again."""
    with _ledger() as ledger:
        namespace = Namespace(name=f"ebbtide-{ledger.run_id}")
        ledger.make(namespace, namespace.create)
    return "made and removed a namespace"


def cut_a_link() -> str:
    """Check that a one-way cut between two nodes on a bridge stops one direction only."""
    there, back = Cut(source=1, target=2), Cut(source=2, target=1)
    with _ledger() as ledger, _two_nodes(ledger) as (network, _):
        _expect(network.passing_pairs([there, back], timeout_s=2.0) == {there, back}, "no packet crosses the bridge")
        network.cut([there])
        _expect(
            network.passing_pairs([there, back]) == {back}, "a rule of the packet filter does not cut one direction"
        )
        dropped = network.dropped_packets()[there]
    return f"a one-way cut dropped {dropped} probe packets"


def limit_a_link() -> str:
    """Check that a limit slows one direction of a link to its rate, and not the other."""
    there, back = Cut(source=1, target=2), Cut(source=2, target=1)
    with _ledger() as ledger, _two_nodes(ledger) as (network, _):
        network.limit([there], _RATE_BYTES_S)
        seen = network.transfer([there, back], 3 * burst_bytes(_RATE_BYTES_S), timeout_s=1.0)
    slow, fast = seen[there], seen[back]
    allowed_bytes = burst_bytes(_RATE_BYTES_S) + 1.1 * _RATE_BYTES_S * slow.took_s
    _expect(slow.arrived_bytes <= allowed_bytes, "a bandwidth limit has no effect")
    _expect(fast.took_s < slow.took_s / 2, "a bandwidth limit of one direction slows the other direction")
    return f"{slow.arrived_bytes} bytes took {slow.took_s * 1000:.0f} ms one way, {fast.took_s * 1000:.1f} ms back"


def redirect_a_connection() -> str:
    """Check that a proxy in a node's namespace gets the node's connections.

    Neither end notices the proxy.
    """
    with (
        _ledger() as ledger,
        _scratch() as scratch,
        _two_nodes(ledger) as (_, namespaces),
    ):
        taps = Taps(ledger, ports=(_PORT,), logs=scratch)
        try:
            taps.intercept({1: "node-1"})
            taps.open(namespaces)
            taps.send(1, Arm(Rule(number=1, action="drop", api=_REQUEST_API)))
            far = (address_of(2), _PORT)
            with (
                call_in_namespace(namespaces[2], lambda: socket.create_server(far)),
                call_in_namespace(namespaces[1], lambda: socket.create_connection(far, timeout=3.0)) as near,
            ):
                near.sendall(REQUEST_HEAD.pack(REQUEST_HEAD.size - LENGTH_BYTES, _REQUEST_API, 0, 1))
                _expect(not near.recv(1), "a request that the proxy had to drop was answered")
            dropped = any(event.event == "dropped" for _, event in taps.poll())
        finally:
            taps.close()
    _expect(dropped, "the proxy did not see a request that a node sent")
    return "the proxy dropped a request"


def slow_a_disk() -> str:
    """Check that a volume can be frozen and thawed, and that a write waits meanwhile."""
    with _mounted_volume() as (volume, ledger):
        slowness = Slowness.of(volume)
        ledger.record(slowness)
        pulses = Pulses(slowness, delay_s=0.2, period_s=0.3)
        longest_s = 0.0
        try:
            _expect(pulses.wait_frozen(3.0), "the volume was not frozen")
            ends = time.monotonic() + 3.0
            while longest_s < 0.15 and time.monotonic() < ends and pulses.end_status() is None:
                longest_s = max(longest_s, timed_write(Path(volume.folder), timeout_s=5.0))
        finally:
            pulses.end()
        _expect(longest_s >= 0.15, "no write waited for a frozen volume")
    return f"a write waited {longest_s * 1000:.0f} ms"


def lose_power(kind: FileSystem) -> str:
    """Check that a file system shutdown keeps what was fsynced, and loses the rest."""
    with _mounted_volume(kind) as (volume, _):
        kept, lost = Path(volume.folder, "kept"), Path(volume.folder, "lost")
        _write(kept, fsync=True)
        _write(lost, fsync=False)
        _expect(volume.shut_down(), f"{kind} accepts writes after its shutdown")
        volume.unmount()
        volume.mount()
        _expect(kept.is_file() and kept.stat().st_size > 0, f"{kind} lost a file that was fsynced")
        _expect(not lost.is_file() or lost.stat().st_size == 0, f"{kind} kept a file that was not fsynced")
    return "a shutdown lost what was not fsynced, and only that"


def mount_loop() -> str:
    """Check that a file can be mounted as a file system."""
    with _mounted_volume() as (volume, _):
        _expect(volume.is_mounted(), "mount succeeded, but nothing is mounted")
    return "mounted and unmounted a volume"


@contextlib.contextmanager
def _mounted_volume(kind: FileSystem = "ext4") -> Iterator[tuple[Volume, Ledger]]:
    """Make a volume, which is mounted during the block, and a ledger that has it."""
    with _scratch() as scratch, _ledger() as ledger:
        volume = Volume.at(scratch / "image", scratch / "volume", kind)
        volume.create(_EXT4_SIZE_BYTES if kind == "ext4" else _XFS_SIZE_BYTES)
        ledger.make(volume, volume.mount)
        yield volume, ledger


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """Yield a temporary folder, which `ebbtide clean` removes if this process is killed."""
    scratch = ScratchFolder(DOCTOR)
    try:
        yield scratch.path
    finally:
        scratch.remove()


def _ledger() -> Ledger:
    return Ledger.open(f"doctor-{os.getpid()}", Path.cwd())


@contextlib.contextmanager
def _two_nodes(ledger: Ledger) -> Iterator[tuple[BridgeNetwork, dict[int, Path]]]:
    """Yield a bridge with nodes 1 and 2, and the paths of their namespaces."""
    network = BridgeNetwork(ledger)
    try:
        network.open()
        yield network, {node: network.add_namespace(node) for node in (1, 2)}
    finally:
        network.close()


def _write(path: Path, *, fsync: bool) -> None:
    with path.open("wb") as file:
        file.write(b"ebbtide" * 1000)
        if fsync:
            os.fsync(file.fileno())


def _expect(seen: bool, error: str) -> None:
    if not seen:
        raise HarnessError(error)
