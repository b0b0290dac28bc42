"""The control sockets of the clusters that are up: opened, found and used by name.

They are in the per-user state folder. A socket that refuses a connection was left by a daemon that is dead. The next
command about clusters removes it, and so does `ebbtide clean`.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ebbtide.daemon.messages import (
    AskStatus,
    ClusterStatus,
    DaemonConnection,
    EndCluster,
    Fire,
    Reply,
    Request,
    short_path,
)
from ebbtide.errors import HarnessError, UsageError
from ebbtide.judging_progress import print_line
from ebbtide.places import state_dir
from ebbtide.privileges import current_privileges
from ebbtide.scenario.plain_values import to_plain
from ebbtide.suggestions import bracketed_suggestion
from ebbtide.untrusted.values import decode_json

_SUFFIX = ".sock"
_STATUS_TIMEOUT_S = 60.0
"""A status waits for a step that another caller asked for; most steps take some seconds."""
_ACTION_TIMEOUT_S = 3600.0
"""A step may wait for a whole upgrade, and the end of a cluster for its last reads."""
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
    path = _socket_of(name)
    _check_name_free(name)
    # It gets its name once it listens: before, it would look like one of a dead daemon.
    part = folder / f".{name}.{os.getpid()}"
    part.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server, short_path(part) as short:
        mask = os.umask(0o077)
        try:
            server.bind(short)
        finally:
            os.umask(mask)
        if current_privileges() == "helper container":
            # Root made the socket for the user who owns its folder.
            owner = folder.stat()
            os.chown(part, owner.st_uid, owner.st_gid)
        server.listen()
        part.rename(path)
        try:
            yield server
        finally:
            path.unlink(missing_ok=True)


def cluster_names() -> list[str]:
    """Return the names of clusters with a socket, including those of dead daemons."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in sockets_dir().glob(f"*{_SUFFIX}"))


def remove_dead_sockets() -> list[Path]:
    """Remove the sockets that killed daemons left, and return them."""
    paths = [_socket_of(name) for name in cluster_names()]
    return [path for path in paths if _is_dead(path) and _is_removed(path)]


def free_name() -> str:
    """Return the first of `cluster-1`, `cluster-2`, ... that is free."""
    remove_dead_sockets()
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
            where="--cluster",
            got=repr(wanted),
            allowed="letters, digits, `.`, `_` and `-`",
        )
    _check_name_free(wanted)
    return wanted


def _check_name_free(name: str) -> None:
    if name in cluster_names() and status_of(name) is not None:
        raise UsageError("a cluster of this name is up", got=name, next=f"ebbtide cluster down {name}")


def cluster_statuses() -> list[ClusterStatus]:
    """Return the status of each cluster that is up; removes sockets of dead daemons.

    Raises `HarnessError` for a daemon that does not answer.
    """
    remove_dead_sockets()
    return [status for name in cluster_names() if (status := status_of(name)) is not None]


def status_of(name: str) -> ClusterStatus | None:
    """Return the cluster's status; None when no daemon listens at its socket. Raises as `cluster_statuses` does."""
    with contextlib.suppress(ConnectionError, FileNotFoundError):
        return _ask(name, AskStatus()).status
    return None


def find_cluster(name: str | None) -> ClusterStatus:
    """Return the cluster `name`, or without a name the only cluster that is up and that no other program uses.

    Raises `UsageError` if no such cluster runs, or if several do and it needs a name.
    """
    # No other cluster is asked: its daemon may be busy.
    if name in cluster_names() and (status := status_of(name)) is not None:
        return status
    up = cluster_statuses()
    by_hand = [status for status in up if not status.started_by]
    if name is None and len(by_hand) == 1:
        return by_hand[0]
    if not up:
        raise UsageError("no cluster is up", got=name, next=NONE_UP)
    known = [status.name for status in up]
    shown = ", ".join(
        f"{status.name} (started by {status.started_by})" if status.started_by else status.name for status in up
    )
    if name is None:
        raise UsageError(
            "several clusters are up: name yours" if by_hand else "another program started every cluster that is up",
            allowed=shown,
            next="--cluster NAME    (a fault or `down` breaks what runs there)",
        )
    raise UsageError(
        "no cluster of this name is up",
        got=name,
        allowed=shown + bracketed_suggestion(name, known),
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
    with _open_connection(name, "the end of the cluster") as connection, contextlib.suppress(ConnectionError):
        connection.send(msgspec.json.encode(EndCluster()))
        connection.receive()


def daemon_pid(name: str) -> int:
    """Return the daemon's pid as this process sees it, in any pid namespace.

    Raises as `end` does.
    """
    with _open_connection(name, "a connection") as connection:
        return connection.daemon_pid()


def _ask(name: str, request: Request) -> Reply:
    is_status = isinstance(request, AskStatus)
    awaited, timeout_s = ("its status", _STATUS_TIMEOUT_S) if is_status else ("its answer", _ACTION_TIMEOUT_S)
    with _connect(name, awaited, timeout_s) as connection:
        connection.send(msgspec.json.encode(to_plain(request)))
        if is_status and connection.is_busy():
            print_line(f"waiting for the status of {name}: its daemon is busy")
        line = connection.receive()
        if not line:
            raise ConnectionResetError
        try:
            reply = decode_json(line, Reply)
        except msgspec.DecodeError as error:
            raise connection.nonsense(str(error)) from None
        is_whole = reply.status is not None and (reply.step is not None or not isinstance(request, Fire))
        if reply.refusal is None and not is_whole:
            raise connection.nonsense("an answer without its result")
    return reply


@contextlib.contextmanager
def _open_connection(name: str, awaited: str) -> Iterator[DaemonConnection]:
    with contextlib.ExitStack() as opened:
        try:
            connection = opened.enter_context(_connect(name, awaited, _ACTION_TIMEOUT_S))
        except (ConnectionError, FileNotFoundError):
            raise HarnessError(f"no daemon answers for {name}", next="ebbtide cluster status") from None
        yield connection


@contextlib.contextmanager
def _connect(name: str, awaited: str, timeout_s: float) -> Iterator[DaemonConnection]:
    with socket.socket(socket.AF_UNIX) as caller:
        connection = DaemonConnection(caller, name, log_of(name), awaited=awaited, timeout_s=timeout_s)
        connection.connect(_socket_of(name))
        yield connection


def _socket_of(name: str) -> Path:
    return sockets_dir() / f"{name}{_SUFFIX}"


def _is_dead(path: Path) -> bool:
    """Whether nobody listens at a socket."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.setblocking(False)  # a full queue has a listener
        try:
            with short_path(path) as short:
                caller.connect(short)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _is_removed(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
