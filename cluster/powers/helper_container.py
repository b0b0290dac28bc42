"""Runs a command as root through a privileged container, for a user who may use this host's Docker daemon.

The container is only the door: in it `nsenter` goes back into the mounts and the root folder of the user's own
process, where `helper_inside` runs the command with that process's own stdin, stdout and stderr. Signals go
over a socket pair, whose end tells the other side that the user's process is gone.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cluster.host.processes import ProcessId, identify, is_alive
from ebbtide.command import program
from ebbtide.errors import HarnessError, UsageError
from ebbtide.places import cache_dir, state_dir

if TYPE_CHECKING:
    from docker import DockerClient

LABEL = "org.ebbtide.helper"
"""On the container; its value says for whom it is, so that one whose user died before the start is removed."""

# `privileged` asks for all, and then does not start where the daemon itself lacks one.
_CAPABILITIES = ("SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "DAC_READ_SEARCH")
"""Beside Docker's default ones: namespaces and mounts, networks, and the user's own process."""

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_ELSEWHERE = "elsewhere"
# The container sees the daemon's processes. Ours is among them only where both are on one kernel, and the id of
# its mount namespace, unique on a kernel, tells that it is ours.
_SCRIPT = f"""
process=$1 boot=$2 mounts=$3
shift 3
[ "$(cat /proc/sys/kernel/random/boot_id)" = "$boot" ] || {{ echo {_ELSEWHERE}; exit 1; }}
[ "$(readlink /proc/$process/ns/mnt)" = "$mounts" ] || {{ echo {_ELSEWHERE}; exit 1; }}
exec nsenter -t "$process" -m -r -- /bin/sh -c 'cd "/proc/$0/cwd" && exec "$@"' "$process" "$@"
"""


class Unusable(HarnessError):
    """The helper container is no way here; says why."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What `helper_inside` is told. `control` is the number of its end of the socket pair in `process`."""

    process: ProcessId
    control: int
    command: tuple[str, ...]
    folders: tuple[str, ...]
    user: int
    group: int


class Helper:
    """A daemon and an image that a helper container can be started from."""

    def __init__(self, client: DockerClient, image: str) -> None:
        """Private: use `find`."""
        self._client = client
        self._image = image

    def run(self, command: Sequence[str], folders: Sequence[Path]) -> int:
        """Run `command` as root in this process's folder, with its environment and terminal; returns its exit code.

        What root makes meanwhile in `folders` and in the user's own (cache, state, Maven's) becomes the user's.
        Raises `HarnessError` when the container could not do it, `UsageError` for a folder that cannot be made.
        """
        own = (*(folder.absolute() for folder in folders), cache_dir(), state_dir(), Path.home() / ".m2")
        for folder in own:
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(
                    "a folder cannot be made there",
                    where=str(folder.parent),
                    got=error.strerror,
                    next="make it, or name another one",
                ) from None
        ours, theirs = socket.socketpair()
        with ours, theirs, _passing_on(ours):
            order = Order(
                process=identify(os.getpid()),
                control=theirs.fileno(),
                command=tuple(command),
                folders=tuple(map(str, own)),
                user=os.getuid(),
                group=os.getgid(),
            )
            said = self._run_container(order)
            ours.setblocking(False)
            try:
                return ours.recv(1)[0]
            except BlockingIOError:
                raise _ended_early(said) from None

    def _run_container(self, order: Order) -> str:
        """Start it and wait for its end; returns what it said itself, which is only ever an error."""
        from docker.errors import APIError
        from requests.exceptions import RequestException

        process = order.process
        try:
            container = self._client.containers.create(
                self._image,
                entrypoint=["/bin/sh", "-c", _SCRIPT, "ebbtide-helper"],
                command=[
                    str(process.pid),
                    process.boot_id,
                    os.readlink("/proc/self/ns/mnt"),
                    *program("cluster.powers.helper_inside"),
                    msgspec.json.encode(order).decode(),
                ],
                name=f"ebbtide-helper-{process.pid}-{os.urandom(3).hex()}",
                labels={LABEL: msgspec.json.encode(process).decode()},
                environment={name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
                working_dir="/",
                user="0",
                cap_add=list(_CAPABILITIES),
                device_cgroup_rules=["a *:* rwm"],
                security_opt=["seccomp=unconfined", "apparmor=unconfined", "label=disable"],
                pid_mode="host",
                network_mode="host",
                ipc_mode="host",
                uts_mode="host",
                userns_mode="host",
                stop_signal="SIGTERM",
                auto_remove=True,
            )
            # Before the start, so that no word and no end is missed.
            stream = container.attach(stream=True, stdout=True, stderr=True)
            container.start()
            return b"".join(stream).decode(errors="replace").strip()
        except (APIError, RequestException) as error:
            raise HarnessError("the Docker daemon does not run a helper container", got=str(error)) from None


@contextlib.contextmanager
def find(note: Callable[[str], None]) -> Iterator[Helper]:
    """A helper, its client open while inside; builds an image where there is none. Raises `Unusable`."""
    with _daemon() as client:
        _remove_never_started(client)
        yield Helper(client, _image(client, note))


@contextlib.contextmanager
def _daemon() -> Iterator[DockerClient]:
    """A client of a daemon that is root on this machine. Raises `Unusable`."""
    host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if not host.startswith("unix://"):
        raise _remote(f"DOCKER_HOST={host}")
    if tuple(int(part) for part in platform.release().split(".")[:2]) < (5, 6):
        raise Unusable("a helper container takes Linux 5.6", got=platform.release())
    from cluster.images import DockerError, connect

    try:
        client = connect()
    except DockerError as error:
        raise Unusable(error.what, where=error.where, got=error.got, next=error.next) from None
    with contextlib.closing(client):
        facts = client.info()
        if facts.get("OperatingSystem") == "Docker Desktop":
            raise _remote("Docker Desktop")
        if any("rootless" in option for option in facts.get("SecurityOptions") or ()):
            raise Unusable("the Docker daemon is not root itself", next="a daemon that root runs")
        yield client


def why_not() -> str | None:
    """Why this user cannot have a helper container; None when they can, an image permitting."""
    try:
        with _daemon():
            return None
    except Unusable as refusal:
        return refusal.what + (f" ({refusal.got})" if refusal.got else "")


def _image(client: DockerClient, note: Callable[[str], None]) -> str:
    """Any image with a shell and nsenter: Kafka's, since it is needed anyway."""
    from cluster import images
    from cluster.jars import releases
    from ebbtide.releases.known import KNOWN

    built = images.built_images(client)
    if built:
        return built[-1].reference
    cached = [release.version for release in releases.cached() if release.problem is None]
    kafka = cached[-1] if cached else KNOWN[-1].version
    found = images.find_image(client, kafka)
    if found is not None:
        return found.reference
    lacking = images.can_build(kafka)
    if lacking is not None:
        raise Unusable("no image for a helper container", got=lacking, next=f"ebbtide image build {kafka}")
    return images.build_image(client, kafka, note).reference


def _remove_never_started(client: DockerClient) -> None:
    """Remove helpers whose user died between making and starting them."""
    from docker.errors import APIError

    for container in client.api.containers(all=True, filters={"label": LABEL, "status": "created"}):
        owner = msgspec.json.decode(container["Labels"][LABEL], type=ProcessId)
        if not is_alive(owner):
            with contextlib.suppress(APIError):
                client.api.remove_container(container["Id"])


@contextlib.contextmanager
def _passing_on(control: socket.socket) -> Iterator[None]:
    """While inside, signals go to the command instead."""

    def send(number: int, _frame: object) -> None:
        with contextlib.suppress(OSError):  # it has ended
            control.send(bytes([number]))

    before = {number: signal.signal(number, send) for number in _PASSED_ON}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ended_early(said: str) -> HarnessError:
    if said == _ELSEWHERE:
        return _remote("a helper container does not see this process")
    return HarnessError("the helper container ended before the command did", got=said or None, next="ebbtide clean")


def _remote(got: str) -> Unusable:
    return Unusable(
        "the Docker daemon is not on this machine: a cluster's files and namespaces would be where it is",
        got=got,
        next="run ebbtide on the daemon's machine, or here with --runtime local",
    )
