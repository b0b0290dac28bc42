"""Infers the minor release of a broker from the metadata.version levels that it supports."""

from __future__ import annotations

from packaging.version import Version

from ebbtide.releases.feature_levels import METADATA_VERSION, newest_levels
from ebbtide.releases.known_releases import KNOWN


def minor_release_of(newest_supported: int) -> str | None:
    """Return the minor release, such as 4.3, whose newest metadata.version that is; None if unknown.

    Every minor release has a newest level of its own. A broker that accepts unstable levels
    (`unstable.feature.versions.enable`) may show that of a later release.
    """
    for (major, minor), levels in newest_levels().items():
        if levels[METADATA_VERSION] == newest_supported:
            return f"{major}.{minor}"
    return None


def patches_of(minor: str) -> tuple[str, ...]:
    """Return the known releases of a minor release, the oldest first."""
    wanted = Version(minor).release[:2]
    return tuple(one.version for one in KNOWN if Version(one.version).release[:2] == wanted)
