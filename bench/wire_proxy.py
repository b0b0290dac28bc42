"""Measures what the wire proxy costs: `python -m bench.wire_proxy [ROUNDS]`.

Run it from a checkout, as root; it needs no Kafka. Two namespaces are on a switch, as in a run. One has a
server that answers framed requests. The other has connections through the proxy, and connections with the proxy's
mark, which go directly. Rounds alternate between the two kinds.

A proxy reads the body of an AlterPartition if a rule is about that API. What that takes is measured in this process.

Targets: less than 1 ms more for a request (median), and 50 MB/s or more through the proxy. The exit code is 1 if a
target is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from cluster.host.bridge import BridgeNetwork, address_of
from cluster.host.children import start_child
from cluster.host.ledger import Ledger
from cluster.runtime.properties import BROKER_PORT, CONTROLLER_PORT
from cluster.wire.messages import ALTER_PARTITION, asked_isrs
from cluster.wire.tap import MARK, Taps
from ebbtide.namespaces import call_in_namespace
from ebbtide.waiting import wait_until

NODE, PEER = 1, 2
FETCH = 1
REQUESTS = 1000
BIG_BYTES = 1 << 20
BIG_ANSWERS = 200
ISR_CHANGES = (1, 10, 100)
"""How many partitions an AlterPartition is about; a leader asks for all that are due at once."""
MORE_MS_MAX = 1.0
MB_PER_S_MIN = 50.0


def serve() -> None:
    """Answer each request, one connection after the other.

    The body of a request says how many bytes of body the answer has.
    """
    with socket.create_server((address_of(PEER), BROKER_PORT)) as listener:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection, contextlib.suppress(ConnectionError):
                while head := connection.recv(16, socket.MSG_WAITALL):
                    _, _, _, correlation, wanted = struct.unpack(">ihhii", head)
                    connection.sendall(struct.pack(">ii", 4 + wanted, correlation) + bytes(wanted))


def connect(namespace: Path, *, direct: bool) -> socket.socket:
    """A connection from the node to the peer."""

    def open_connection() -> socket.socket:
        end = socket.socket()
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if direct:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
        end.connect((address_of(PEER), BROKER_PORT))
        return end

    return call_in_namespace(namespace, open_connection)


def ask(end: socket.socket, correlation: int, wanted: int) -> None:
    """One request and its whole answer."""
    end.sendall(struct.pack(">ihhii", 12, FETCH, 0, correlation, wanted))
    left = 8 + wanted
    while left:
        left -= len(end.recv(min(left, 1 << 18)))


def request_ms(end: socket.socket) -> list[float]:
    """How long each of many small requests took."""
    took = []
    for number in range(REQUESTS):
        began = time.perf_counter()
        ask(end, number, 100)
        took.append((time.perf_counter() - began) * 1000)
    return took


def mb_per_s(end: socket.socket) -> float:
    """How fast large answers come in."""
    began = time.perf_counter()
    for number in range(BIG_ANSWERS):
        ask(end, number, BIG_BYTES)
    return BIG_ANSWERS * BIG_BYTES / 1e6 / (time.perf_counter() - began)


def isr_change(partitions: int) -> bytes:
    """A request (version 3) of broker 1 for the ISR 1, 2 of some partitions of a topic."""
    isr = b"\x03" + b"".join(struct.pack(">iqx", broker, 40) for broker in (1, 2))
    several = b"".join(struct.pack(">ii", one, 3) + isr + struct.pack(">bix", 0, 11) for one in range(partitions))
    body = struct.pack(">iq", 1, 41) + b"\x02" + bytes(16) + bytes([partitions + 1]) + several + bytes(2)
    head = struct.pack(">hhih", ALTER_PARTITION, 3, 5, 1) + b"1" + bytes(1)
    return struct.pack(">i", len(head + body)) + head + body


def reading_us(partitions: int) -> float:
    """How much CPU it takes to read what such a request asks for."""
    frame = isr_change(partitions)
    assert len(asked_isrs(3, frame)) == partitions
    began = time.process_time()
    for _ in range(REQUESTS):
        asked_isrs(3, frame)
    return (time.process_time() - began) / REQUESTS * 1e6


def measure(ledger: Ledger, folder: Path, rounds: int) -> dict[bool, tuple[list[float], list[float]]]:
    """By whether it went directly: milliseconds a request, and MB/s a round."""
    network = BridgeNetwork(ledger)
    taps = Taps(ledger, ports=(BROKER_PORT, CONTROLLER_PORT), logs=folder)
    results: dict[bool, tuple[list[float], list[float]]] = {True: ([], []), False: ([], [])}
    try:
        network.open()
        node, peer = network.add_namespace(NODE), network.add_namespace(PEER)
        argv = [sys.executable, "-m", "bench.wire_proxy", "--serve"]
        server = start_child(ledger, argv, name="server", output=folder / "server.log", namespace=peer)
        taps.intercept({NODE: "node"})
        taps.open({NODE: node})

        def answers() -> bool:
            assert server.is_running(), (folder / "server.log").read_text()
            with contextlib.suppress(OSError):
                connect(node, direct=True).close()
                return True
            return False

        wait_until(answers, awaited="the server", timeout_s=10)
        for _ in range(rounds):
            for direct in (True, False):
                with connect(node, direct=direct) as end:
                    ask(end, 0, 100)
                    results[direct][0].extend(request_ms(end))
                    results[direct][1].append(mb_per_s(end))
        server.kill()
    finally:
        taps.close()
        network.close()
    return results


def main() -> int:
    """Measure, and print medians side by side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("--max-added-ms", type=float, default=MORE_MS_MAX, metavar="MS", help="target")
    parser.add_argument("--min-mb-per-s", type=float, default=MB_PER_S_MIN, metavar="RATE", help="target")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve()
    with (
        tempfile.TemporaryDirectory(prefix="ebbtide-wire-") as folder,
        Ledger.open(f"bench-wire-{os.getpid()}", Path(folder)) as ledger,
    ):
        results = measure(ledger, Path(folder), args.rounds)
    print("            request (median)   99 %        large answers (median)")
    for direct, (took_ms, speeds) in results.items():
        late = sorted(took_ms)[len(took_ms) * 99 // 100]
        name = "direct" if direct else "proxied"
        print(f"{name:<11} {median(took_ms):>11.3f} ms {late:>11.3f} ms {median(speeds):>14.0f} MB/s", flush=True)
    for partitions in ISR_CHANGES:
        took_us = median(reading_us(partitions) for _ in range(args.rounds))
        print(f"an AlterPartition of {partitions:>3} partitions: {took_us:>7.0f} µs to read", flush=True)
    more_ms = median(results[False][0]) - median(results[True][0])
    speed = median(results[False][1])
    good = more_ms < args.max_added_ms and speed >= args.min_mb_per_s
    print(f"the proxy adds {more_ms:.3f} ms (target under {args.max_added_ms:g}) and passes {speed:.0f} MB/s "
          f"(target {args.min_mb_per_s:g} or more): {'met' if good else 'MISSED'}")  # fmt: skip
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
