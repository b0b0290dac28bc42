"""Builds `ebbtide/kafka:<version>` from a release's jars and this host's Java, without a registry.

The build's context is put together in a temporary folder and handed to the classic builder as a tar. Nothing
but the tagged image outlives it, whether it ends well, fails or is interrupted: no container, no untagged image.
"""

from __future__ import annotations

import contextlib
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import IO

import docker
import filelock
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from cluster.host.docker_daemon import DockerError
from cluster.images.find import CLASS_ARCHIVE, IS_KAFKA, Image, find_own, own
from cluster.images.rootfs import make_rootfs, why_not
from cluster.jars import releases
from ebbtide.places import cache_dir
from ebbtide.releases.known import parse_version
from ebbtide.signals import held_back, unwinding
from ebbtide.waiting import WaitExpired, wait_until

# The oldest time that a jar can hold. The JVM compares each jar's time with the one in the class archive.
_MTIME_S = 315532800
_FILES = ("Dockerfile", "make-class-archive", "start-node")
_CANCEL_TIMEOUT_S = 20.0
_SHOWN_LINES = 12


def can_build(kafka: str) -> str | None:
    """Why no image of release `kafka` can be built on this host; None: it can, as far as can be told."""
    if (lacking := why_not()) is not None:
        return lacking
    here = any(release.version == kafka and release.problem is None for release in releases.cached())
    if not here and shutil.which("mvn") is None:
        return f"Kafka {kafka} is not in the cache, and there is no Maven to fetch it"
    return None


def build_image(client: docker.DockerClient, kafka: str, note: Callable[[str], None]) -> Image:
    """Build the image of release `kafka`, fetching its jars if need be (20 s once they are here).

    `note` hears of each step. Raises `UsageError` for what is no release, `HarnessError` when a tool is
    missing or the build fails.
    """
    parse_version(kafka)
    (release,) = releases.ensure([kafka])
    with unwinding(), _alone(note), tempfile.TemporaryDirectory(prefix="ebbtide-image-") as scratch:
        note(f"{own(kafka)}: trimming Java")
        rootfs = Path(scratch, "rootfs")
        make_rootfs(rootfs)
        with tempfile.TemporaryFile(dir=scratch) as context:
            _write_context(context, rootfs, release.jar_paths)
            note(f"{own(kafka)}: building, and starting a node once for the class archive")
            with _cleaned(client):
                _build(client, kafka, context)
    image = find_own(client, kafka, "just built")
    if image is None:
        raise DockerError("the image is gone right after it was built", got=own(kafka))
    return image


def _write_context(into: IO[bytes], rootfs: Path, jars: list[Path]) -> None:
    """The build's context as a tar: the same bytes for the same files."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = _MTIME_S
        return member

    with tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT) as tar:
        files = resources.files("cluster.images").joinpath("context")
        for name in _FILES:
            with resources.as_file(files.joinpath(name)) as path, path.open("rb") as content:
                member = plain(tar.gettarinfo(arcname=name, fileobj=content))
                # A wheel does not keep it.
                member.mode = 0o755
                tar.addfile(member, content)
        # TarFile.add walks a folder in the order of the names.
        tar.add(rootfs, "rootfs", filter=plain)
        for jar in sorted(jars, key=lambda path: path.name):
            tar.add(jar, f"jars/{jar.name}", filter=plain)
    into.seek(0)


def _build(client: docker.DockerClient, kafka: str, context: IO[bytes]) -> None:
    said: list[str] = []
    try:
        for event in client.api.build(
            fileobj=context,
            custom_context=True,
            tag=own(kafka),
            buildargs={"KAFKA": kafka},
            network_mode="none",
            rm=True,
            forcerm=True,
            decode=True,
        ):
            if "error" in event:
                raise _failed(kafka, [*said, event["error"]])
            said += [line for line in str(event.get("stream", "")).splitlines() if line.strip()]
    except (APIError, DockerException, RequestException) as error:
        raise _failed(kafka, [*said, str(error)]) from None


def _failed(kafka: str, said: list[str]) -> DockerError:
    return DockerError(
        f"the image of Kafka {kafka} cannot be built", got="\n           ".join(said[-_SHOWN_LINES:]).strip()
    )


@contextlib.contextmanager
def _alone(note: Callable[[str], None]) -> Iterator[None]:
    """One build at a time on a host: cleaning up takes what no other build needs."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(cache_dir() / ".image.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        note("waiting for another build to end")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _cleaned(client: docker.DockerClient) -> Iterator[None]:
    """Remove what builds left behind, this one and those that were killed: containers and untagged images."""
    try:
        yield
    finally:
        with held_back():
            remove_left_overs(client)


def remove_left_overs(client: docker.DockerClient) -> None:
    """Remove untagged images of Kafka that nothing uses, and containers of builds that ended early."""

    # The last line of the Dockerfile sets that label: without it, a container is a build's.
    def building() -> list[str]:
        return [
            container["Id"]
            for container in client.api.containers(all=True, filters={"label": IS_KAFKA})
            if CLASS_ARCHIVE not in container["Labels"]
        ]

    try:
        with contextlib.suppress(WaitExpired):
            # A daemon whose client has gone removes the container itself, a moment later.
            wait_until(
                lambda: not building(), awaited="the build's container to go", timeout_s=_CANCEL_TIMEOUT_S, poll_s=0.2
            )
        for container in building():
            client.api.remove_container(container, force=True)
        client.images.prune(filters={"dangling": True, "label": IS_KAFKA})
    except (APIError, RequestException) as error:
        raise DockerError("what a build left behind cannot be removed", got=str(error)) from None
