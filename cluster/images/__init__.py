"""Docker images with Kafka: which one stands for a release, and building one where there is none.

An image named by the user is taken as it is; else the official `apache/kafka:<version>` if it is on this host;
else `ebbtide/kafka:<version>`, which is built here from the release's jars and this host's Java, without a
registry. Nothing is ever pulled: a run must not depend on what a name stands for today.
"""

from cluster.host.docker_daemon import DockerError, connect
from cluster.images.build import build_image, can_build
from cluster.images.find import Image, built_images, find_image, official, own, remove_image

__all__ = [
    "DockerError",
    "Image",
    "build_image",
    "built_images",
    "can_build",
    "connect",
    "find_image",
    "official",
    "own",
    "remove_image",
]
