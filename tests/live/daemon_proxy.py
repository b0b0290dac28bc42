"""A socket that stands before the Docker daemon and can be taken away while the daemon goes on."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path


class DaemonProxy:
    """Passes every byte between the clients of `path` and the daemon, from `open` to `close`, again and again."""

    def __init__(self, path: Path) -> None:
        self.address = f"unix://{path}"
        self._path = path
        self._daemon = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
        self._listener: socket.socket | None = None
        self._open: list[socket.socket] = []

    def open(self) -> None:
        """Let clients in, if they are not yet."""
        if self._listener is not None:
            return
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        """Be gone, as a daemon that was killed: connections end, and there is no socket any more."""
        if self._listener is not None:
            # A thread that is in accept() would keep a closed socket alive.
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
            self._path.unlink()
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            daemon = socket.socket(socket.AF_UNIX)
            daemon.connect(self._daemon)
            self._open += [client, daemon]
            for source, target in ((client, daemon), (daemon, client)):
                threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
