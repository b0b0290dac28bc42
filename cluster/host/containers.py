"""Containers that belong to a run: labelled with it, in the ledger before they exist, removed by name and label.

The docker library is imported only when a daemon is asked: a ledger without containers needs none.
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
"""When the owner was started, `<boot id>/<clock ticks since boot>`: a pid alone may be another process by now."""


def labels_of(run_id: str) -> dict[str, str]:
    """The labels of whatever this process makes in a Docker daemon for the run."""
    owner = identify(os.getpid())
    return {RUN: run_id, OWNER_PID: str(owner.pid), STARTED: f"{owner.boot_id}/{owner.start_ticks}"}


class Container(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="container"):
    """Ledger entry: the container `name` of a run, in the daemon at `docker_host`."""

    docker_host: str
    name: str
    run_id: str

    def undo(self) -> bool:
        """Kill and remove it and its anonymous volumes; True when it was there and labelled as this run's.

        Raises `HarnessError` when the daemon does not answer or cannot remove it.
        """
        try:
            with connected(self.docker_host) as client, asking("remove it"):
                return self._remove(client)
        except EbbtideError as error:
            # One line: there are as many as the cluster has nodes.
            raise HarnessError(error.what + (f" ({error.got or error.where})")) from None

    def describe(self) -> str:
        """For people."""
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


def ownerless(known: Collection[str]) -> list[Container]:
    """The containers of runs whose owner is dead, without the run ids `known`; none where no daemon answers."""
    host = docker_host()
    if not os.path.exists(host.removeprefix("unix://")):
        return []
    try:
        with connected(host) as client, asking("list its containers"):
            found = client.api.containers(all=True, filters={"label": RUN})
    except EbbtideError:
        return []
    return [
        Container(docker_host=host, name=one["Names"][0].lstrip("/"), run_id=one["Labels"][RUN])
        for one in found
        if one["Labels"][RUN] not in known and not _owner_lives(one["Labels"])
    ]


def docker_host() -> str:
    """The address of the daemon that DOCKER_HOST or the default names."""
    from cluster.host.docker_daemon import DEFAULT_HOST

    return os.environ.get("DOCKER_HOST") or DEFAULT_HOST


@contextlib.contextmanager
def connected(host: str) -> Iterator[docker.DockerClient]:
    """A client of the daemon at `host`, closed at the end. Raises `HarnessError` when none answers."""
    from cluster.host.docker_daemon import connect

    client = connect(host)
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def asking(doing: str) -> Iterator[None]:
    """What a daemon refuses, or a daemon that went away meanwhile, becomes a `HarnessError` in words."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except APIError as error:
        raise HarnessError(f"the Docker daemon cannot {doing}", got=str(error.explanation or error)) from None
    except (DockerException, RequestException, OSError) as error:
        raise HarnessError(
            f"the Docker daemon went away when asked to {doing}",
            where=docker_host(),
            got=str(error),
            next="start the daemon again, then: ebbtide clean",
        ) from None


def _owner_lives(labels: dict[str, str]) -> bool:
    boot, _, ticks = labels.get(STARTED, "").partition("/")
    pid = labels.get(OWNER_PID, "")
    if not (pid.isdigit() and ticks.isdigit()):
        # Not labelled by this program: not ours to judge.
        return True
    return is_alive(ProcessId(pid=int(pid), start_ticks=int(ticks), boot_id=boot))
