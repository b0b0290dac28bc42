"""Finds the image of a Kafka release on this host."""

from __future__ import annotations

import docker
import msgspec
from docker.errors import APIError, ImageNotFound

from cluster.host.containers import DockerError
from ebbtide.errors import UsageError
from ebbtide.releases.builds import is_build
from ebbtide.releases.known_releases import version_of

_OWN = "ebbtide/kafka"
_OFFICIAL = "apache/kafka"
IS_KAFKA = "org.ebbtide.image=kafka"
RELEASE = "org.ebbtide.kafka"
CLASS_ARCHIVE = "org.ebbtide.class-archive"


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image on this host: its reference, its content id, and why it was chosen.

    `class_archive`: it has a class archive at /opt/kafka/classes.jsa, for its own Java and the jars of
    /opt/kafka/libs in the order of their names.
    """

    reference: str
    id: str
    why: str
    class_archive: bool = False


class BuiltImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image that was built on this host."""

    kafka: str
    reference: str
    id: str
    size_bytes: int


def own_reference(kafka: str) -> str:
    """Return the reference of the image of a release that is built on this host."""
    return f"{_OWN}:{kafka.replace('@', '-')}"


def official_reference(kafka: str) -> str:
    """Return the reference of the Kafka project's own image of a release (KIP-975)."""
    return f"{_OFFICIAL}:{kafka}"


def find_image(client: docker.DockerClient, kafka: str, asked: str | None = None) -> Image | None:
    """Return the image on this host for release `kafka`; None if it is missing.

    `asked` is the user's choice, any reference; its release is not checked. Raises `UsageError` when `asked` is not
    on this host, `DockerError` when the daemon fails.
    """
    if asked is not None:
        found = _find(client, asked, "named by the user")
        if found is None:
            raise UsageError(
                "no such image on this host", got=asked, where="the Docker daemon", next=f"docker pull {asked}"
            )
        return found
    if is_build(kafka):
        return find_own_image(client, kafka, "built on this host from its jars")
    return _find(client, official_reference(kafka), "the Kafka project's image, on this host") or find_own_image(
        client, kafka, f"built on this host; {official_reference(kafka)} is not here"
    )


def find_own_image(client: docker.DockerClient, kafka: str, why: str) -> Image | None:
    """Return the image of release `kafka` that was built on this host, or None."""
    return _find(client, own_reference(kafka), why)


def built_images(client: docker.DockerClient) -> list[BuiltImage]:
    """Return the images that were built on this host, oldest release first."""
    try:
        images = client.images.list(name=_OWN, filters={"label": IS_KAFKA})
    except APIError as error:
        raise DockerError("the Docker daemon cannot list its images", got=str(error.explanation)) from None
    found = [
        BuiltImage(kafka=image.labels[RELEASE], reference=tag, id=str(image.id), size_bytes=image.attrs["Size"])
        for image in images
        for tag in image.tags
        if tag.startswith(f"{_OWN}:") and RELEASE in image.labels
    ]
    return sorted(found, key=lambda image: version_of(image.kafka))


def remove_image(client: docker.DockerClient, kafka: str) -> bool:
    """Remove the image of release `kafka` that was built here; False if there is none.

    Raises `DockerError` when a container, running or not, was made from it.
    """
    try:
        client.images.remove(own_reference(kafka))
    except ImageNotFound:
        return False
    except APIError as error:
        raise DockerError(
            "the Docker daemon cannot remove an image",
            got=f"{own_reference(kafka)}: {error.explanation}",
            next=f"docker ps --all --filter ancestor={own_reference(kafka)}",
        ) from None
    return True


def _find(client: docker.DockerClient, reference: str, why: str) -> Image | None:
    try:
        image = client.images.get(reference)
    except ImageNotFound:
        return None
    except APIError as error:
        raise DockerError(
            "the Docker daemon cannot look for an image", got=f"{reference}: {error.explanation}"
        ) from None
    return Image(
        reference=reference, id=str(image.id), why=why, class_archive=image.labels.get(CLASS_ARCHIVE) == "true"
    )
