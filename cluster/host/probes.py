"""Probes a network with real packets, one direction at a time.

A probe is one datagram with a fresh token, or many to measure a rate. The sockets are opened once inside the nodes'
namespaces and used from outside. They show what the network does, whatever the node's own process does: a paused or
dead broker does not look like a cut.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from cluster.host.namespaces import Cut, Transfer
from ebbtide.namespaces import call_in_namespace

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
