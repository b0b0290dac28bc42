"""Whether a Kafka release can be formatted with the feature levels of a cluster."""

from __future__ import annotations

from ebbtide.errors import UsageError
from ebbtide.releases.feature_levels import (
    METADATA_VERSION,
    levels_of,
    metadata_version_name,
    uses_metadata_version_name,
)
from ebbtide.scenario.model import ClusterSpec

_UNSTABLE = "unstable.feature.versions.enable"
_ABSENT = range(1)
"""Level 0 of a feature that a release does not have says what is so anyway."""


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
    level = cluster.features.get(METADATA_VERSION)
    if level is not None and uses_metadata_version_name(kafka):
        metadata_version_name(level, kafka)


def _allowed(name: str, levels: range | None) -> str:
    if levels is None:
        return f"no {name}, which this release does not have"
    return f"{name} {levels[0]}" + (f" to {levels[-1]}" if len(levels) > 1 else "")
