"""The feature levels that each Kafka release can be formatted with, and their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from packaging.version import Version

from ebbtide.errors import UsageError
from ebbtide.releases.builds import facts_of
from ebbtide.releases.known_releases import (
    KNOWN,
    METADATA_VERSION,
    KnownRelease,
    minor_number_of,
    version_of,
)


def _metadata_versions() -> Iterator[str]:
    """Yield the names of metadata versions in the order of their levels, as the releases added them."""
    yield from ("3.0-IV1", "3.1-IV0", "3.2-IV0")
    level = 3
    for known in KNOWN:
        for name in range(known.metadata_version - level):
            yield "{}.{}-IV{}".format(*known.minor, name)
        level = known.metadata_version


METADATA_VERSIONS: dict[str, int] = {name: level for level, name in enumerate(_metadata_versions(), start=1)}
"""The names of metadata.version's feature levels (KIP-778)."""

_FIRST_WITH_FEATURE_OPTION = Version("3.9.0")
"""From this release on StorageTool has --feature. Before, the metadata version is given by name."""

_FIRST_WITH_MINIMUM_3_3_IV3 = (4, 0)
_3_3_IV0, _3_3_IV3 = 4, 7
"""The oldest metadata versions that StorageTool formats with, before 4.0 and from 4.0 on."""


def levels_of(kafka: str) -> Mapping[str, range] | None:
    """Return each feature of release `kafka` and its levels; None if it is not known.

    A build says them itself, if its classes can and this host has it. Else those of its version count.
    """
    own = facts_of(kafka)
    if own is not None and own.levels:
        return {name: range(oldest, newest + 1) for name, (oldest, newest) in own.levels.items()}
    known = _patch_of(kafka)
    if known is None:
        return None
    oldest = _3_3_IV3 if known.minor >= _FIRST_WITH_MINIMUM_3_3_IV3 else _3_3_IV0
    newest = {METADATA_VERSION: known.metadata_version, **known.features}
    return {name: range(oldest if name == METADATA_VERSION else 0, top + 1) for name, top in newest.items()}


def newest_metadata_version(kafka: str) -> int:
    """Return the newest production-ready metadata.version of a known release.

    `kafka` is written as 4.3 or 4.3.1.
    """
    known = _patch_of(kafka)
    if known is None:
        raise KeyError(kafka)
    return known.metadata_version


def _patch_of(kafka: str) -> KnownRelease | None:
    """Return a known patch of the minor release of `kafka`."""
    return next((known for known in KNOWN if known.minor == minor_number_of(kafka)), None)


def uses_metadata_version_name(kafka: str) -> bool:
    """Whether formatting `kafka` needs the metadata version's name."""
    return version_of(kafka) < _FIRST_WITH_FEATURE_OPTION


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
