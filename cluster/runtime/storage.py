"""Formats the nodes' log directories with the release's own StorageTool."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path

from packaging.version import Version

from ebbtide.errors import UsageError
from ebbtide.releases.feature_levels import METADATA_VERSION, levels_of
from ebbtide.scenario.model import ClusterSpec

TOOL = "kafka.tools.StorageTool"

# StorageTool takes --feature from 3.9 on. Before, the metadata version goes by name. From MetadataVersion.java.
_FIRST_WITH_FEATURE_OPTION = Version("3.9.0")
_METADATA_VERSIONS: Mapping[int, str] = {
    1: "3.0-IV1",
    2: "3.1-IV0",
    3: "3.2-IV0",
    4: "3.3-IV0",
    5: "3.3-IV1",
    6: "3.3-IV2",
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
}
_UNSTABLE = "unstable.feature.versions.enable"
_ABSENT = range(1)
"""Level 0 of a feature that a release does not have says what is so anyway."""


def cluster_id(run_id: str) -> str:
    """A cluster id for a run: 16 bytes in URL-safe base64, the same for every node."""
    salt = 0
    while True:
        digest = hashlib.md5(f"{run_id}/{salt}".encode(), usedforsecurity=False).digest()
        text = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        # StorageTool would read it as an option.
        if not text.startswith("-"):
            return text
        salt += 1


def format_arguments(kafka: str, cluster: str, properties_file: str, features: Mapping[str, int]) -> list[str]:
    """StorageTool's arguments for release `kafka`, formatting with the feature levels `features`.

    A level of 0 of a feature that the release does not have says what is so anyway, and is left out. Raises
    `UsageError` for a metadata version that the release cannot be told.
    """
    known = levels_of(kafka)
    words = ["format", "--cluster-id", cluster, "--config", properties_file]
    for name, level in sorted(features.items()):
        if level == 0 and known is not None and name not in known:
            continue
        if name == METADATA_VERSION and Version(kafka) < _FIRST_WITH_FEATURE_OPTION:
            words += ["--release-version", _name_of(level, kafka)]
        else:
            words += ["--feature", f"{name}={level}"]
    return words


def cluster_id_in(data_dir: Path) -> str | None:
    """The cluster id in the meta.properties of a log directory; None where it is missing or says none."""
    try:
        lines = (data_dir / "meta.properties").read_text("utf-8").splitlines()
    except OSError:
        return None
    return next((line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id=")), None)


def check_features(kafka: str, cluster: ClusterSpec, *, where: str = "cluster.features, or --feature") -> None:
    """Raises `UsageError` when release `kafka` cannot be formatted with the cluster's levels, as far as is known.

    `where`: where the levels were named.
    """
    known = levels_of(kafka)
    properties = (cluster.controller_properties, cluster.broker_properties)
    if known is not None and not any(one.get(_UNSTABLE) == "true" for one in properties):
        wrong = {name: level for name, level in cluster.features.items() if level not in known.get(name, _ABSENT)}
        if wrong:
            raise UsageError(
                f"Kafka {kafka} cannot be formatted with {'this level' if len(wrong) == 1 else 'these levels'}",
                where=where,
                got=", ".join(f"{name} = {level}" for name, level in wrong.items()),
                allowed="; ".join(_allowed(name, known.get(name)) for name in wrong),
                next="ebbtide kafka list",
            )
    format_arguments(kafka, "", "", cluster.features)


def _allowed(name: str, levels: range | None) -> str:
    if levels is None:
        return f"no {name}, which this release does not have"
    return f"{name} {levels[0]}" + (f" to {levels[-1]}" if len(levels) > 1 else "")


def _name_of(level: int, kafka: str) -> str:
    name = _METADATA_VERSIONS.get(level)
    if name is None:
        raise UsageError(
            f"no such metadata version in Kafka {kafka}",
            where="cluster.features",
            got=f"metadata.version = {level}",
            allowed=f"{min(_METADATA_VERSIONS)} to {max(_METADATA_VERSIONS)}",
        )
    return name
