"""Validates what a scenario asks of consumer groups and their members."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from ebbtide.errors import UsageError
from ebbtide.releases import first_with
from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.known_releases import METADATA_VERSION
from ebbtide.scenario.internal_topics import OFFSETS_TOPIC
from ebbtide.scenario.model import ConsumerSpec, Scenario
from ebbtide.scenario.references import without_offsets_topic

_GROUP = re.compile(r"[A-Za-z0-9._-]{1,64}")
_GROUP_VERSION = "group.version"
_FIRST_METADATA_VERSION = METADATA_VERSIONS["4.0-IV0"]
"""The first that storage is formatted with group.version 1 for."""
_OF_MEMBERS = {
    "leave_every": "only a member of a group can leave it",
    "commit_every": "only a member of a group can commit",
    "group_protocol": "only a member of a group has its protocol",
}
"""Keys that only a member of a group can have, and why."""


def validate_member(consumer: ConsumerSpec, scenario: Scenario, where: str) -> Iterator[UsageError]:
    """Report an impossible group name, and keys that only a member of a group can have."""
    if consumer.group is None:
        for key, what in _OF_MEMBERS.items():
            if (value := getattr(consumer, key)) is not None:
                yield UsageError(what, where=f"{where}.{key}", got=str(value), allowed="group = 'NAME' beside it")
        return
    yield from validate_group_name(f"{where}.group", consumer.group)
    if consumer.commit_every is not None and OFFSETS_TOPIC not in scenario.topics:
        yield without_offsets_topic(f"{where}.commit_every", str(consumer.commit_every))
    if consumer.group_protocol == "consumer" and consumer.client != "librdkafka":
        yield UsageError(
            "kafka-python does not have the group protocol of KIP-848",
            where=f"{where}.group_protocol",
            got=consumer.group_protocol,
            allowed="classic, or client = 'librdkafka' beside it",
        )


def validate_group_protocols(scenario: Scenario) -> Iterator[UsageError]:
    """Report the protocol `consumer` (KIP-848) on releases and feature levels that do not have it."""
    users = [index for index, one in enumerate(scenario.consumers) if one.group_protocol == "consumer"]
    formed_on, features = scenario.cluster.formed_on, scenario.cluster.features
    for kafka in scenario.kafka if formed_on is None else (formed_on,):
        if Version(kafka) < first_with.CONSUMER_GROUPS:
            yield from _refuse_protocol(users, f"Kafka {kafka} does not have the group protocol of KIP-848")
    if features.get(_GROUP_VERSION) == 0:
        yield from _refuse_protocol(users, f"{_GROUP_VERSION} 0 switches the group protocol of KIP-848 off")
    level = features.get(METADATA_VERSION)
    if level is not None and level < _FIRST_METADATA_VERSION and _GROUP_VERSION not in features:
        yield from _refuse_protocol(users, f"with {METADATA_VERSION} {level}, {_GROUP_VERSION} is 0 by default")


def _refuse_protocol(users: list[int], what: str) -> Iterator[UsageError]:
    for index in users:
        yield UsageError(
            what,
            where=f"consumers[{index}].group_protocol",
            got="consumer",
            allowed=f"classic; a cluster formed on Kafka {first_with.CONSUMER_GROUPS} or newer; {_GROUP_VERSION} 1",
        )


def validate_group_name(where: str, group: str) -> Iterator[UsageError]:
    """Report a group name that Ebbtide does not use."""
    if not _GROUP.fullmatch(group):
        yield UsageError("not a group name", where=where, got=repr(group), allowed="1 to 64 of A-Z a-z 0-9 . _ -")
