"""Validates Kafka's features and the feature levels of a cluster.

The question is whether a release can format storage with these levels.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ebbtide.errors import UsageError
from ebbtide.releases import first_with
from ebbtide.releases.feature_levels import levels_of, metadata_version_name, uses_metadata_version_name
from ebbtide.releases.known_releases import ELR_VERSION, KRAFT_VERSION, METADATA_VERSION, version_of
from ebbtide.scenario.model import ClusterSpec
from ebbtide.suggestions import bracketed_suggestion, nearest_words

FEATURES = (
    METADATA_VERSION,
    ELR_VERSION,
    KRAFT_VERSION,
    "transaction.version",
    "group.version",
    "share.version",
    "streams.version",
)
"""The features that Kafka finalises, from its `Feature` enum, `MetadataVersion` and `KRaftVersion`."""

_UNSTABLE = "unstable.feature.versions.enable"
_ENDING = ".version"
_INITIALS_MIN = 2
_ABSENT = range(1)
"""Level 0 of a feature that a release does not have says what is so anyway."""


def validate_feature_name(name: str, where: str) -> Iterator[UsageError]:
    """A feature that no release has."""
    if name not in FEATURES:
        allowed = ", ".join(FEATURES) + _suggested_feature(name)
        yield UsageError("unknown feature", where=where, got=repr(name), allowed=allowed)


def _suggested_feature(name: str) -> str:
    """Return in brackets the feature that was probably meant, or an empty text.

    Every name ends with `.version`, so that this part makes no feature resemble another name.
    """
    features = {one.removesuffix(_ENDING): one for one in FEATURES}
    initials = _feature_of_initials(name)
    if initials is not None:
        return bracketed_suggestion(initials, FEATURES)
    first, dot, last = name.replace("-", ".").replace("_", ".").rpartition(".")
    own = first if dot and nearest_words(f".{last}", [_ENDING]) else name
    return bracketed_suggestion(own, features, shown=features)


def _feature_of_initials(name: str) -> str | None:
    """Return the only feature that people call by these initials, such as `elr`, `elr.version` or `tv2`."""
    short = name.lower().partition(".")[0].rstrip("0123456789")
    found = [one for one in FEATURES if "".join(word[0] for word in one.split(".")).startswith(short)]
    return found[0] if len(short) >= _INITIALS_MIN and len(found) == 1 else None


def has_level(kafka: str, name: str, level: int, cluster: ClusterSpec) -> bool:
    """Whether a cluster of release `kafka` can come to this level.

    The cluster is set up like this one. The answer holds as far as is known.
    """
    if name == KRAFT_VERSION:
        # A static quorum is formatted with level 0, and may come to others afterwards.
        return level == 0 or version_of(kafka) >= first_with.DYNAMIC_QUORUM
    try:
        validate_features(kafka, msgspec.structs.replace(cluster, features={name: level}))
    except UsageError:
        return False
    return True


def validate_features(kafka: str, cluster: ClusterSpec, *, where: str = "cluster.features, or --feature") -> None:
    """Raise `UsageError` if release `kafka` cannot format with the cluster's levels.

    The answer holds as far as is known. `where` is the place that names the levels.
    """
    known = levels_of(kafka)
    properties = (cluster.controller_properties, cluster.broker_properties)
    if known is not None and not any(one.get(_UNSTABLE) == "true" for one in properties):
        refused = {name: level for name, level in cluster.features.items() if level not in known.get(name, _ABSENT)}
        if refused:
            raise UsageError(
                f"Kafka {kafka} cannot be formatted with {'this level' if len(refused) == 1 else 'these levels'}",
                where=where,
                got=", ".join(f"{name} = {level}" for name, level in refused.items()),
                allowed="; ".join(_allowed_levels(name, known.get(name)) for name in refused),
                next="ebbtide kafka list",
            )
    level = cluster.features.get(METADATA_VERSION)
    if level is not None and uses_metadata_version_name(kafka):
        metadata_version_name(level, kafka)


def _allowed_levels(name: str, levels: range | None) -> str:
    if levels is None:
        return f"no {name}, which this release does not have"
    return f"{name} {levels[0]}" + (f" to {levels[-1]}" if len(levels) > 1 else "")
