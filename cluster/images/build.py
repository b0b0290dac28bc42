"""Builds `ebbtide/kafka:<version>` from a release's jars and this host's Java.

No registry is asked. The build context is made in a temporary folder and handed to the classic builder as a tar. Only
the tagged image stays, whether the build succeeds, fails or is interrupted: no container and no untagged image.
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
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from cluster.host.containers import DockerError
from cluster.images.find import CLASS_ARCHIVE, IS_KAFKA, Image, find_own_image, own_reference
from cluster.images.rootfs import make_rootfs, missing_tool
from cluster.jars import releases
from ebbtide.locks import await_lock
from ebbtide.places import cache_dir
from ebbtide.releases.known_releases import parse_version
from ebbtide.scratch import IMAGE, scratch_folder
from ebbtide.signals import defer_signals, unwind_on_signals
from ebbtide.waiting import WaitExpired, wait_until

# The oldest time that a jar can hold. The JVM compares each jar's time with the time in the class archive.
_MTIME_S = 315532800
_FILES = ("Dockerfile", "make-class-archive", "start-node")
_CANCEL_TIMEOUT_S = 20.0
_BUILD_TIMEOUT_S = 1800.0
"""How long a build waits for another one on the host."""
_SHOWN_LINES = 12


def why_not_buildable(kafka: str) -> str | None:
    """Return why no image of release `kafka` can be built here; None if one can.

    None does not promise that the build succeeds.
    """
    if (lacking := missing_tool()) is not None:
        return lacking
    here = any(release.version == kafka and release.problem is None for release in releases.cached_releases())
    if not here and shutil.which("mvn") is None:
        return f"Kafka {kafka} is not in the cache, and there is no Maven to fetch it"
    return None


def build_image(client: docker.DockerClient, kafka: str, note: Callable[[str], None]) -> Image:
    """Build the image of release `kafka`, and fetch its jars if they are missing.

    It takes 20 s once the jars are here. `note` is called with a line for each step. Raises `UsageError` for an
    unknown release, `HarnessError` when a tool is missing or the build fails.
    """
    parse_version(kafka)
    (release,) = releases.ensure([kafka])
    with unwind_on_signals(), _exclusive_build(note), scratch_folder(IMAGE) as scratch:
        note(f"{own_reference(kafka)}: trimming Java")
        rootfs = scratch / "rootfs"
        make_rootfs(rootfs)
        with tempfile.TemporaryFile(dir=scratch) as context:
            _write_context(context, rootfs, release.jar_paths)
            note(f"{own_reference(kafka)}: building, and starting a node once for the class archive")
            with _remove_left_overs_at_the_end(client):
                _build(client, kafka, context)
    image = find_own_image(client, kafka, "just built")
    if image is None:
        raise DockerError("the image disappeared right after it was built", got=own_reference(kafka))
    return image


def _write_context(into: IO[bytes], rootfs: Path, jars: list[Path]) -> None:
    """Write the build context as a tar: the same bytes for the same files."""

    def normalize(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = _MTIME_S
        return member

    with tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT) as tar:
        files = resources.files("cluster.images").joinpath("context")
        for name in _FILES:
            with resources.as_file(files.joinpath(name)) as path, path.open("rb") as content:
                member = normalize(tar.gettarinfo(arcname=name, fileobj=content))
                # A wheel does not keep the mode.
                member.mode = 0o755
                tar.addfile(member, content)
        # TarFile.add walks a folder in the order of its names.
        tar.add(rootfs, "rootfs", filter=normalize)
        for jar in sorted(jars, key=lambda path: path.name):
            tar.add(jar, f"jars/{jar.name}", filter=normalize)
    into.seek(0)


def _build(client: docker.DockerClient, kafka: str, context: IO[bytes]) -> None:
    said: list[str] = []
    try:
        for event in client.api.build(
            fileobj=context,
            custom_context=True,
            tag=own_reference(kafka),
            buildargs={"KAFKA": kafka},
            network_mode="none",
            rm=True,
            forcerm=True,
            decode=True,
        ):
            if "error" in event:
                raise _build_error(kafka, [*said, event["error"]])
            said += [line for line in str(event.get("stream", "")).splitlines() if line.strip()]
    except (APIError, DockerException, RequestException) as error:
        raise _build_error(kafka, [*said, str(error)]) from None


def _build_error(kafka: str, said: list[str]) -> DockerError:
    return DockerError(
        f"the image of Kafka {kafka} cannot be built", got="\n           ".join(said[-_SHOWN_LINES:]).strip()
    )


@contextlib.contextmanager
def _exclusive_build(note: Callable[[str], None]) -> Iterator[None]:
    """Allow one build at a time on a host.

    Removing left-overs would otherwise remove what another build needs.
    """
    cache_dir().mkdir(parents=True, exist_ok=True)
    with await_lock(cache_dir() / ".image.lock", purpose="another build to end", timeout_s=_BUILD_TIMEOUT_S, note=note):
        yield


@contextlib.contextmanager
def _remove_left_overs_at_the_end(client: docker.DockerClient) -> Iterator[None]:
    """Remove the left-overs of this build and of killed builds, when the block ends."""
    try:
        yield
    finally:
        with defer_signals():
            remove_left_overs(client)


def remove_left_overs(client: docker.DockerClient) -> None:
    """Remove unused untagged Kafka images, and containers of builds that ended early."""

    # The last line of the Dockerfile sets CLASS_ARCHIVE: a container without that label belongs to a build.
    def build_containers() -> list[str]:
        return [
            container["Id"]
            for container in client.api.containers(all=True, filters={"label": IS_KAFKA})
            if CLASS_ARCHIVE not in container["Labels"]
        ]

    try:
        with contextlib.suppress(WaitExpired):
            # A daemon whose client has disconnected removes the container itself, a moment later.
            wait_until(
                lambda: not build_containers(),
                awaited="the build's container to go",
                timeout_s=_CANCEL_TIMEOUT_S,
                poll_s=0.2,
            )
        for container in build_containers():
            client.api.remove_container(container, force=True)
        client.images.prune(filters={"dangling": True, "label": IS_KAFKA})
    except (APIError, RequestException) as error:
        raise DockerError("the left-overs of a build cannot be removed", got=str(error)) from None
