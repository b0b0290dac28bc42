"""The process from which the clients of a run are forked: `python -m ebbtide.command workloads.fork_server FD LOG`.

It has imported the client library, so that a client does not: that takes longer than most clients work. A client is
a process of its own from the fork on. It dies with this process, and this process dies with the harness.

FD is a socket of `workloads.forked_clients`. Each message on it is one JSON object: `StartRequest` from the harness,
`Started` (with the process's pidfd) and `Ended` to it. LOG shows a person which run the process belongs to.
"""

from __future__ import annotations

import ctypes
import gc
import os
import selectors
import socket
import sys
from collections.abc import Sequence
from importlib import import_module

import msgspec

from ebbtide.parent_death import die_with_parent

_CLIENTS = ("admin", "consumer", "final_read", "producer", "replica_logs", "sampler", "topics")
_IMPORTED = ("tenacity", *(f"workloads.{name}" for name in _CLIENTS))
"""What most clients need; each client imports the rest after its fork. None of these starts a thread."""

MESSAGE_BYTES = 65_536
"""The most bytes of a message."""

_PR_SET_NAME = 15


class StartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Start `module` with `arguments`; stdout and stderr are appended to the file `output`."""

    number: int
    name: str
    module: str
    arguments: tuple[str, ...]
    output: str


class Started(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The answer to the `StartRequest` of this number."""

    number: int
    pid: int


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The client of this number has ended: with its exit code, or minus the signal that ended it."""

    number: int
    exit_code: int


Answer = Started | Ended


def serve(link: socket.socket) -> StartRequest | None:
    """Fork a client for each request. Returns None once the harness closes the link, and in a client its request."""
    server = os.getpid()
    clients: dict[int, tuple[int, int]] = {}
    with selectors.PollSelector() as selector:
        selector.register(link, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd in clients:
                    number, pid = clients.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    link.send(msgspec.json.encode(Ended(number=number, exit_code=code)))
                    continue
                message = link.recv(MESSAGE_BYTES)
                if not message:
                    return None
                request = msgspec.json.decode(message, type=StartRequest)
                pid = os.fork()
                if pid == 0:
                    for file in (link.detach(), *clients):
                        os.close(file)
                    _become_client(request, server)
                    return request
                pidfd = os.pidfd_open(pid)
                clients[pidfd] = (request.number, pid)
                selector.register(pidfd, selectors.EVENT_READ)
                socket.send_fds(link, [msgspec.json.encode(Started(number=request.number, pid=pid))], [pidfd])


def _become_client(request: StartRequest, server: int) -> None:
    """Give this process what a client has: its end, its name, and its log. Ends it if the server is gone already."""
    die_with_parent()
    if os.getppid() != server:
        os._exit(1)
    ctypes.CDLL(None).prctl(_PR_SET_NAME, request.name.encode())
    os.setsid()
    log = os.open(request.output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for standard in (sys.stdout, sys.stderr):
        os.dup2(log, standard.fileno())
    os.close(log)


def main(argv: Sequence[str]) -> int:
    """Serve until the harness ends; in a client, run it."""
    for name in _IMPORTED:
        import_module(name)
    # The collector must not touch these objects in a client: touching them copies their memory.
    gc.freeze()
    request = serve(socket.socket(fileno=int(argv[0])))
    if request is None:
        return 0
    return int(import_module(request.module).main(request.arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
