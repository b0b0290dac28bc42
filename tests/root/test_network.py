"""The switch, the cuts and the probes, with real namespaces and packets."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from cluster.host.bridge import BridgeNetwork, address_of
from cluster.host.ledger import Ledger
from cluster.host.namespaces import Cut, Namespace
from ebbtide.errors import HarnessError
from ebbtide.namespaces import call_in_namespace, netns_prefix
from ebbtide.scenario.words import CLIENTS

pytestmark = pytest.mark.root

NODES = (CLIENTS, 1, 2)
ALL = frozenset(Cut(source=source, target=target) for source, target in permutations(NODES, 2))


@pytest.fixture
def paths() -> dict[int, Path]:
    return {}


@pytest.fixture
def network(ledger: Ledger, paths: dict[int, Path]) -> Iterator[BridgeNetwork]:
    built = BridgeNetwork(ledger)
    built.open()
    for node in NODES:
        paths[node] = built.add_namespace(node)
    yield built
    built.close()


def _cut(source: int, target: int) -> Cut:
    return Cut(source=source, target=target)


def test_packets_pass_between_all_nodes(network: BridgeNetwork) -> None:
    assert network.passing_pairs(ALL, 2.0) == ALL


def test_a_cut_drops_one_direction_only(network: BridgeNetwork) -> None:
    network.cut([_cut(1, 2)])
    assert network.passing_pairs([_cut(1, 2)]) == frozenset()
    assert network.passing_pairs(ALL - {_cut(1, 2)}, 2.0) == ALL - {_cut(1, 2)}


def test_cuts_add_up_and_a_heal_removes_them_all(network: BridgeNetwork) -> None:
    network.cut([_cut(1, 2)])
    network.cut([_cut(1, 2), _cut(2, 1)])
    assert network.passing_pairs([_cut(1, 2), _cut(2, 1)]) == frozenset()
    network.heal()
    assert network.passing_pairs(ALL, 2.0) == ALL
    assert network.dropped_packets() == {}


def test_dropped_packets_are_counted_by_cut(network: BridgeNetwork) -> None:
    network.cut([_cut(1, 2), _cut(2, 1)])
    assert set(network.dropped_packets().values()) == {0}
    # A packet is counted once the network is up and its sender has found the address, which is asked for each second.
    network.passing_pairs([_cut(1, 2)], 2.0)
    assert network.dropped_packets()[_cut(1, 2)] > 0
    assert network.dropped_packets()[_cut(2, 1)] == 0


def test_a_connection_survives_a_cut_and_goes_on_after_the_heal(network: BridgeNetwork, paths: dict[int, Path]) -> None:
    server = call_in_namespace(paths[1], lambda: socket.create_server((address_of(1), 9092)))
    client = call_in_namespace(paths[2], lambda: socket.create_connection((address_of(1), 9092), timeout=10))
    with server, client:
        accepted, _ = server.accept()
        with accepted:
            network.cut([_cut(2, 1)])
            client.sendall(b"late")
            accepted.settimeout(0.5)
            with pytest.raises(TimeoutError):
                accepted.recv(4)
            network.heal()
            accepted.settimeout(10)
            assert accepted.recv(4) == b"late"


def test_a_node_is_reached_by_its_own_loopback_and_not_from_the_host(
    network: BridgeNetwork, paths: dict[int, Path]
) -> None:
    with call_in_namespace(paths[1], lambda: socket.create_server((address_of(1), 9092))) as server:
        server.settimeout(0.5)
        call_in_namespace(paths[1], lambda: socket.create_connection((address_of(1), 9092), timeout=30)).close()
        server.accept()[0].close()
        with contextlib.suppress(OSError):  # whatever the host has at this address, it is not the node
            socket.create_connection((address_of(1), 9092), timeout=0.3).close()
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_command_entered_sees_the_mounts_of_the_host(network: BridgeNetwork, paths: dict[int, Path]) -> None:
    command = [*netns_prefix(paths[1]), "readlink", "/proc/self/ns/mnt", "/proc/self/ns/net"]
    mounts, net = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert mounts == str(Path("/proc/self/ns/mnt").readlink())
    assert net != str(Path("/proc/self/ns/net").readlink())


def test_a_namespace_plugged_in_again_takes_the_place_of_the_first(ledger: Ledger, network: BridgeNetwork) -> None:
    again = Namespace(name=f"ebbtide-{ledger.run_id}-again")
    ledger.make(again, again.create)
    network.cut([_cut(1, 2)])
    network.attach(1, again.path)
    assert network.passing_pairs(ALL, 2.0) == ALL - {_cut(1, 2)}


def test_a_taken_name_is_one_clear_error_and_stays_whose_it_is(ledger: Ledger) -> None:
    foreign = Namespace(name=f"ebbtide-{ledger.run_id}-switch")
    foreign.create()
    try:
        with pytest.raises(HarnessError, match="exists already"):
            BridgeNetwork(ledger).open()
        ledger.close()
        assert foreign.path.exists()
    finally:
        foreign.undo()


def test_two_runs_at_once_do_not_meet(network: BridgeNetwork, tmp_path: Path, run_id: str) -> None:
    with Ledger.open(f"{run_id}-b", tmp_path, ledgers=tmp_path / "ledger") as other_ledger:
        other = BridgeNetwork(other_ledger)
        other.open()
        for node in NODES:
            other.add_namespace(node)
        network.cut([_cut(1, 2)])
        assert other.passing_pairs(ALL, 2.0) == ALL
        other.close()


def test_five_namespaces_take_less_than_a_second_of_the_processor(ledger: Ledger) -> None:
    import pyroute2  # noqa: F401  its import is paid by the command, not by the network

    # Not of the clock, which also counts what else the host does.
    began = os.times()
    built = BridgeNetwork(ledger)
    built.open()
    for node in (CLIENTS, 1, 2, 3, 100):
        built.add_namespace(node)
    ended = os.times()
    built.close()
    assert sum(ended[:4]) - sum(began[:4]) < 1.0


def test_undoing_a_namespace_may_be_repeated(run_id: str) -> None:
    namespace = Namespace(name=f"ebbtide-{run_id}-x")
    namespace.create()
    assert namespace.undo()
    assert not namespace.undo()
