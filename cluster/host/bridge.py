"""The network of a cluster: a switch in a network namespace of its own.

Each node has a port on the switch, and one namespace holds all the clients. The switch is not on the host's network:
a running dockerd drops what host bridges forward, and nothing of a cluster may be reachable from outside. The
addresses can therefore be the same in every run.

Probes show what the network does. A probe is one datagram with a fresh token, or many to measure a rate. The sockets
are opened once inside the nodes' namespaces and used from outside: a paused or dead broker does not look like a cut.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.host.cuts import CutRules
from cluster.host.ledger import Ledger
from cluster.host.limits import Limits
from cluster.host.namespaces import Cut, LimitCounts, Namespace, Transfer
from ebbtide.errors import HarnessError
from ebbtide.namespaces import call_in_namespace
from ebbtide.scenario.words import CLIENTS

if TYPE_CHECKING:
    from pyroute2 import IPRoute

PORT = 39099
"""A UDP port in the nodes' own namespaces; no Kafka listener uses it."""

_RESEND_S = 0.05
_TOKEN_BYTES = 16
_DATAGRAM_BYTES = 1200


class Probes:
    """One probe socket for each node; `address_of` maps a node id to its address."""

    def __init__(self, address_of: Callable[[int], str]) -> None:
        self._address_of = address_of
        self._sockets: dict[int, socket.socket] = {}
        self._lock = threading.Lock()

    def open(self, node_id: int, namespace: Path) -> None:
        """Open the node's probe socket in its namespace, in place of an earlier socket."""

        def open_socket() -> socket.socket:
            probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            probe.bind((self._address_of(node_id), PORT))
            probe.setblocking(False)
            return probe

        with self._lock:
            old = self._sockets.pop(node_id, None)
            if old is not None:
                old.close()
            self._sockets[node_id] = call_in_namespace(namespace, open_socket)

    def close(self) -> None:
        """Close every socket: an open socket would keep its namespace alive."""
        with self._lock:
            for probe in self._sockets.values():
                probe.close()
            self._sockets.clear()

    def passing_pairs(self, pairs: Iterable[Cut], timeout_s: float) -> frozenset[Cut]:
        """Return those of `pairs` whose packets arrive within `timeout_s`.

        Packets are sent again meanwhile, against chance loss.
        """
        with self._lock, selectors.DefaultSelector() as selector:
            for probe in self._sockets.values():
                selector.register(probe, selectors.EVENT_READ)
            waiting = {os.urandom(_TOKEN_BYTES): pair for pair in sorted(set(pairs))}
            passed: set[Cut] = set()
            deadline = time.monotonic() + timeout_s
            while waiting and (left := deadline - time.monotonic()) > 0:
                for token, pair in waiting.items():
                    self._send(token, pair)
                resend_at = time.monotonic() + min(_RESEND_S, left)
                while waiting and (left := resend_at - time.monotonic()) > 0:
                    for key, _ in selector.select(left):
                        arrived = self._receive(key.fileobj)
                        pair_arrived = waiting.pop(arrived, None)
                        if pair_arrived is not None:
                            passed.add(pair_arrived)
            return frozenset(passed)

    def transfer(self, pairs: Iterable[Cut], size_bytes: int, timeout_s: float) -> Mapping[Cut, Transfer]:
        """Send `size_bytes` over each of `pairs` in turn, and measure what arrives when."""
        return {pair: self._transfer(pair, size_bytes, timeout_s) for pair in sorted(set(pairs))}

    def _transfer(self, pair: Cut, size_bytes: int, timeout_s: float) -> Transfer:
        token = os.urandom(_TOKEN_BYTES)
        datagram = token.ljust(_DATAGRAM_BYTES, b"\0")
        left = datagrams = -(-size_bytes // _DATAGRAM_BYTES)
        with self._lock, selectors.DefaultSelector() as selector:
            selector.register(self._sockets[pair.target], selectors.EVENT_READ)
            began = time.monotonic()
            for _ in range(datagrams):
                self._send(datagram, pair)
                # Read at once: a full receive buffer would drop what the network let pass.
                left -= self._receive(self._sockets[pair.target]) == token
            while left and (rest := began + timeout_s - time.monotonic()) > 0:
                for key, _ in selector.select(rest):
                    left -= self._receive(key.fileobj) == token
            took_s = time.monotonic() - began
        arrived_bytes = (datagrams - left) * _DATAGRAM_BYTES
        return Transfer(arrived_bytes=arrived_bytes, took_s=took_s)

    def _send(self, content: bytes, pair: Cut) -> None:
        try:
            self._sockets[pair.source].sendto(content, (self._address_of(pair.target), PORT))
        except OSError:
            # A full queue or an unreachable neighbour: the packet did not pass, which is the answer.
            return

    @staticmethod
    def _receive(probe: object) -> bytes:
        assert isinstance(probe, socket.socket)
        try:
            return probe.recv(_DATAGRAM_BYTES)[:_TOKEN_BYTES]
        except OSError:
            return b""


_PREFIX_LENGTH = 24
_BRIDGE = "br0"
_PORT = "eth0"
_LOOPBACK = 1

_NAMESPACE_SETTINGS = {
    # IPv4 only: IPv6 would chat (neighbour discovery, DAD) through the switch.
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6"): "1",
    # TCP doubles its retransmission pause as long as a cut lasts, so that after a heal a connection may stay
    # silent for as long again. Kernels from 6.15 on can cap the pause; a second is the lowest cap that they accept.
    Path("/proc/sys/net/ipv4/tcp_rto_max_ms"): "1000",
}
"""Settings of each namespace; a setting that the kernel does not have is skipped."""


def address_of(node_id: int) -> str:
    """Return the address of a node: 10.99.0.1 for broker 1, 10.99.0.254 for clients.

    Controller 100 is 10.99.0.100. Raises `HarnessError` for an id above 253.
    """
    if not 0 <= node_id <= 253:
        raise HarnessError("a node with this id cannot have an address", got=f"id {node_id}", allowed="1 to 253")
    return f"10.99.0.{254 if node_id == CLIENTS else node_id}"


def _port_of(node_id: int) -> str:
    """Return the name of a node's port on the switch."""
    return f"n{node_id}"


class BridgeNetwork:
    """The network of one run, from `open` to `close`: cuts and limits between nodes. A cut drops packets silently.

    The ledger undoes the namespaces; `close` only releases them.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._switch = Namespace(name=f"ebbtide-{ledger.run_id}-switch")
        self._rules = CutRules(self._switch.path, address_of)
        self._limits = Limits(self._switch.path, address_of, _port_of)
        self._probes = Probes(address_of)

    def open(self) -> None:
        """Make the switch. Raises `HarnessError` without privileges or for a taken name."""
        self._make(self._switch)

        def build(routes: IPRoute) -> None:
            routes.link("add", ifname=_BRIDGE, kind="bridge")
            routes.link("set", index=routes.link_lookup(ifname=_BRIDGE)[0], state="up")

        self._configure(self._switch.path, build)
        self._rules.install()

    def add_namespace(self, node_id: int) -> Path:
        """Make a namespace for a node and plug it in; returns the path that enters it."""
        label = "clients" if node_id == CLIENTS else str(node_id)
        namespace = Namespace(name=f"ebbtide-{self._ledger.run_id}-{label}")
        self._make(namespace)
        self.attach(node_id, namespace.path)
        return namespace.path

    def attach(self, node_id: int, namespace: Path) -> None:
        """Plug the network namespace at `namespace` in as node `node_id`.

        It replaces an earlier namespace of the node. The cable (a veth pair) is made inside the switch's namespace
        with its far end in the node's. It never shows on the host, and it goes when either end goes.
        """
        cable = _port_of(node_id)
        # Always the same: after a node's namespace was replaced, the others use the old MAC until the node speaks.
        mac = f"02:eb:bd:00:00:{node_id:02x}"
        far_end = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)

        def plug(routes: IPRoute) -> None:
            for old in routes.link_lookup(ifname=cable):
                routes.link("del", index=old)
            routes.link("add", ifname=cable, kind="veth", peer={"ifname": _PORT, "net_ns_fd": far_end, "address": mac})
            bridge = routes.link_lookup(ifname=_BRIDGE)[0]
            routes.link("set", index=routes.link_lookup(ifname=cable)[0], master=bridge, state="up")

        def address(routes: IPRoute) -> None:
            port = routes.link_lookup(ifname=_PORT)[0]
            routes.addr("add", index=port, address=address_of(node_id), prefixlen=_PREFIX_LENGTH)
            routes.link("set", index=port, state="up")
            routes.link("set", index=_LOOPBACK, state="up")

        try:
            self._configure(self._switch.path, plug)
        finally:
            os.close(far_end)
        self._configure(namespace, address)
        self._limits.apply([node_id])
        self._probes.open(node_id, namespace)

    def close(self) -> None:
        """Release the namespaces, so that removing them frees them. Idempotent."""
        self._probes.close()

    def cut(self, cuts: Iterable[Cut]) -> None:
        """Add `cuts` to the cuts in force."""
        self._rules.add(cuts)

    def limit(self, pairs: Collection[Cut], rate_bytes_s: int) -> None:
        """Limit each of `pairs` (one direction) to `rate_bytes_s`. Raises `HarnessError`."""
        self._limits.add(pairs, rate_bytes_s)

    def limit_counts(self) -> Mapping[Cut, LimitCounts]:
        """Return what the kernel counts for each pair that is limited now."""
        return self._limits.read_counts()

    def transfer(self, pairs: Iterable[Cut], size_bytes: int, timeout_s: float) -> Mapping[Cut, Transfer]:
        """Send `size_bytes` over each of `pairs` in turn, and measure what arrives when."""
        return self._probes.transfer(pairs, size_bytes, timeout_s)

    def heal(self) -> None:
        """Remove every cut and every limit."""
        self._rules.clear()
        self._limits.clear()

    def passing_pairs(self, pairs: Iterable[Cut], timeout_s: float = 0.3) -> frozenset[Cut]:
        """Return those of `pairs` whose probe packet arrives within `timeout_s`.

        The packet is sent in the source's namespace to the target's, one direction each, all at once. A pair that
        does not pass takes the whole `timeout_s`.
        """
        return self._probes.passing_pairs(pairs, timeout_s)

    def dropped_packets(self) -> Mapping[Cut, int]:
        """Return how many packets each cut in force has dropped so far."""
        return self._rules.dropped_packets()

    def _make(self, namespace: Namespace) -> None:
        namespace.check_free()
        with _needs_root():
            self._ledger.make(namespace, namespace.create)

    @staticmethod
    def _configure(namespace: Path, change: Callable[[IPRoute], None]) -> None:
        # Imported here: commands that build no network need not pay for it.
        from pyroute2 import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError

        def apply_changes() -> None:
            for setting, value in _NAMESPACE_SETTINGS.items():
                if setting.exists():
                    setting.write_text(value)
            with IPRoute() as routes:
                change(routes)

        with _needs_root():
            try:
                call_in_namespace(namespace, apply_changes)
            except NetlinkError as error:
                raise HarnessError("cannot build the network", where=str(namespace), got=str(error)) from None


@contextlib.contextmanager
def _needs_root() -> Iterator[None]:
    """Turn the kernel's refusal into a `HarnessError` that says what is needed."""
    try:
        yield
    except PermissionError as error:
        raise HarnessError(
            "making a cluster's network needs root",
            got=error.strerror or str(error),
            next="sudo, or a container with CAP_SYS_ADMIN and CAP_NET_ADMIN",
        ) from None
