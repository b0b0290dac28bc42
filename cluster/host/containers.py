"""The containers of runs: labelled, in the ledger before they exist, and removed.

A container is removed by its name, and only if its label names the run. The docker library is imported only when a
daemon is asked, so that a ledger without containers does not need it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Collection, Iterator

import docker
import msgspec
from docker.errors import DockerException
from requests.exceptions import Timeout

from cluster.host.processes import ProcessId, identify, is_alive
from ebbtide.errors import EbbtideError, HarnessError
from ebbtide.privileges import sudo_command

DEFAULT_HOST = "unix:///var/run/docker.sock"
ANSWER_TIMEOUT_S = 5
"""A living daemon answers a ping in milliseconds."""
REQUEST_TIMEOUT_S = 120
"""For every later request: stopping a node, or a step of a build, may take long."""


class DockerError(HarnessError):
    """The Docker daemon cannot be used, or refused a request."""


def connect(host: str | None = None) -> docker.DockerClient:
    """Return a client of a daemon that has answered a ping. The caller closes it.

    Without `host` the daemon is the one at DOCKER_HOST (default: the local socket). Raises `DockerError` when there
    is no daemon, no permission on its socket, or no answer within `ANSWER_TIMEOUT_S`.
    """
    host = host or os.environ.get("DOCKER_HOST") or DEFAULT_HOST
    try:
        _check_socket(host)
        client = docker.from_env(timeout=ANSWER_TIMEOUT_S, environment={**os.environ, "DOCKER_HOST": host})
    except (DockerException, OSError, ValueError) as error:
        raise _connection_error(host, error) from None
    client.api.timeout = REQUEST_TIMEOUT_S
    return client


def _check_socket(host: str) -> None:
    """Connect to a local socket once, for a clear error and no leak.

    The SDK hides the reason among other errors, and leaks its own socket.
    """
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(ANSWER_TIMEOUT_S)
            probe.connect(host.removeprefix("unix://"))


def _connection_error(host: str, error: Exception) -> DockerError:
    causes = list(_causes(error))
    where = f"DOCKER_HOST={host}" if os.environ.get("DOCKER_HOST") else host
    if any(isinstance(cause, PermissionError) for cause in causes):
        return DockerError(
            "no permission on the Docker daemon's socket",
            where=where,
            next=f"sudo usermod -aG docker $USER    (then log in again), or {sudo_command()}",
        )
    if any(isinstance(cause, FileNotFoundError | ConnectionError) for cause in causes):
        return DockerError(
            "no Docker daemon at this address",
            where=where,
            next="sudo systemctl start docker    (or install it: apt-get install docker.io)",
        )
    if any(isinstance(cause, TimeoutError | Timeout) for cause in causes):
        return DockerError(f"the Docker daemon does not answer within {ANSWER_TIMEOUT_S} s", where=where)
    return DockerError("the Docker daemon cannot be reached", where=where, got=str(causes[-1]))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield `error` and everything that led to it.

    requests and urllib3 keep the cause among the arguments.
    """
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        cause = waiting.pop(0)
        if isinstance(cause, BaseException) and id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            waiting += [cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args]


RUN = "org.ebbtide.run"
OWNER_PID = "org.ebbtide.owner-pid"
STARTED = "org.ebbtide.started"
"""The start of the owning process, `<boot id>/<clock ticks since boot>`: a pid alone may be reused."""


def labels_of(run_id: str) -> dict[str, str]:
    """Return the labels for whatever this process makes in a Docker daemon for a run."""
    owner = identify(os.getpid())
    return {RUN: run_id, OWNER_PID: str(owner.pid), STARTED: f"{owner.boot_id}/{owner.start_ticks}"}


class Container(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="container"):
    """Ledger entry: the container `name` of a run, in the daemon at `docker_host`."""

    docker_host: str
    name: str
    run_id: str

    def undo(self) -> bool:
        """Kill and remove the container and its anonymous volumes.

        Returns True when it existed and was labelled as this run's. Raises `HarnessError` when the daemon does not
        answer or cannot remove it.
        """
        try:
            with open_client(self.docker_host) as client, docker_errors("remove the container"):
                return self._remove(client)
        except EbbtideError as error:
            # On one line: each node of the cluster may add an error.
            raise HarnessError(error.what + (f" ({error.got or error.where})")) from None

    def describe(self) -> str:
        """Return how messages name the container."""
        return f"container {self.name}"

    def _remove(self, client: docker.DockerClient) -> bool:
        from docker.errors import NotFound

        try:
            found = client.api.inspect_container(self.name)
            if (found["Config"].get("Labels") or {}).get(RUN) != self.run_id:
                return False
            client.api.remove_container(found["Id"], v=True, force=True)
        except NotFound:
            return False
        return True


def abandoned_containers(known: Collection[str]) -> list[Container]:
    """Return the containers of runs whose harness is dead; empty without a daemon.

    Containers of the run ids `known` are left out.
    """
    host = docker_host()
    if not os.path.exists(host.removeprefix("unix://")):
        return []
    try:
        with open_client(host) as client, docker_errors("list containers"):
            found = client.api.containers(all=True, filters={"label": RUN})
    except EbbtideError:
        return []
    return [
        Container(docker_host=host, name=one["Names"][0].lstrip("/"), run_id=one["Labels"][RUN])
        for one in found
        if one["Labels"][RUN] not in known and not _is_owner_alive(one["Labels"])
    ]


def docker_host() -> str:
    """Return the address of the Docker daemon: DOCKER_HOST, or the default socket."""
    return os.environ.get("DOCKER_HOST") or DEFAULT_HOST


@contextlib.contextmanager
def open_client(host: str) -> Iterator[docker.DockerClient]:
    """Yield a client of the daemon at `host`, closed at the end.

    Raises `HarnessError` when no daemon answers.
    """
    client = connect(host)
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def docker_errors(request: str) -> Iterator[None]:
    """Turn errors of the Docker client into a `HarnessError` that names `request`.

    It covers a refusal by the daemon, and a daemon that went away meanwhile.
    """
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except APIError as error:
        raise HarnessError(f"the Docker daemon cannot {request}", got=str(error.explanation or error)) from None
    except (DockerException, RequestException, OSError) as error:
        raise HarnessError(
            f"the connection to the Docker daemon broke when it was asked to {request}",
            where=docker_host(),
            got=str(error),
            next="start the daemon again, then: ebbtide clean",
        ) from None


def _is_owner_alive(labels: dict[str, str]) -> bool:
    boot, _, ticks = labels.get(STARTED, "").partition("/")
    pid = labels.get(OWNER_PID, "")
    if not (pid.isdigit() and ticks.isdigit()):
        # This program did not write the labels, so that nothing is known about an owner.
        return True
    return is_alive(ProcessId(pid=int(pid), start_ticks=int(ticks), boot_id=boot))
