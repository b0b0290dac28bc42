"""Builds `ebbtide/kafka:<version>` from a release's jars and this host's Java.

No registry is asked. The build context is made in a temporary folder and handed to the classic builder as a tar. Only
the tagged image stays, whether the build succeeds, fails or is interrupted: no container and no untagged image.

The root file system has a trimmed Java, glibc and a shell. It is byte for byte the same as long as the host's packages
are, so that all releases share its layers.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
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
from cluster.jars import releases
from ebbtide.errors import HarnessError
from ebbtide.java import find_java
from ebbtide.locks import await_lock
from ebbtide.places import cache_dir
from ebbtide.releases.known_releases import parse_version
from ebbtide.scratch import IMAGE, scratch_folder
from ebbtide.signals import defer_signals, unwind_on_signals
from ebbtide.waiting import WaitExpired, wait_until

JDK_INSTALL = "apt-get install --no-install-recommends default-jdk-headless"
BUSYBOX_INSTALL = "apt-get install --no-install-recommends busybox-static"

# What brokers and controllers of 3.3 to 4.4 load, by jdeps and by trying; java.desktop for java.beans.
_MODULES = (
    "java.base",
    "java.desktop",
    # for Java agents
    "java.instrument",
    "java.logging",
    "java.management",
    "java.naming",
    "java.net.http",
    "java.rmi",
    "java.security.jgss",
    "java.security.sasl",
    "java.sql",
    "jdk.crypto.ec",
    "jdk.management",
    "jdk.security.jgss",
    "jdk.unsupported",
    "jdk.zipfs",
)

_ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def missing_tool() -> str | None:
    """Return which tool is missing, and the command that installs it; or None."""
    if _jlink() is None:
        return f"no jlink on this host, which trims Java: {JDK_INSTALL}"
    if _busybox() is None:
        return f"no busybox on this host, the image's shell: {BUSYBOX_INSTALL}"
    return None


def make_rootfs(into: Path) -> None:
    """Fill the new folder `into`. Raises `HarnessError` when a tool fails."""
    jlink, busybox = _jlink(), _busybox()
    if jlink is None or busybox is None:
        raise HarnessError("no Kafka image can be built here", got=missing_tool())
    for folder in ("bin", "etc", "opt", "proc", "root", "run", "sys", "tmp", "usr/bin", "usr/sbin", "sbin", "var"):
        (into / folder).mkdir(parents=True)
    (into / "tmp").chmod(0o1777)
    for name, text in _ETC.items():
        (into / "etc" / name).write_text(text)
    _run(
        [
            str(jlink),
            f"--add-modules={','.join(_MODULES)}",
            # Not --strip-debug, which needs binutils: a packaged Java's libraries have no symbols left to strip.
            "--strip-java-debug-attributes",
            "--no-header-files",
            "--no-man-pages",
            # Its libraries for windows and fonts would need X11's libraries.
            "--exclude-files=/java.desktop/lib/**",
            f"--output={into / 'opt/java'}",
        ]
    )
    _add_busybox(busybox, into)
    _add_libraries(into)


def _jlink() -> Path | None:
    """Return the jlink of the Java that runs Kafka here, or the jlink on PATH."""
    java = find_java()
    beside = java.executable.resolve().parent / "jlink" if java is not None else None
    if beside is not None and os.access(beside, os.X_OK):
        return beside
    on_path = shutil.which("jlink")
    return Path(on_path) if on_path is not None else None


def _busybox() -> Path | None:
    found = shutil.which("busybox")
    return Path(found) if found is not None else None


def _add_busybox(busybox: Path, into: Path) -> None:
    shutil.copyfile(busybox, into / "bin/busybox")
    (into / "bin/busybox").chmod(0o755)
    for applet in _run([str(busybox), "--list-full"]).split():
        link = into / applet
        if applet != "bin/busybox":
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to("/bin/busybox")


def _add_libraries(into: Path) -> None:
    """Copy each shared library that a program in `into` needs to its place in it."""
    programs = [path for path in sorted(into.rglob("*")) if path.is_file() and not path.is_symlink() and _is_elf(path)]
    missing: set[str] = set()
    for program in programs:
        # Java's own libraries find each other.
        own = {path.name for path in programs}
        for name, path in _libraries_of(program):
            if path is not None and not path.is_relative_to(into):
                target = into / str(path).lstrip("/")
                if not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, target)
                    target.chmod(0o755)
            elif path is None and name not in own:
                missing.add(f"{name} ({program.name})")
    if missing:
        raise HarnessError("libraries that the image needs are not on this host", got=", ".join(sorted(missing)))


def _libraries_of(program: Path) -> list[tuple[str, Path | None]]:
    """Return `(name, file)` of each library that `program` needs, with its loader.

    The file is None for a library that is not found.
    """
    # ldd ends with exit code 1 for a static program, which is not an error.
    listing = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    found = re.findall(r"^\s+(\S+) => (?:(/\S+) \(|not found)", listing, re.MULTILINE)
    loader = re.findall(r"^\s+(/\S+) \(", listing, re.MULTILINE)
    return [(name, Path(path) if path else None) for name, path in found] + [
        (Path(path).name, Path(path)) for path in loader
    ]


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _run(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip().splitlines()[-3:]
        raise HarnessError(
            f"{Path(argv[0]).name} failed",
            where=argv[0],
            got="; ".join(said) or f"exit code {done.returncode}",
            next=JDK_INSTALL if argv[0].endswith("jlink") else None,
        )
    return done.stdout


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
