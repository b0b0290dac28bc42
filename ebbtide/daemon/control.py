"""The control sockets of the clusters that are up: opened, found and used by name.

They are in the per-user state folder. A socket that refuses a connection was left by a daemon that is dead.
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

from ebbtide.daemon.messages import AskStatus, ClusterStatus, EndCluster, Reply, Request
from ebbtide.errors import HarnessError, UsageError
from ebbtide.places import state_dir
from ebbtide.privileges import current_privileges
from ebbtide.scenario.plain_values import to_plain
from ebbtide.suggestions import bracketed_suggestion

_SUFFIX = ".sock"
_PEER = struct.Struct("3i")
NONE_UP = "ebbtide cluster up"


def sockets_dir() -> Path:
    """Return the folder of control sockets and daemon logs, without creating it."""
    return state_dir() / "clusters"


def make_sockets_dir() -> Path:
    """Make the folder of control sockets and return it; raises `HarnessError` if it cannot be made."""
    folder = sockets_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise HarnessError(
            "the folder of control sockets cannot be made",
            where=str(folder),
            got=error.strerror,
            next="export XDG_STATE_HOME=/a/folder/that/you/may/write",
        ) from None
    return folder


def log_of(name: str) -> Path:
    """Return the log of the daemon of the cluster `name`."""
    return sockets_dir() / f"{name}.log"


@contextlib.contextmanager
def open_control_socket(name: str) -> Iterator[socket.socket]:
    """Yield the control socket of a new cluster, which is removed at the end.

    Raises `UsageError` when the name is taken.
    """
    folder = make_sockets_dir()
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
            # Root made the socket for the user who owns its folder.
            owner = folder.stat()
            os.chown(path, owner.st_uid, owner.st_gid)
        server.listen()
        try:
            yield server
        finally:
            path.unlink(missing_ok=True)


def cluster_names() -> list[str]:
    """Return the names of clusters with a socket, including those of dead daemons."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in sockets_dir().glob(f"*{_SUFFIX}"))


def free_name() -> str:
    """Return the first of `cluster-1`, `cluster-2`, ... that is free."""
    taken = set(cluster_names())
    return next(name for number in range(1, len(taken) + 2) if (name := f"cluster-{number}") not in taken)


def choose_name(wanted: str | None) -> str:
    """Return the name of a new cluster: the wanted name, or a free one.

    Raises `UsageError` for an invalid name, or the name of a cluster that is up.
    """
    if wanted is None:
        return free_name()
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", wanted) is None:
        raise UsageError(
            "a cluster cannot have this name",
            where="--name",
            got=repr(wanted),
            allowed="letters, digits, `.`, `_` and `-`",
        )
    _check_name_free(wanted)
    return wanted


def _check_name_free(name: str) -> None:
    if name in cluster_names() and status_of(name) is not None:
        raise UsageError("a cluster of this name is up", got=name, next=f"ebbtide cluster down {name}")


def cluster_statuses() -> list[ClusterStatus]:
    """Return the status of each cluster that answers; removes sockets of dead daemons."""
    found = []
    for name in cluster_names():
        status = status_of(name)
        if status is not None:
            found.append(status)
        else:
            (sockets_dir() / f"{name}{_SUFFIX}").unlink(missing_ok=True)
    return found


def status_of(name: str) -> ClusterStatus | None:
    """Return the cluster's status; None when no daemon answers at its socket."""
    with contextlib.suppress(ConnectionError, FileNotFoundError):
        return _ask(name, AskStatus()).status
    return None


def find_cluster(name: str | None) -> ClusterStatus:
    """Return the cluster `name`, or without a name the only cluster that is up.

    Raises `UsageError` if no cluster runs, or if several do and it needs a name.
    """
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
        "several clusters are up, so that one has to be named" if name is None else "no cluster of this name is up",
        got=name,
        allowed=", ".join(known) + (bracketed_suggestion(name, known) if name is not None else ""),
        next="ebbtide cluster status",
    )


def ask(name: str, request: Request) -> Reply:
    """Send a request to the daemon and return its reply.

    Raises the error with which the daemon refused, or `HarnessError` when it ended instead of answering.
    """
    # A failing test shows the line that fired the step, and not this one.
    __tracebackhide__ = True
    try:
        reply = _ask(name, request)
    except (ConnectionError, FileNotFoundError):
        raise HarnessError(
            f"the daemon of {name} ended instead of answering", where=str(log_of(name)), next="ebbtide clean"
        ) from None
    if reply.refusal is not None:
        raise reply.refusal.error()
    return reply


def end(name: str) -> None:
    """End the cluster, and wait until nothing is left of it.

    Raises `HarnessError` when no daemon answers.
    """
    with _open_connection(name) as connection:
        connection.sendall(msgspec.json.encode(EndCluster()) + b"\n")
        with contextlib.suppress(ConnectionError):
            connection.recv(1)


def daemon_pid(name: str) -> int:
    """Return the daemon's pid as this process sees it, in any pid namespace.

    Raises as `end` does.
    """
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
        raise HarnessError(f"no daemon answers for {name}", next="ebbtide cluster status") from None
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
    """Yield a short path of the same socket: the kernel allows 107 characters."""
    handle = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{path.name}"
    finally:
        os.close(handle)
