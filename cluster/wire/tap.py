"""The harness's side of the wire proxies: starts one in a node's namespace.

A proxy starts before the node's process. The packet filter redirects every connection from the namespace to a broker
or controller elsewhere; Kafka is configured as always. The proxy is a child of the harness and ends with it; the
filter's rules end with the namespace.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from cluster.host.children import Child, start_child
from cluster.host.cuts import nft
from cluster.host.ledger import Ledger
from cluster.wire.messages import CONTROL, Arm, Command, Release, Rule, WireEvent
from ebbtide import run_clock
from ebbtide.command import module_command
from ebbtide.errors import HarnessError
from ebbtide.namespaces import call_in_namespace
from ebbtide.waiting import wait_until

PORT = 39098
"""A TCP port on loopback in the node's own namespace."""

MARK = 0x65626264
READY_TIMEOUT_S = 15.0

_TABLE = "ip ebbtide_wire"
_NEEDS = "a kernel with nf_tables and its redirect (NFT_REDIR), and root"
_MATCHES = ("held", "dropped", "duplicated")

_events = msgspec.json.Decoder(WireEvent)


class Tap:
    """One proxy in the namespace at `namespace`.

    `inode` distinguishes the namespace from a later one at the same path.
    """

    def __init__(self, ledger: Ledger, name: str, namespace: Path, output: Path) -> None:
        """Start the process. Raises `HarnessError`."""
        self.inode = namespace.stat().st_ino
        self._namespace = namespace
        self._output = output
        self._in = b""
        self._control: socket.socket | None = None
        argv = [*module_command("cluster.wire.program"), "--port", str(PORT), "--mark", str(MARK)]
        argv += ["--clock-base", str(run_clock.base_ns())]
        self._child: Child = start_child(ledger, argv, name=name, output=output, namespace=namespace)

    def redirect(self, ports: Collection[int]) -> None:
        """Wait for the proxy, then redirect new connections to `ports` of other hosts.

        Raises `HarnessError` when the proxy died or the packet filter refuses, `WaitExpired` when it does not listen
        in time.
        """
        self._control = wait_until(
            self._connect, awaited=f"{self._child.name} to listen", timeout_s=READY_TIMEOUT_S, poll_s=0.01
        )
        wanted = ", ".join(map(str, sorted(ports)))
        script = (
            f"add table {_TABLE}\n"
            f"add chain {_TABLE} out {{ type nat hook output priority -100; }}\n"
            f"add rule {_TABLE} out meta mark {MARK:#x} return\n"
            f"add rule {_TABLE} out oifname lo return\n"
            f"add rule {_TABLE} out tcp dport {{ {wanted} }} redirect to :{PORT}\n"
        )
        nft(self._namespace, ["-f", "-"], script, needs=_NEEDS)

    def send(self, command: Command) -> None:
        """Send a command to the proxy. Raises `HarnessError` when the proxy died."""
        assert self._control is not None, "redirect comes first"
        self._child.check(str(self._output.parent), self._output)
        with contextlib.suppress(ConnectionError):
            self._control.sendall(msgspec.json.encode(command) + b"\n")

    def poll(self) -> list[WireEvent]:
        """Return the events since the last call. Raises `HarnessError` if the proxy died."""
        assert self._control is not None, "redirect comes first"
        events: list[WireEvent] = []
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while chunk := self._control.recv(1 << 16, socket.MSG_DONTWAIT):
                *lines, self._in = (self._in + chunk).split(b"\n")
                events += [_events.decode(line) for line in lines]
        if not events:
            self._child.check(str(self._output.parent), self._output)
        return events

    def close(self) -> None:
        """End the proxy, and every connection through it. Never raises if it is gone."""
        if self._control is not None:
            self._control.close()
        self._child.kill()

    def _connect(self) -> socket.socket | None:
        self._child.check(str(self._output.parent), self._output)

        def connect() -> socket.socket:
            control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                control.connect(CONTROL)
            except OSError:
                control.close()
                raise
            return control

        try:
            return call_in_namespace(self._namespace, connect)
        except ConnectionRefusedError:
            return None


class Taps:
    """The proxies of a run between nodes and those they connect to, at most one for each node.

    A proxy lasts as long as its node's namespace. A node that gets a new namespace gets a new proxy, with the rules
    in force.
    """

    def __init__(self, ledger: Ledger, *, ports: Collection[int], logs: Path) -> None:
        self._ledger = ledger
        self._ports = ports
        self._logs = logs
        self._wanted: dict[int, str] = {}
        self._taps: dict[int, Tap] = {}
        self._rules: dict[int, dict[int, Rule]] = {}
        self._unread: list[tuple[int, WireEvent]] = []

    def intercept(self, nodes: Mapping[int, str]) -> None:
        """Send all connections of these nodes through a proxy; call it before the namespaces exist.

        `nodes` maps ids to names and may contain CLIENTS.
        """
        self._wanted.update(nodes)

    def open(self, namespaces: Mapping[int, Path]) -> None:
        """Start the requested proxies in these namespaces. Raises `HarnessError`."""
        new: dict[int, Tap] = {}
        for node_id, namespace in namespaces.items():
            old = self._taps.get(node_id)
            if node_id not in self._wanted or (old is not None and old.inode == namespace.stat().st_ino):
                continue
            if old is not None:
                self._unread += self._read(node_id)
                self._taps.pop(node_id).close()
            name = f"wire-{self._wanted[node_id]}"
            new[node_id] = Tap(self._ledger, f"proxy {name}", namespace, self._logs / f"{name}.log")
            self._taps[node_id] = new[node_id]
        for node_id, tap in new.items():
            tap.redirect(self._ports)
            for rule in self._rules.get(node_id, {}).values():
                tap.send(Arm(rule))

    def send(self, node_id: int, command: Command) -> None:
        """Send a command to the node's proxy.

        Raises `HarnessError` when the node has no proxy, or the proxy died.
        """
        if node_id not in self._taps:
            raise HarnessError("this node has no wire proxy", got=f"node {node_id}")
        rules = self._rules.setdefault(node_id, {})
        if isinstance(command, Release):
            rules.pop(command.number, None)
        else:
            rules[command.rule.number] = command.rule
        self._taps[node_id].send(command)

    def poll(self) -> list[tuple[int, WireEvent]]:
        """Return `(node, event)` for the events since the last call.

        Raises `HarnessError` when a proxy died.
        """
        events, self._unread = self._unread, []
        for node_id in self._taps:
            events += self._read(node_id)
        return events

    def close(self) -> None:
        """End the proxies. Idempotent."""
        for tap in self._taps.values():
            tap.close()
        self._taps.clear()

    def _read(self, node_id: int) -> list[tuple[int, WireEvent]]:
        events = self._taps[node_id].poll()
        rules = self._rules.get(node_id, {})
        for event in events:
            rule = rules.get(event.rule)
            # Count down `times`, so that the node's next proxy continues where this one stopped.
            if event.event in _MATCHES and rule is not None and rule.times is not None:
                rules[rule.number] = msgspec.structs.replace(rule, times=rule.times - 1)
        return [(node_id, event) for event in events]
