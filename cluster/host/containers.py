"""The containers of runs: labelled, in the ledger before they exist, and removed.

A container is removed by its name, and only if its label names the run. The docker library is imported only when a
daemon is asked, so that a ledger without containers does not need it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import msgspec

from cluster.host.processes import ProcessId, identify, is_alive
from ebbtide.errors import EbbtideError, HarnessError

if TYPE_CHECKING:
    import docker

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
    from cluster.host.docker_daemon import DEFAULT_HOST

    return os.environ.get("DOCKER_HOST") or DEFAULT_HOST


@contextlib.contextmanager
def open_client(host: str) -> Iterator[docker.DockerClient]:
    """Yield a client of the daemon at `host`, closed at the end.

    Raises `HarnessError` when no daemon answers.
    """
    from cluster.host.docker_daemon import connect

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
