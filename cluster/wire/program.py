"""The proxy's process, a child of the harness in a node's network namespace.

`python -m ebbtide.command cluster.wire.program`. The packet filter redirects the node's new connections to it
(`cluster.wire.tap`). It asks the kernel for the original destination and dials it, with a mark that the filter lets
pass. It ends when the harness closes the control connection.
"""

from __future__ import annotations

import argparse
import select
import socket
import struct

import msgspec

from cluster.wire.messages import CONTROL, Command, WireEvent
from cluster.wire.proxy import Proxy
from ebbtide import run_clock

_SO_ORIGINAL_DST = 80  # linux/netfilter_ipv4.h
_commands = msgspec.json.Decoder(Command)


def dial_peer(near: socket.socket, mark: int) -> tuple[socket.socket, str]:
    """Begin the connection that the node wanted; returns it and the peer's address.

    The mark keeps the connection from being redirected again. Raises `OSError`.
    """
    port, address = struct.unpack_from("!2xH4s", near.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16))
    peer = socket.inet_ntoa(address)
    far = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        far.setblocking(False)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        far.connect((peer, port))
    except BlockingIOError:
        return far, peer
    except OSError:
        far.close()
        raise
    return far, peer


class HarnessEnd:
    """The control connection; it buffers what the harness has not read yet."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._connection.setblocking(False)
        self._in = b""
        self._out = bytearray()

    def send(self, event: WireEvent) -> None:
        """Send an event as soon as the harness can take it."""
        self._out += msgspec.json.encode(event) + b"\n"
        self.flush()

    def flush(self) -> None:
        """Send as much as the socket accepts. Raises `OSError` when the harness is gone."""
        try:
            while self._out:
                del self._out[: self._connection.send(self._out)]
        except BlockingIOError:
            return

    def read(self) -> list[Command]:
        """Return the commands that arrived. Raises `EOFError` when the harness hung up."""
        chunk = self._connection.recv(1 << 16)
        if not chunk:
            raise EOFError
        *lines, self._in = (self._in + chunk).split(b"\n")
        return [_commands.decode(line) for line in lines]


def serve(listener: socket.socket, connection: socket.socket, mark: int) -> None:
    """Proxy until the harness hangs up; then raises `EOFError` or `OSError`."""
    harness = HarnessEnd(connection)
    proxy = Proxy(lambda near: dial_peer(near, mark), harness.send)
    proxy.epoll.register(listener, select.EPOLLIN)
    proxy.epoll.register(connection, select.EPOLLIN)
    try:
        while True:
            _serve_once(proxy, harness, listener, connection)
    finally:
        proxy.close()


def _serve_once(proxy: Proxy, harness: HarnessEnd, listener: socket.socket, connection: socket.socket) -> None:
    ready = dict(proxy.epoll.poll(proxy.wait_s()))
    knocking = ready.pop(listener.fileno(), 0)
    if ready.pop(connection.fileno(), 0):
        for command in harness.read():
            proxy.command(command)
    for handle, events in ready.items():
        proxy.step(handle, events)
    # Last: a new connection may get the file descriptor number of a connection that was closed just now.
    if knocking:
        proxy.accept(listener)
    proxy.run_due()
    harness.flush()


def main() -> None:
    """Listen, accept the harness's connection, and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--port", type=int, required=True, help="the port to which the packet filter redirects connections"
    )
    parser.add_argument(
        "--mark", type=int, required=True, help="the mark of connections that the packet filter lets pass"
    )
    parser.add_argument("--clock-base", type=int, required=True, help="the base of the run's clock, in nanoseconds")
    args = parser.parse_args()
    run_clock.use_base(args.clock_base)
    with (
        socket.create_server(("127.0.0.1", args.port), backlog=128) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control,
    ):
        control.bind(CONTROL)
        control.listen()
        connection, _ = control.accept()
        try:
            serve(listener, connection, args.mark)
        except (EOFError, ConnectionError):
            return


if __name__ == "__main__":
    main()
