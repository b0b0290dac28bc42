"""Validates log directories: how many brokers have, and whether the releases can work with several (KIP-858)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ebbtide.errors import UsageError
from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.first_with import SEVERAL_LOG_DIRS
from ebbtide.releases.known_releases import METADATA_VERSION, version_of
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.references import limit
from ebbtide.scenario.steps.process import UpgradeStep

MAX_LOG_DIRS = 3
"""Each is a volume of its own, for every broker."""

ASSIGNED_SINCE = "3.7-IV2"
"""The first metadata.version that assigns replicas to log directories."""


def validate_log_dirs(scenario: Scenario) -> Iterator[UsageError]:
    """Report a number of log directories that is out of range, or that a release cannot work with."""
    cluster, count = scenario.cluster, scenario.cluster.log_dirs
    if count is None:
        return
    yield from limit("cluster.log_dirs", count, 1, MAX_LOG_DIRS)
    if count == 1:
        return
    releases = [("kafka", one) for one in scenario.kafka]
    if cluster.formed_on is not None:
        releases.append(("cluster.formed_on", cluster.formed_on))
    releases += [("an upgrade", step.to) for step in scenario.steps if isinstance(step, UpgradeStep)]
    old = [f"{release} ({where})" for where, release in releases if version_of(release) < SEVERAL_LOG_DIRS]
    if old:
        yield UsageError(
            "a release without KIP-858: it cannot lose one of several log directories",
            where="cluster.log_dirs",
            got=f"{count}, with Kafka {', '.join(dict.fromkeys(old))}",
            allowed=f"Kafka {SEVERAL_LOG_DIRS} and newer, or log_dirs = 1",
        )
    yield from _level_without(count, cluster.features)


def validate_directory(scenario: Scenario, directory: int | None, where: str) -> Iterator[UsageError]:
    """Report a log directory that brokers do not have."""
    if directory is None:
        return
    count = scenario.cluster.log_dirs or 1
    if count == 1:
        yield UsageError(
            "brokers have only one log directory",
            where=where,
            got=str(directory),
            allowed="no such key, or log_dirs = 2 or 3 in [cluster]",
        )
    else:
        yield from limit(where, directory, 1, count, why="log_dirs")


def _level_without(count: int, features: Mapping[str, int]) -> Iterator[UsageError]:
    level, needed = features.get(METADATA_VERSION), METADATA_VERSIONS[ASSIGNED_SINCE]
    if level is not None and level < needed:
        yield UsageError(
            "a metadata.version without directory assignments (KIP-858)",
            where="cluster.log_dirs",
            got=f"{count}, with metadata.version = {level}",
            allowed=f"metadata.version {needed} ({ASSIGNED_SINCE}) and newer, or log_dirs = 1",
        )
