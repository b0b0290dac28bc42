"""Runs a command as root through a privileged container of the Docker daemon.

It serves a user who may use the daemon and is not root. The container is only the way in: `nsenter` in it goes back
into the mounts and the root folder of the user's own process. There `helper_inside` runs the command with that
process's own stdin, stdout and stderr. Signals go over a socket pair; the end of the socket tells the other side that
the user's process has ended.
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
from ebbtide.command import module_command
from ebbtide.errors import HarnessError, UsageError
from ebbtide.places import cache_dir, state_dir
from ebbtide.privileges import home_dir

if TYPE_CHECKING:
    from docker import DockerClient

LABEL = "org.ebbtide.helper"
"""The container's label; its value is the user's process. A container that its user never started is removed."""

# Not `privileged`: it asks for every capability, and fails to start where the daemon itself lacks one of them.
_CAPABILITIES = ("SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "DAC_READ_SEARCH")
"""In addition to Docker's default capabilities: for namespaces and mounts, networks, and the user's own process."""

NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Keeps root's Python from writing files beside the modules, which may be in the user's own checkout."""

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_ELSEWHERE = "elsewhere"
# The container sees the daemon's processes. They include this process only where both run on one kernel. The id of
# the mount namespace is unique on a kernel, so that it identifies this process.
_SCRIPT = f"""
process=$1 boot=$2 mounts=$3
shift 3
[ "$(cat /proc/sys/kernel/random/boot_id)" = "$boot" ] || {{ echo {_ELSEWHERE}; exit 1; }}
[ "$(readlink /proc/$process/ns/mnt)" = "$mounts" ] || {{ echo {_ELSEWHERE}; exit 1; }}
exec nsenter -t "$process" -m -r -- /bin/sh -c 'cd "/proc/$0/cwd" && exec "$@"' "$process" "$@"
"""


class Unusable(HarnessError):
    """A helper container cannot be used here; the message says why."""


class NoDaemon(Unusable):
    """No Docker daemon answers this user."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The order for `helper_inside`: the command, the user, and who asks.

    `control` is the number of `helper_inside`'s end of the socket pair, a file descriptor of `process`.
    """

    process: ProcessId
    control: int
    command: tuple[str, ...]
    folders: tuple[str, ...]
    user: int
    group: int


class Helper:
    """A Docker client and an image from which helper containers are started."""

    def __init__(self, client: DockerClient, image: str) -> None:
        """Private: use `open_helper`."""
        self._client = client
        self._image = image

    def run(self, command: Sequence[str], folders: Sequence[Path]) -> int:
        """Run `command` as root, as if this process ran it; returns its exit code.

        The command has this process's folder, environment and terminal. Files that root creates in `folders` and in
        the user's own folders (cache, state, Maven's) are handed to the user. Raises `HarnessError` when the
        container fails, `UsageError` for a folder that cannot be made.
        """
        own = (*(folder.absolute() for folder in folders), cache_dir(), state_dir(), home_dir() / ".m2")
        for folder in own:
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(
                    "a folder cannot be made there",
                    where=str(folder.parent),
                    got=error.strerror,
                    next="make the folder, or name another folder",
                ) from None
        ours, theirs = socket.socketpair()
        with ours, theirs, _forward_signals(ours):
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
                raise _ended_early_error(said) from None

    def _run_container(self, order: Order) -> str:
        """Start the container and wait for its end; returns its output.

        The container itself writes only errors.
        """
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
                    *module_command("cluster.privileges.helper_inside"),
                    msgspec.json.encode(order).decode(),
                ],
                name=f"ebbtide-helper-{process.pid}-{os.urandom(3).hex()}",
                labels={LABEL: msgspec.json.encode(process).decode()},
                environment=NO_BYTECODE | {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
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
            # Attach before the start, so that no output is missed, and the end is not missed either.
            stream = container.attach(stream=True, stdout=True, stderr=True)
            container.start()
            return b"".join(stream).decode(errors="replace").strip()
        except (APIError, RequestException) as error:
            raise HarnessError("the Docker daemon cannot run a helper container", got=str(error)) from None


@contextlib.contextmanager
def open_helper(note: Callable[[str], None]) -> Iterator[Helper]:
    """Yield a helper whose Docker client is open; builds an image where none exists.

    Raises `Unusable`.
    """
    with _open_root_daemon() as client:
        _remove_never_started(client)
        yield Helper(client, _find_or_build_image(client, note))


@contextlib.contextmanager
def _open_root_daemon() -> Iterator[DockerClient]:
    """Yield a client of a daemon that runs as root on this machine. Raises `Unusable`."""
    host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if not host.startswith("unix://"):
        raise _remote_daemon_error(f"DOCKER_HOST={host}")
    if tuple(int(part) for part in platform.release().split(".")[:2]) < (5, 6):
        raise Unusable("a helper container needs Linux 5.6", got=platform.release())
    from cluster.host.containers import DockerError, connect

    try:
        client = connect()
    except DockerError as error:
        raise NoDaemon(error.what, where=error.where, got=error.got, next=error.next) from None
    with contextlib.closing(client):
        facts = client.info()
        if facts.get("OperatingSystem") == "Docker Desktop":
            raise _remote_daemon_error("Docker Desktop")
        if any("rootless" in option for option in facts.get("SecurityOptions") or ()):
            raise Unusable("the Docker daemon does not run as root", next="use a daemon that root runs")
        yield client


def why_unavailable() -> str | None:
    """Return why this user cannot have a helper container; None when they can.

    Whether an image can be built is not checked.
    """
    try:
        with _open_root_daemon():
            return None
    except Unusable as refusal:
        return refusal.what + (f" ({refusal.got})" if refusal.got else "")


def _find_or_build_image(client: DockerClient, note: Callable[[str], None]) -> str:
    """Return the reference of any image with a shell and nsenter.

    Kafka's own image serves, since it is needed anyway.
    """
    from cluster.images import build, find
    from cluster.jars import releases
    from ebbtide.releases.known_releases import KNOWN

    built = find.built_images(client)
    if built:
        return built[-1].reference
    cached = [release.version for release in releases.cached_releases() if release.problem is None]
    kafka = cached[-1] if cached else KNOWN[-1].version
    found = find.find_image(client, kafka)
    if found is not None:
        return found.reference
    lacking = build.why_not_buildable(kafka)
    if lacking is not None:
        raise Unusable("no image for a helper container", got=lacking, next=f"ebbtide kafka image build {kafka}")
    return build.build_image(client, kafka, note).reference


def _remove_never_started(client: DockerClient) -> None:
    """Remove helper containers whose user died after making and before starting them."""
    from docker.errors import APIError

    for container in client.api.containers(all=True, filters={"label": LABEL, "status": "created"}):
        owner = msgspec.json.decode(container["Labels"][LABEL], type=ProcessId)
        if not is_alive(owner):
            with contextlib.suppress(APIError):
                client.api.remove_container(container["Id"])


@contextlib.contextmanager
def _forward_signals(control: socket.socket) -> Iterator[None]:
    """Send this process's signals to the command instead, while the context is open."""

    def send(number: int, _frame: object) -> None:
        with contextlib.suppress(OSError):  # the command has ended
            control.send(bytes([number]))

    before = {number: signal.signal(number, send) for number in _FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ended_early_error(said: str) -> HarnessError:
    if said == _ELSEWHERE:
        return _remote_daemon_error("a helper container does not see this process")
    return HarnessError("the helper container ended before the command did", got=said or None, next="ebbtide clean")


def _remote_daemon_error(got: str) -> Unusable:
    return Unusable(
        "the Docker daemon is not on this machine, and a cluster must be on the daemon's machine",
        got=got,
        next="run ebbtide on the daemon's machine, or here with --runtime local",
    )
