"""Formats the nodes' log directories with the release's own StorageTool."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path

from ebbtide.releases.feature_levels import (
    METADATA_VERSION,
    levels_of,
    metadata_version_name,
    uses_metadata_version_name,
)

TOOL = "kafka.tools.StorageTool"


def cluster_id(run_id: str) -> str:
    """Return a cluster id for a run: 16 bytes in URL-safe base64.

    It is the same for every node.
    """
    salt = 0
    while True:
        digest = hashlib.md5(f"{run_id}/{salt}".encode(), usedforsecurity=False).digest()
        text = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        # StorageTool would read a leading dash as an option.
        if not text.startswith("-"):
            return text
        salt += 1


def format_arguments(kafka: str, cluster: str, properties_file: str, features: Mapping[str, int]) -> list[str]:
    """Return StorageTool's arguments for release `kafka` and the levels `features`.

    A level of 0 of a feature that the release does not have is the default anyway, and is left out. Raises
    `UsageError` for a metadata version that the release does not know.
    """
    known = levels_of(kafka)
    words = ["format", "--cluster-id", cluster, "--config", properties_file]
    for name, level in sorted(features.items()):
        if level == 0 and known is not None and name not in known:
            continue
        if name == METADATA_VERSION and uses_metadata_version_name(kafka):
            words += ["--release-version", metadata_version_name(level, kafka)]
        else:
            words += ["--feature", f"{name}={level}"]
    return words


def cluster_id_in(data_dir: Path) -> str | None:
    """Return the cluster id in a log directory's meta.properties, or None."""
    try:
        lines = (data_dir / "meta.properties").read_text("utf-8").splitlines()
    except OSError:
        return None
    return next((line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id=")), None)
