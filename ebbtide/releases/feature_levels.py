"""The feature levels that each Kafka release can be formatted with.

They are from the releases' own `Feature` (3.8 and 3.9: `Features`), `MetadataVersion` and `KRaftVersion`: the newest
level that is ready for production. Other levels need `unstable.feature.versions.enable`.
"""

from __future__ import annotations

from collections.abc import Mapping

from packaging.version import Version

from ebbtide.errors import UsageError

METADATA_VERSIONS: dict[str, int] = {
    name: level
    for level, name in enumerate(
        (
            "3.0-IV1",
            "3.1-IV0",
            "3.2-IV0",
            *(f"3.3-IV{patch}" for patch in range(4)),
            "3.4-IV0",
            *(f"3.5-IV{patch}" for patch in range(3)),
            *(f"3.6-IV{patch}" for patch in range(3)),
            *(f"3.7-IV{patch}" for patch in range(5)),
            "3.8-IV0",
            "3.9-IV0",
            *(f"4.0-IV{patch}" for patch in range(4)),
            "4.1-IV0",
            "4.1-IV1",
            "4.2-IV0",
            "4.2-IV1",
            "4.3-IV0",
            *(f"4.4-IV{patch}" for patch in range(3)),
        ),
        start=1,
    )
}
"""The names of metadata.version's feature levels (KIP-778)."""

METADATA_VERSION = "metadata.version"
ELR_VERSION = "eligible.leader.replicas.version"
KRAFT_VERSION = "kraft.version"

_FIRST_WITH_FEATURE_OPTION = Version("3.9.0")
"""From this release on StorageTool has --feature. Before, the metadata version is given by name."""

_FIRST_WITH_MINIMUM_3_3_IV3 = (4, 0)
_3_3_IV0, _3_3_IV3 = 4, 7
"""The oldest metadata versions that StorageTool formats with, before 4.0 and from 4.0 on."""

# A static quorum, as `properties_of` sets it up, is kraft.version 0.
_IN_3_9 = {KRAFT_VERSION: 0, "transaction.version": 0}
_IN_4_0 = {KRAFT_VERSION: 0, "transaction.version": 2, "group.version": 1, ELR_VERSION: 1}
_NEWEST: Mapping[tuple[int, int], Mapping[str, int]] = {
    (3, 3): {METADATA_VERSION: 7},
    (3, 4): {METADATA_VERSION: 8},
    (3, 5): {METADATA_VERSION: 11},
    (3, 6): {METADATA_VERSION: 14},
    (3, 7): {METADATA_VERSION: 19},
    (3, 8): {METADATA_VERSION: 20},
    (3, 9): {METADATA_VERSION: 21, **_IN_3_9},
    (4, 0): {METADATA_VERSION: 25, **_IN_4_0},
    (4, 1): {METADATA_VERSION: 27, **_IN_4_0, "share.version": 1, "streams.version": 0},
    (4, 2): {METADATA_VERSION: 29, **_IN_4_0, "share.version": 1, "streams.version": 1},
    (4, 3): {METADATA_VERSION: 30, **_IN_4_0, "share.version": 1, "streams.version": 1},
    (4, 4): {METADATA_VERSION: 33, **_IN_4_0, "share.version": 2, "streams.version": 1},
}


def levels_of(kafka: str) -> Mapping[str, range] | None:
    """Return each feature of release `kafka` and its levels; None if it is not known."""
    major, minor, _ = Version(kafka).release
    newest = _NEWEST.get((major, minor))
    if newest is None:
        return None
    oldest = _3_3_IV3 if (major, minor) >= _FIRST_WITH_MINIMUM_3_3_IV3 else _3_3_IV0
    return {name: range(oldest if name == METADATA_VERSION else 0, top + 1) for name, top in newest.items()}


def newest_levels() -> Mapping[tuple[int, int], Mapping[str, int]]:
    """Return each known minor release with the newest level of each of its features."""
    return _NEWEST


def newest_metadata_version(kafka: str) -> int:
    """Return the newest production-ready metadata.version of a known release.

    `kafka` is written as 4.3 or 4.3.1.
    """
    major, minor = Version(kafka).release[:2]
    return _NEWEST[major, minor][METADATA_VERSION]


def uses_metadata_version_name(kafka: str) -> bool:
    """Whether formatting `kafka` needs the metadata version's name."""
    return Version(kafka) < _FIRST_WITH_FEATURE_OPTION


def metadata_version_name(level: int, kafka: str) -> str:
    """Return the name of a metadata version of `kafka`, a release that uses names.

    Raises `UsageError` where there is none.
    """
    of_release = [name for name in METADATA_VERSIONS if Version(name.partition("-")[0]) < _FIRST_WITH_FEATURE_OPTION]
    names = {METADATA_VERSIONS[name]: name for name in of_release}
    if level not in names:
        raise UsageError(
            f"no such metadata version in Kafka {kafka}",
            where="cluster.features",
            got=f"metadata.version = {level}",
            allowed=f"{min(names)} to {max(names)}",
        )
    return names[level]
