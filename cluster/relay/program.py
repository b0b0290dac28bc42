"""The relay's process, a child of the harness in the clients' network namespace.

`python -m ebbtide.command cluster.relay.program`. It inherits sockets that listen on the host's loopback, and connects
each client to the broker of its port, from the namespace. A thread passes on each direction of a connection. With a
spool it also records whole frames: a request before it goes to the broker, an answer once the client's socket has all
of it. Where the decoder is gone, it passes on what it no longer records. SIGTERM ends it, with what it has recorded
complete.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import ssl
import threading
import traceback
from collections import Counter
from pathlib import Path

from cluster.relay.cutting import Cutter
from cluster.relay.spool import Kind, SpoolEnd, SpoolWriter
from cluster.relay.tls import TlsEnd, server_context
from cluster.wire.frames import Requests, Responses
from ebbtide import run_clock

CHUNK_BYTES = 256 << 10
CONNECT_TIMEOUT_S = 10.0
_END_TIMEOUT_S = 10.0

_End = socket.socket | TlsEnd


class Relay:
    """Passes connections on until `end`; without a `spool` it records nothing; with `tls`, TLS ends here."""

    def __init__(self, spool: SpoolWriter | None, tls: ssl.SSLContext | None = None) -> None:
        self._spool, self._tls = spool, tls
        self._lock = threading.Lock()
        self._open: dict[int, tuple[_End, _End]] = {}
        self._threads: set[threading.Thread] = set()
        self._number = 0
        self._ending = False
        self._unrecorded: Counter[int] = Counter()
        self._unread = 0

    def listen(self, listening: socket.socket, address: tuple[str, int]) -> None:
        """Accept clients of the broker at `address`, in a thread of its own."""
        threading.Thread(target=self._accept_all, args=(listening, address), daemon=True).start()

    def end(self) -> None:
        """End all connections, and complete the spool."""
        with self._lock:
            self._ending = True
            ends = [end for both in self._open.values() for end in both]
            threads = list(self._threads)
        for end in ends:
            _shut(end)
        if self._spool is not None:
            self._spool.end_waiting()
        for thread in threads:
            thread.join(_END_TIMEOUT_S)
        if self._spool is not None:
            waited_s = round(self._spool.waited_s, 3)
            self._spool.end(SpoolEnd(unrecorded=self._unrecorded, unread=self._unread, waited_s=waited_s))

    def _accept_all(self, listening: socket.socket, address: tuple[str, int]) -> None:
        while True:
            near, _ = listening.accept()
            with self._lock:
                self._number += 1
                thread = threading.Thread(target=self._serve, args=(self._number, near, address), daemon=True)
                self._threads.add(thread)
                thread.start()  # `end` may only join threads that have started

    def _serve(self, number: int, near: socket.socket, address: tuple[str, int]) -> None:
        try:
            # An error: the broker is down or cut off, as it is for clients inside.
            with near, contextlib.suppress(OSError), socket.create_connection(address, CONNECT_TIMEOUT_S) as far:
                near.settimeout(CONNECT_TIMEOUT_S)
                client = near if self._tls is None else TlsEnd(near, self._tls)
                for end in (near, far):
                    end.settimeout(None)
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pass_between(number, client, far)
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _pass_between(self, number: int, near: _End, far: _End) -> None:
        with self._lock:
            if self._ending:
                return
            self._open[number] = (near, far)
        asked = Requests()
        requests, responses = Cutter(asked), Cutter(Responses(asked))
        back = threading.Thread(target=self._pass_on, args=(number, "response", far, near, responses), daemon=True)
        back.start()
        self._pass_on(number, "request", near, far, requests)
        back.join()
        with self._lock:
            del self._open[number]
            self._unrecorded += requests.unrecorded
            self._unread += not (requests.is_read and responses.is_read)
        if self._spool is not None:
            self._spool.write(number, "ended")

    def _pass_on(self, number: int, kind: Kind, source: _End, sink: _End, cutter: Cutter) -> None:
        """Pass bytes on until one side ends, which ends both; an error of the relay itself ends both as well."""
        chunk = bytearray(CHUNK_BYTES)
        view = memoryview(chunk)
        try:
            with contextlib.suppress(OSError):
                while size := source.recv_into(chunk):
                    data = view[:size]
                    if kind == "request":
                        self._record(number, kind, cutter, data)
                    sink.sendall(data)
                    if kind == "response":
                        self._record(number, kind, cutter, data)
        except Exception:
            traceback.print_exc()
            cutter.is_read = False
        for end in (source, sink):
            _shut(end)

    def _record(self, number: int, kind: Kind, cutter: Cutter, data: memoryview) -> None:
        """Add an entry to the spool if there is anything to record."""
        if self._spool is not None and (pieces := cutter.cut(data)):
            self._spool.write(number, kind, pieces)


def _shut(end: _End) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def main() -> None:
    """Serve the inherited sockets until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--listen", action="append", required=True, metavar="FD=HOST:PORT", help="an inherited socket, and its broker"
    )
    parser.add_argument("--ready", type=int, required=True, metavar="FD", help="the pipe to write a byte to")
    parser.add_argument("--spool", nargs=2, type=int, metavar="FD", help="the spool in which frames are recorded")
    parser.add_argument("--tls", type=Path, metavar="DIR", help="the folder of the certificate that clients see")
    parser.add_argument("--clock-base", type=int, required=True, help="the base of the run's clock, in nanoseconds")
    args = parser.parse_args()
    run_clock.use_base(args.clock_base)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    tls = None if args.tls is None else server_context(args.tls)
    relay = Relay(None if args.spool is None else SpoolWriter(tuple(args.spool)), tls)
    for one in args.listen:
        handle, _, address = one.partition("=")
        host, _, port = address.rpartition(":")
        relay.listen(socket.socket(fileno=int(handle)), (host, int(port)))
    os.write(args.ready, b"1")
    signal.sigwait({signal.SIGTERM})
    relay.end()
    os._exit(0)  # threads that accept never end


if __name__ == "__main__":
    main()
