"""Chooses the runtime of a run, and says why.

Docker where a daemon answers and has an image of the release, otherwise local.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from cluster.runtime.base import RuntimeSettings
from ebbtide.errors import HarnessError, UsageError
from ebbtide.privileges import current_privileges

if TYPE_CHECKING:
    from cluster.images.find import Image
    from cluster.runtime.cluster import Runtime

Asked = Literal["auto", "docker", "local"]


class DockerChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes in containers of `image`, made by a daemon of version `daemon`."""

    image: Image
    daemon: str

    name = "docker"

    def describe(self) -> str:
        """Return a line for the user that says which runtime was chosen, and why."""
        return f"runtime docker: daemon {self.daemon} answers, image {self.image.reference} ({self.image.why})"

    def host_facts(self) -> dict[str, str]:
        """Return what the manifest's `host` says about the runtime."""
        return {
            "docker": self.daemon,
            "image": self.image.reference,
            "image_id": self.image.id,
            "image_why": self.image.why,
        }


class LocalChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes as children of the harness. `reason` says why, in a clause."""

    reason: str = "asked for"

    name = "local"

    def describe(self) -> str:
        """Return a line for the user that says which runtime was chosen, and why."""
        return f"runtime local: {self.reason}"

    def host_facts(self) -> dict[str, str]:
        """Return what the manifest's `host` says about the runtime."""
        return {}


Choice = DockerChoice | LocalChoice


def check_options(asked: Asked, image: str | None, releases: int) -> None:
    """Raise `UsageError` where the options contradict each other."""
    if image is not None and asked == "local":
        raise UsageError("--image needs the docker runtime", got="--runtime local", next="--runtime docker")
    if image is not None and releases > 1:
        raise UsageError("--image names one image, which holds one release", got=f"{releases} releases")


def choose_runtime(asked: Asked, kafka: str, image: str | None, note: Callable[[str], None]) -> Choice:
    """Return the runtime for a run of release `kafka`; an `image` means docker.

    Builds an image where none exists; `note` is called with a line for each step. Raises `EbbtideError` when docker
    was asked for and is impossible; `auto` then chooses the local runtime and says why.
    """
    if asked == "local":
        return LocalChoice()
    if asked == "docker" or image is not None:
        return _choose_docker(kafka, image, note)
    if current_privileges() == "user namespace":
        return LocalChoice(reason="a user namespace cannot enter the namespaces of a Docker daemon's containers")
    try:
        return _choose_docker(kafka, None, note)
    except HarnessError as error:
        return LocalChoice(reason=error.as_clause())


def open_runtime(choice: Choice, settings: RuntimeSettings) -> Runtime:
    """Return the chosen runtime for one run; nothing of it is made yet.

    Raises `HarnessError` when the release or Java is missing.
    """
    # Each imports libraries that the other does not need.
    match choice:
        case DockerChoice():
            from cluster.runtime.docker import DockerRuntime

            return DockerRuntime(choice.image, settings)
        case LocalChoice():
            from cluster.runtime.jvm import installation_of
            from cluster.runtime.local import LocalRuntime

            return LocalRuntime(installation_of(settings.kafka), settings)


def _choose_docker(kafka: str, asked: str | None, note: Callable[[str], None]) -> DockerChoice:
    from cluster.host.containers import docker_errors, docker_host, open_client
    from cluster.images.build import build_image, why_not_buildable
    from cluster.images.find import find_image

    if current_privileges() == "user namespace":
        raise _unreachable_error("root's privileges end at the user namespace")
    if not docker_host().startswith("unix://"):
        raise _unreachable_error(f"DOCKER_HOST={docker_host()}")
    with open_client(docker_host()) as client:
        with docker_errors("describe itself"):
            facts = client.info()
        if facts.get("OperatingSystem") == "Docker Desktop":
            raise _unreachable_error("Docker Desktop, whose containers are in a virtual machine")
        if any("rootless" in option for option in facts.get("SecurityOptions") or ()):
            raise _unreachable_error("a daemon that does not run as root")
        image = find_image(client, kafka, asked)
        if image is None:
            if (lacking := why_not_buildable(kafka)) is not None:
                raise HarnessError(
                    f"no image of Kafka {kafka}, and none can be built", got=lacking, next="--image REFERENCE"
                )
            image = build_image(client, kafka, note)
    return DockerChoice(image=image, daemon=str(facts["ServerVersion"]))


def _unreachable_error(got: str) -> HarnessError:
    return HarnessError(
        "the docker runtime needs a daemon on this host that runs as root, since faults act from outside",
        got=got,
        next="--runtime local",
    )
