"""Connects to the Docker daemon that DOCKER_HOST names, and explains failures."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import docker
from docker.errors import DockerException
from requests.exceptions import Timeout

from ebbtide.errors import HarnessError
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
