"""Ports on the host's loopback, led into a real namespace with real connections."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from client_frames import request

from cluster.host.bridge import BridgeNetwork, address_of
from cluster.host.host_ports import LOOPBACK, HostPorts
from cluster.host.ledger import Ledger
from cluster.host.namespaces import Cut
from cluster.relay.cutting import PRODUCE
from cluster.relay.publication import Publication
from ebbtide.errors import HarnessError, UsageError
from ebbtide.memory import how_ended
from ebbtide.namespaces import call_in_namespace
from ebbtide.record.own_producers import WireFacts
from ebbtide.scenario.words import CLIENTS
from ebbtide.waiting import wait_until

pytestmark = pytest.mark.root

PORT = 9094


def free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture
def paths(ledger: Ledger) -> Iterator[tuple[BridgeNetwork, dict[int, Path]]]:
    network = BridgeNetwork(ledger)
    network.open()
    yield network, {node: network.add_namespace(node) for node in (CLIENTS, 1)}
    network.close()


def test_bytes_pass_both_ways_until_the_ports_are_closed(
    ledger: Ledger, tmp_path: Path, paths: tuple[BridgeNetwork, dict[int, Path]]
) -> None:
    network, namespaces = paths
    ports = HostPorts(free_port(), [1])
    with (
        closing(ports),
        call_in_namespace(namespaces[1], lambda: socket.create_server((address_of(1), PORT))) as broker,
    ):
        ports.serve(ledger, namespaces[CLIENTS], {1: (address_of(1), PORT)}, tmp_path / "relay.log")
        here = (LOOPBACK, ports.by_broker[1])
        with socket.create_connection(here, timeout=10) as client, broker.accept()[0] as accepted:
            client.sendall(b"question" * 100_000)
            assert accepted.recv(8) == b"question"
            accepted.sendall(b"answer")
            assert client.recv(6) == b"answer"
            # The clients are cut off, and so is a client on the host.
            network.cut([Cut(source=1, target=CLIENTS)])
            accepted.sendall(b"late")
            client.settimeout(0.5)
            with pytest.raises(TimeoutError):
                client.recv(4)
            network.heal()
            client.settimeout(10)
            assert client.recv(4) == b"late"
            ports.close()
            # Bytes of the question that the broker never read make it a reset, and not an end.
            with suppress(ConnectionResetError):
                assert client.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(here, timeout=10)


def test_a_broker_that_is_down_ends_the_connection(
    ledger: Ledger, tmp_path: Path, paths: tuple[BridgeNetwork, dict[int, Path]]
) -> None:
    _, namespaces = paths
    ports = HostPorts(free_port(), [1])
    with closing(ports):
        ports.serve(ledger, namespaces[CLIENTS], {1: (address_of(1), PORT)}, tmp_path / "relay.log")
        with socket.create_connection((LOOPBACK, ports.by_broker[1]), timeout=10) as client:
            assert client.recv(1) == b""


def test_a_port_that_is_taken_is_one_clear_error_and_keeps_no_other() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        number = int(taken.getsockname()[1])
        with pytest.raises(UsageError, match="the port cannot be used") as caught:
            HostPorts(number - 1, [1, 2])
    assert f"{LOOPBACK}:{number}: " in str(caught.value.got) or f"{LOOPBACK}:{number - 1}: " in str(caught.value.got)
    closing_ports = HostPorts(number, [1])
    closing_ports.close()


def test_why_ports_do_not_serve_is_said_at_once(ledger: Ledger, tmp_path: Path) -> None:
    with closing(HostPorts(free_port(), [1])) as ports, pytest.raises(HarnessError, match="do not lead") as caught:
        ports.serve(ledger, tmp_path / "gone", {1: (address_of(1), PORT)}, tmp_path / "relay.log")
    assert caught.value.where == ports.addresses[0]
    assert caught.value.got == "the relay ended: exit code 1"


def test_a_relay_that_is_killed_is_named_and_its_ports_are_free_again(
    ledger: Ledger, tmp_path: Path, paths: tuple[BridgeNetwork, dict[int, Path]]
) -> None:
    ports = HostPorts(0, [1])
    with closing(ports):
        ports.serve(ledger, paths[1][CLIENTS], {1: (address_of(1), PORT)}, tmp_path / "relay.log")
        ports.check()
        assert ports._relay is not None
        os.kill(ports._relay.pid, signal.SIGKILL)
        with pytest.raises(HarnessError, match="ended by itself"):
            wait_until(ports.check, awaited="the end of the relay", timeout_s=10)


def test_when_the_decoder_is_killed_clients_go_on_and_the_record_says_what_it_lacks(
    ledger: Ledger, tmp_path: Path, paths: tuple[BridgeNetwork, dict[int, Path]]
) -> None:
    _, namespaces = paths
    ports = HostPorts(0, [1], records=True)
    with (
        closing(ports),
        call_in_namespace(namespaces[1], lambda: socket.create_server((address_of(1), PORT))) as broker,
    ):
        record = tmp_path / "record"
        (record / "logs").mkdir(parents=True)
        target = {1: (address_of(1), PORT)}
        published = Publication(ledger, ports, namespaces[CLIENTS], target, [], record, tmp_path / "scratch")
        with socket.create_connection((LOOPBACK, ports.by_broker[1]), timeout=10) as client:
            accepted, _ = broker.accept()
            with accepted:
                wait_until((record / "wire").is_dir, awaited="the decoder to write its table", timeout_s=30)
                assert published._decoder is not None
                os.kill(published._decoder.pid, signal.SIGKILL)
                wait_until(lambda: published.check() is not None, awaited="the decoder to have ended", timeout_s=10)
                client.sendall(request(PRODUCE, 1, b"records"))
                assert accepted.recv(19, socket.MSG_WAITALL) == request(PRODUCE, 1, b"records")
        why = f"what decodes it ended early: {how_ended(-signal.SIGKILL)} (logs/decoder.log)"
        assert published.end_recording() == WireFacts(why_incomplete=why)
        assert not (record / "wire").exists()
