"""Probes a network with real packets: one datagram with a fresh token, in one direction.

The sockets are opened once inside the nodes' namespaces and used from outside. They say what the network
does, whatever the node's own process does: a paused or dead broker does not make a cut.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.host.namespaces import in_namespace
from harness.runtime.base import Cut

PORT = 39099
"""UDP, in the nodes' own namespaces; no Kafka listener is there."""

_RESEND_S = 0.05


class Probes:
    """A probe socket a node; `address_of` maps a node id to its address."""

    def __init__(self, address_of: Callable[[int], str]) -> None:
        self._address_of = address_of
        self._sockets: dict[int, socket.socket] = {}
        self._lock = threading.Lock()

    def open(self, node_id: int, namespace: Path) -> None:
        """Open, or open anew, the node's probe socket in its namespace."""

        def bound() -> socket.socket:
            probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            probe.bind((self._address_of(node_id), PORT))
            probe.setblocking(False)
            return probe

        with self._lock:
            old = self._sockets.pop(node_id, None)
            if old is not None:
                old.close()
            self._sockets[node_id] = in_namespace(namespace, bound)

    def close(self) -> None:
        """Close every socket: an open one would keep its namespace alive."""
        with self._lock:
            for probe in self._sockets.values():
                probe.close()
            self._sockets.clear()

    def passing(self, pairs: Iterable[Cut], timeout_s: float) -> frozenset[Cut]:
        """Those of `pairs` whose packets arrive within `timeout_s`; sent again meanwhile, against chance loss."""
        with self._lock, selectors.DefaultSelector() as selector:
            for probe in self._sockets.values():
                selector.register(probe, selectors.EVENT_READ)
            waiting = {os.urandom(16): pair for pair in sorted(set(pairs))}
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

    def _send(self, token: bytes, pair: Cut) -> None:
        try:
            self._sockets[pair.source].sendto(token, (self._address_of(pair.target), PORT))
        except OSError:
            # A full queue or an unreachable neighbour: the packet did not pass, which is what is asked.
            return

    @staticmethod
    def _receive(probe: object) -> bytes:
        assert isinstance(probe, socket.socket)
        try:
            return probe.recv(64)
        except OSError:
            return b""
