"""The control sockets of the clusters that are up, by name: listening at one, finding them, asking.

They lie in the per-user state folder. A socket that refuses a connection was left by an owner that is dead.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ebbtide.daemon.messages import AskStatus, ClusterStatus, Down, Reply, Request
from ebbtide.errors import HarnessError, UsageError
from ebbtide.places import state_dir
from ebbtide.privileges import current_privileges
from ebbtide.scenario.plain import to_plain
from ebbtide.scenario.words import suggestion

_SUFFIX = ".sock"
_PEER = struct.Struct("3i")
NONE_UP = "ebbtide cluster up"


def sockets_dir() -> Path:
    """The folder of control sockets, and of the owners' logs. Not created here."""
    return state_dir() / "clusters"


def log_of(name: str) -> Path:
    """Where the owner of the cluster `name` tells what happens."""
    return sockets_dir() / f"{name}.log"


@contextlib.contextmanager
def open_control_socket(name: str) -> Iterator[socket.socket]:
    """The control socket of a new cluster, gone on leaving. Raises `UsageError` when the name is taken."""
    folder = sockets_dir()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{name}{_SUFFIX}"
    _check_name_free(name)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server, _short_path(path) as short:
        mask = os.umask(0o077)
        try:
            server.bind(short)
        finally:
            os.umask(mask)
        if current_privileges() == "helper container":
            # Root made it for the user whose folder it is in.
            owner = folder.stat()
            os.chown(path, owner.st_uid, owner.st_gid)
        server.listen()
        try:
            yield server
        finally:
            path.unlink(missing_ok=True)


def cluster_names() -> list[str]:
    """The clusters that have a socket, dead owners' among them."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in sockets_dir().glob(f"*{_SUFFIX}"))


def free_name() -> str:
    """The first of `cluster-1`, `cluster-2`, ... that nobody has."""
    taken = set(cluster_names())
    return next(name for number in range(1, len(taken) + 2) if (name := f"cluster-{number}") not in taken)


def choose_name(wanted: str | None) -> str:
    """What a new cluster is to be called: as wanted, or a free name.

    Raises `UsageError` for what is no name, or that of a cluster that is up.
    """
    if wanted is None:
        return free_name()
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", wanted) is None:
        raise UsageError(
            "not a name for a cluster", where="--name", got=repr(wanted), allowed="letters, digits, `.`, `_` and `-`"
        )
    _check_name_free(wanted)
    return wanted


def _check_name_free(name: str) -> None:
    if name in cluster_names() and status_of(name) is not None:
        raise UsageError("a cluster of this name is up", got=name, next=f"ebbtide cluster down {name}")


def cluster_statuses() -> list[ClusterStatus]:
    """Every cluster that answers; sockets of dead owners are removed."""
    found = []
    for name in cluster_names():
        status = status_of(name)
        if status is not None:
            found.append(status)
        else:
            (sockets_dir() / f"{name}{_SUFFIX}").unlink(missing_ok=True)
    return found


def status_of(name: str) -> ClusterStatus | None:
    """The cluster's status; None when nobody answers at its socket."""
    with contextlib.suppress(ConnectionError, FileNotFoundError):
        return _ask(name, AskStatus()).status
    return None


def find_cluster(name: str | None) -> ClusterStatus:
    """The cluster `name`, or the only one that is up. Raises `UsageError` when there is none, or the name is needed."""
    up = cluster_statuses()
    if name is None and len(up) == 1:
        return up[0]
    chosen = [one for one in up if one.name == name]
    if chosen:
        return chosen[0]
    if not up:
        raise UsageError("no cluster is up", got=name, next=NONE_UP)
    known = [one.name for one in up]
    raise UsageError(
        "several clusters are up: say which" if name is None else "no cluster of this name is up",
        got=name,
        allowed=", ".join(known) + (suggestion(name, known) if name is not None else ""),
        next="ebbtide cluster status",
    )


def ask(name: str, request: Request) -> Reply:
    """The owner's reply. Raises what it refused with, or `HarnessError` when it ended instead of answering."""
    # A test that fires a step sees where it asked for it.
    __tracebackhide__ = True
    try:
        reply = _ask(name, request)
    except (ConnectionError, FileNotFoundError):
        raise HarnessError(
            f"the owner of {name} ended instead of answering", where=str(log_of(name)), next="ebbtide clean"
        ) from None
    if reply.refusal is not None:
        raise reply.refusal.error()
    return reply


def end(name: str) -> None:
    """Have the cluster end, and wait until nothing is left of it. Raises `HarnessError` when nobody answers."""
    with _open_connection(name) as connection:
        connection.sendall(msgspec.json.encode(Down()) + b"\n")
        with contextlib.suppress(ConnectionError):
            connection.recv(1)


def daemon_pid(name: str) -> int:
    """The pid of the owner as this process sees it, whatever pid namespace it is in. Raises as `end` does."""
    with _open_connection(name) as connection:
        pid, _, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(pid)


def _ask(name: str, request: Request) -> Reply:
    with _connect(name) as connection:
        connection.sendall(msgspec.json.encode(to_plain(request)) + b"\n")
        with connection.makefile("rb") as answer:
            line = answer.readline()
    if not line:
        raise ConnectionResetError
    return msgspec.json.decode(line, type=Reply)


@contextlib.contextmanager
def _open_connection(name: str) -> Iterator[socket.socket]:
    try:
        connection = _connect(name)
    except (ConnectionError, FileNotFoundError):
        raise HarnessError(f"nobody answers for {name}", next="ebbtide cluster status") from None
    with connection:
        yield connection


def _connect(name: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        with _short_path(sockets_dir() / f"{name}{_SUFFIX}") as short:
            connection.connect(short)
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """The same socket under a path of few characters: the kernel takes no more than 107."""
    handle = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{path.name}"
    finally:
        os.close(handle)
