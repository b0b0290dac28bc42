"""Ports on the host's loopback that lead to the brokers of a cluster.

The nodes live in network namespaces, which the host cannot reach. A thread of the harness takes connections on the
host's loopback, and passes their bytes on from the clients' namespace. So a program on the host is a client like any
other: what cuts the clients off cuts it off too. The ports end with the process, in whatever way it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from ebbtide.errors import HarnessError, UsageError, error_in_one_line
from ebbtide.namespaces import enter_namespace

LOOPBACK = "127.0.0.1"
_CHUNK_BYTES = 1 << 16
_CONNECT_TIMEOUT_S = 10.0
_START_TIMEOUT_S = 30.0


class HostPorts:
    """A port for each broker, from `first` on; the ports are taken when this is made.

    Raises `UsageError` if a port is taken already, or needs privileges that are missing.
    """

    def __init__(self, first: int, brokers: Sequence[int]) -> None:
        self.by_broker: Mapping[int, int] = {broker: first + at for at, broker in enumerate(brokers)}
        self._listening: dict[int, socket.socket] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._failure: Exception | None = None
        try:
            for broker, port in self.by_broker.items():
                self._listening[broker] = _listen(port)
        except BaseException:
            self.close()
            raise

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses that a client on the host can bootstrap from."""
        return tuple(f"{LOOPBACK}:{port}" for port in self.by_broker.values())

    def serve(self, namespace: Path, targets: Mapping[int, tuple[str, int]]) -> None:
        """Pass connections on to `targets`, by broker, from the network namespace at `namespace`.

        Raises `HarnessError` if that does not begin in time.
        """
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(namespace, targets, ready), name="ebbtide-host-ports", daemon=True
        )
        self._thread.start()
        began = ready.wait(_START_TIMEOUT_S)
        if not began or self._failure is not None:
            raise HarnessError(
                "the published ports do not lead to the brokers",
                where=", ".join(self.addresses),
                got=f"the ports did not open within {_START_TIMEOUT_S:.0f} s"
                if self._failure is None
                else error_in_one_line(self._failure),
                next="the same command again on a less busy host, or without --publish",
            )

    def close(self) -> None:
        """Free the ports, and end their connections; a second call does nothing."""
        loop, stop, thread = self._loop, self._stop, self._thread
        self._loop = self._stop = self._thread = None
        if loop is not None and stop is not None and thread is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(stop.set)
            thread.join(_START_TIMEOUT_S)
        for one in self._listening.values():
            one.close()
        self._listening.clear()

    def _run(self, namespace: Path, targets: Mapping[int, tuple[str, int]], ready: threading.Event) -> None:
        try:
            # Connections that this thread opens are in the namespace; the listening sockets stay where they were made.
            with enter_namespace(namespace):
                asyncio.run(self._relay_all(targets, ready))
        except Exception as error:  # of this thread, which nobody else hears
            self._failure = error
        finally:
            ready.set()

    async def _relay_all(self, targets: Mapping[int, tuple[str, int]], ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        stop, relay = self._stop, _Relay()
        servers = [
            await asyncio.start_server(partial(relay.pass_between, *targets[broker]), sock=listening)
            for broker, listening in self._listening.items()
        ]
        ready.set()
        await stop.wait()
        for server in servers:
            server.close()
        await relay.end()


class _Relay:
    """Passes the bytes of connections on to brokers, and back."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[None]] = set()

    async def pass_between(
        self, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Connect to a broker, and pass on what comes until one side ends."""
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        try:
            await _pass_between(host, port, reader, writer)
        except asyncio.CancelledError:  # the ports are being closed
            writer.transport.abort()
        finally:
            writer.close()
            self._under_way.discard(task)

    async def end(self) -> None:
        """End all connections at once."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        # Sockets are closed in the loop's next turn.
        await asyncio.sleep(0)


async def _pass_between(host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            there_reader, there_writer = await asyncio.open_connection(host, port)
    except OSError:  # also TimeoutError: the broker is down or cut off, as a client in the namespace would find
        return
    ways = [
        asyncio.ensure_future(_pass_on(reader, there_writer)),
        asyncio.ensure_future(_pass_on(there_reader, writer)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        there_writer.transport.abort()
        raise
    finally:
        for one in ways:
            one.cancel()
        there_writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen()
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise UsageError(
            "the port cannot be used",
            where="--publish",
            got=f"{LOOPBACK}:{port}: {error.strerror}",
            allowed="a free port, and as many free ports after it as there are further brokers",
        ) from None
    return listening
