"""The wire proxy in real namespaces: what is redirected to it, what is not, and what becomes of it."""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.host.bridge import BridgeNetwork, address_of
from cluster.host.ledger import Ledger
from cluster.host.processes import OwnedProcess
from cluster.wire.messages import Arm, Release, Rule
from cluster.wire.tap import Taps
from ebbtide.errors import HarnessError
from ebbtide.namespaces import call_in_namespace
from ebbtide.waiting import wait_until

pytestmark = pytest.mark.root

NODE, PEER = 1, 2
PORT, OTHER_PORT = 9092, 9999
REQUEST = struct.pack(">ihhi", 12, 56, 2, 7) + b"body"
HOLD = Arm(Rule(number=1, action="hold", api=56, peers=(address_of(PEER),)))


class Bench:
    """A node with a proxy and a peer without one, on a switch."""

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self.ledger = ledger
        self.network = BridgeNetwork(ledger)
        self.network.open()
        self.namespaces = {id: self.network.add_namespace(id) for id in (NODE, PEER)}
        self.taps = Taps(ledger, ports=(PORT,), logs=folder)
        self.taps.intercept({NODE: "broker-1"})
        self.taps.open(self.namespaces)
        self._sockets: list[socket.socket] = []

    def listen(self, node: int, port: int) -> socket.socket:
        return self._keep_open(
            call_in_namespace(self.namespaces[node], lambda: socket.create_server((address_of(node), port)))
        )

    def connect(self, source: int, target: int, port: int) -> socket.socket:
        def open_connection() -> socket.socket:
            return socket.create_connection((address_of(target), port), timeout=30)

        return self._keep_open(call_in_namespace(self.namespaces[source], open_connection))

    def accept(self, listener: socket.socket) -> socket.socket:
        listener.settimeout(30)
        end, _ = listener.accept()
        end.settimeout(30)
        return self._keep_open(end)

    def await_event(self, what: str) -> None:
        wait_until(lambda: any(event.event == what for _, event in self.taps.poll()), awaited=what, timeout_s=60)

    def close(self) -> None:
        for one in self._sockets:
            one.close()
        self.taps.close()
        self.network.close()

    def _keep_open(self, one: socket.socket) -> socket.socket:
        self._sockets.append(one)
        return one


@pytest.fixture
def bench(ledger: Ledger, tmp_path: Path) -> Iterator[Bench]:
    one = Bench(ledger, tmp_path)
    yield one
    one.close()


def _await_hold(bench: Bench, far: socket.socket) -> None:
    bench.await_event("held")
    far.settimeout(0.2)
    with pytest.raises(TimeoutError):
        far.recv(1)
    far.settimeout(30)


def test_a_connection_to_a_peer_passes_the_proxy_and_comes_from_the_nodes_own_address(bench: Bench) -> None:
    bench.taps.send(NODE, HOLD)
    bench.await_event("armed")
    listener = bench.listen(PEER, PORT)
    near = bench.connect(NODE, PEER, PORT)
    assert near.getpeername() == (address_of(PEER), PORT)
    far = bench.accept(listener)
    assert far.getpeername()[0] == address_of(NODE)
    near.sendall(REQUEST)
    _await_hold(bench, far)
    bench.taps.send(NODE, Release(1))
    assert far.recv(64) == REQUEST


@pytest.mark.parametrize(
    ("source", "target", "port"), [(NODE, NODE, PORT), (NODE, PEER, OTHER_PORT), (PEER, NODE, PORT)]
)
def test_other_connections_pass_it_by(bench: Bench, source: int, target: int, port: int) -> None:
    bench.taps.send(NODE, Arm(Rule(number=1, action="hold", api=56)))
    bench.await_event("armed")
    listener = bench.listen(target, port)
    near = bench.connect(source, target, port)
    far = bench.accept(listener)
    near.sendall(REQUEST)
    assert far.recv(64) == REQUEST


def test_a_new_namespace_gets_a_new_proxy_with_the_rules_that_are_in_force(bench: Bench) -> None:
    bench.taps.send(NODE, HOLD)
    bench.await_event("armed")
    before = _proxies(bench.ledger)
    bench.taps.open(bench.namespaces)
    assert _proxies(bench.ledger) == before
    bench.namespaces[NODE] = bench.network.add_namespace(3)
    bench.taps.open({NODE: bench.namespaces[NODE]})
    assert len(_proxies(bench.ledger)) == 1
    assert _proxies(bench.ledger) != before
    bench.await_event("armed")
    listener = bench.listen(PEER, PORT)
    near = bench.connect(NODE, PEER, PORT)
    near.sendall(REQUEST)
    _await_hold(bench, bench.accept(listener))


def test_a_proxy_that_dies_is_an_error_that_names_it(bench: Bench) -> None:
    (pid,) = _proxies(bench.ledger)
    os.kill(pid, signal.SIGKILL)

    def is_reported() -> bool:
        try:
            bench.taps.poll()
        except HarnessError as error:
            return "proxy wire-broker-1 ended by itself" in str(error)
        return False

    wait_until(is_reported, awaited="the error", timeout_s=60)


def _proxies(ledger: Ledger) -> set[int]:
    return {entry.process.pid for entry in ledger.entries() if isinstance(entry, OwnedProcess)}
