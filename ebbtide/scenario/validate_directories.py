"""Validates log directories: how many brokers have, and whether the releases can work with several (KIP-858)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from packaging.version import Version

from ebbtide.errors import UsageError
from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.first_with import SEVERAL_LOG_DIRS
from ebbtide.releases.known_releases import METADATA_VERSION, parse_version
from ebbtide.scenario.parts import Parts
from ebbtide.scenario.references import limit
from ebbtide.scenario.roles import Role
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.validate_faults import validate_broker

MAX_LOG_DIRS = 3
"""Each is a volume of its own, for every broker."""

ASSIGNED_SINCE = "3.7-IV2"
"""The first metadata.version that assigns replicas to log directories."""


def validate_log_dirs(parts: Parts) -> Iterator[UsageError]:
    """Report a number of log directories that is out of range, or that a release cannot work with."""
    if parts.cluster is None:
        return
    count: int | None = parts.cluster.get("log_dirs")
    if count is None:
        return
    yield from limit("cluster.log_dirs", count, 1, MAX_LOG_DIRS)
    if count == 1:
        return
    releases = [("kafka", one) for one in parts.kafka or ()]
    if (formed_on := parts.cluster.get("formed_on")) is not None:
        releases.append(("cluster.formed_on", formed_on))
    releases += [("an upgrade", step.get("to")) for step in parts.steps_of(UpgradeStep) if step.get("to") is not None]
    yield from _releases_without(count, releases)
    yield from _level_without(count, parts.cluster.elements("features", {}))


def validate_directory(parts: Parts, directory: int | None, where: str) -> Iterator[UsageError]:
    """Report a log directory that brokers do not have."""
    if directory is None or parts.cluster is None or "log_dirs" in parts.cluster.unread:
        return
    count = parts.cluster.get("log_dirs") or 1
    if count == 1:
        yield UsageError(
            "brokers have only one log directory",
            where=where,
            got=str(directory),
            allowed="no such key, or log_dirs = 2 or 3 in [cluster]",
        )
    else:
        yield from limit(where, directory, 1, count, why="log_dirs")


def validate_directory_step(parts: Parts, where: str, *, directory: int | None) -> Iterator[UsageError]:
    """Report a step on a log directory that brokers do not have."""
    yield from validate_directory(parts, directory, f"{where}.directory")


def validate_owner(where: str, *, directory: int | None, target: Role) -> Iterator[UsageError]:
    """Report a step on one log directory of controllers, which have no other."""
    if directory is not None:
        yield from validate_broker(target, f"{where}.target", "only brokers have several log directories")


def _releases_without(count: int, releases: Sequence[tuple[str, str]]) -> Iterator[UsageError]:
    """Report all releases that are too old at once."""
    old = []
    for where, release in releases:
        with contextlib.suppress(UsageError):
            parse_version(release)
            if Version(release) < SEVERAL_LOG_DIRS:
                old.append(f"{release} ({where})")
    if old:
        yield UsageError(
            "a release without KIP-858: it cannot lose one of several log directories",
            where="cluster.log_dirs",
            got=f"{count}, with Kafka {', '.join(dict.fromkeys(old))}",
            allowed=f"Kafka {SEVERAL_LOG_DIRS} and newer, or log_dirs = 1",
        )


def _level_without(count: int, features: Mapping[str, int]) -> Iterator[UsageError]:
    level, needed = features.get(METADATA_VERSION), METADATA_VERSIONS[ASSIGNED_SINCE]
    if level is not None and level < needed:
        yield UsageError(
            "a metadata.version without directory assignments (KIP-858)",
            where="cluster.log_dirs",
            got=f"{count}, with metadata.version = {level}",
            allowed=f"metadata.version {needed} ({ASSIGNED_SINCE}) and newer, or log_dirs = 1",
        )
