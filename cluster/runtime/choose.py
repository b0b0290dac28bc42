"""Which runtime a run takes, and why: Docker where a daemon answers and has an image of the release, else local."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from cluster.host.ledger import Ledger
from cluster.runtime.base import PowerLossMethod, Runtime
from ebbtide.errors import EbbtideError, HarnessError, UsageError
from ebbtide.powers import held
from ebbtide.scenario.model import ClusterSpec

if TYPE_CHECKING:
    from cluster.images import Image

Asked = Literal["auto", "docker", "local"]


class DockerChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes in containers of `image`, made by a daemon of version `daemon`."""

    image: Image
    daemon: str

    name = "docker"

    def why(self) -> str:
        """A line for the one who runs it."""
        return f"runtime docker: daemon {self.daemon} answers, image {self.image.reference} ({self.image.why})"

    def facts(self) -> dict[str, str]:
        """What the manifest says of the host besides."""
        return {
            "docker": self.daemon,
            "image": self.image.reference,
            "image_id": self.image.id,
            "image_why": self.image.why,
        }


class LocalChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes as children of the harness. `reason`: why, in a clause."""

    reason: str = "asked for"

    name = "local"

    def why(self) -> str:
        """A line for the one who runs it."""
        return f"runtime local: {self.reason}"

    def facts(self) -> dict[str, str]:
        """What the manifest says of the host besides."""
        return {}


Choice = DockerChoice | LocalChoice


def check_wish(asked: Asked, image: str | None, releases: int) -> None:
    """Raises `UsageError` where the options contradict each other."""
    if image is not None and asked == "local":
        raise UsageError("--image names an image for the docker runtime", got="--runtime local")
    if image is not None and releases > 1:
        raise UsageError("--image names one image, which holds one release", got=f"{releases} releases in --kafka")


def choose_runtime(asked: Asked, kafka: str, image: str | None, note: Callable[[str], None]) -> Choice:
    """The runtime for a run of release `kafka`; `image` (any reference) means docker.

    Builds an image where none is there; `note` hears of it. Raises `EbbtideError` when docker was asked for and
    cannot be; `auto` then takes the local runtime and says why.
    """
    if asked == "local":
        return LocalChoice()
    if asked == "docker" or image is not None:
        return _docker(kafka, image, note)
    if held() == "user namespace":
        return LocalChoice(reason="a user namespace cannot enter what a Docker daemon makes")
    try:
        return _docker(kafka, None, note)
    except HarnessError as error:
        return LocalChoice(reason=_in_a_clause(error))


def open_runtime(
    choice: Choice,
    *,
    spec: ClusterSpec,
    kafka: str,
    folder: Path,
    ledger: Ledger,
    power_loss_method: PowerLossMethod,
    hold_write_back: bool,
) -> Runtime:
    """The chosen runtime for one run, nothing of it made yet. Raises `HarnessError` without what it starts from."""
    # Each brings libraries along that the other does without.
    match choice:
        case DockerChoice():
            from cluster.runtime.docker import DockerRuntime

            return DockerRuntime(
                spec=spec,
                kafka=kafka,
                image=choice.image,
                folder=folder,
                ledger=ledger,
                power_loss_method=power_loss_method,
                hold_write_back=hold_write_back,
            )
        case LocalChoice():
            from cluster.runtime.jvm import installation_of
            from cluster.runtime.local import LocalRuntime

            return LocalRuntime(
                spec=spec,
                installation=installation_of(kafka),
                folder=folder,
                ledger=ledger,
                power_loss_method=power_loss_method,
                hold_write_back=hold_write_back,
            )


def _docker(kafka: str, asked: str | None, note: Callable[[str], None]) -> DockerChoice:
    from cluster.host.containers import docker_errors, docker_host, open_client
    from cluster.images import build_image, can_build, find_image

    if held() == "user namespace":
        raise _unreachable("root's powers reach no further than a user namespace")
    if not docker_host().startswith("unix://"):
        raise _unreachable(f"DOCKER_HOST={docker_host()}")
    with open_client(docker_host()) as client:
        with docker_errors("say what it is"):
            facts = client.info()
        if facts.get("OperatingSystem") == "Docker Desktop":
            raise _unreachable("Docker Desktop, whose containers are in a virtual machine")
        if any("rootless" in option for option in facts.get("SecurityOptions") or ()):
            raise _unreachable("a daemon that is not root itself")
        image = find_image(client, kafka, asked)
        if image is None:
            if (lacking := can_build(kafka)) is not None:
                raise HarnessError(
                    f"no image of Kafka {kafka}, and none can be built", got=lacking, next="--image REFERENCE"
                )
            image = build_image(client, kafka, note)
    return DockerChoice(image=image, daemon=str(facts["ServerVersion"]))


def _unreachable(got: str) -> HarnessError:
    return HarnessError(
        "the docker runtime takes a daemon of this host that root runs: containers are broken from outside",
        got=got,
        next="--runtime local",
    )


def _in_a_clause(error: EbbtideError) -> str:
    return error.what + "".join(f" ({text})" for text in (error.where, error.got) if text)
