"""Formats the nodes' log directories with the release's own StorageTool."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence

from ebbtide.releases.feature_levels import levels_of, metadata_version_name, uses_metadata_version_name
from ebbtide.releases.known_releases import METADATA_VERSION

TOOL = "kafka.tools.StorageTool"


def cluster_id(run_id: str) -> str:
    """Return a cluster id for a run: 16 bytes in URL-safe base64.

    It is the same for every node.
    """
    return _id_of(run_id)


def directory_id(run_id: str, node_id: int) -> str:
    """Return the directory id of the first disk of a controller that is a voter from the start."""
    return _id_of(f"{run_id}/{node_id}")


def _id_of(seed: str) -> str:
    salt = 0
    while True:
        digest = hashlib.md5(f"{seed}/{salt}".encode(), usedforsecurity=False).digest()
        text = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        # StorageTool would read a leading dash as an option.
        if not text.startswith("-"):
            return text
        salt += 1


def format_arguments(
    kafka: str, cluster: str, properties_file: str, features: Mapping[str, int], quorum: Sequence[str] = ()
) -> list[str]:
    """Return StorageTool's arguments for release `kafka` and the levels `features`.

    A level of 0 of a feature that the release does not have is the default anyway, and is left out. `quorum`: the
    arguments that a dynamic quorum needs. Raises `UsageError` for a metadata version that the release does not know.
    """
    known = levels_of(kafka)
    words = ["format", "--cluster-id", cluster, "--config", properties_file, *quorum]
    for name, level in sorted(features.items()):
        if level == 0 and known is not None and name not in known:
            continue
        if name == METADATA_VERSION and uses_metadata_version_name(kafka):
            words += ["--release-version", metadata_version_name(level, kafka)]
        else:
            words += ["--feature", f"{name}={level}"]
    return words
