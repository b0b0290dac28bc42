"""Validates what a scenario asks of consumer groups and their members."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from packaging.version import Version

from ebbtide.errors import UsageError
from ebbtide.releases import first_with
from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.known_releases import METADATA_VERSION, parse_version
from ebbtide.scenario.client_libraries import ConsumerLibrary, GroupProtocol
from ebbtide.scenario.internal_topics import OFFSETS_TOPIC
from ebbtide.scenario.parts import Parts, TablePart
from ebbtide.scenario.references import without_offsets_topic

_GROUP = re.compile(r"[A-Za-z0-9._-]{1,64}")
_GROUP_VERSION = "group.version"
_FIRST_METADATA_VERSION = METADATA_VERSIONS["4.0-IV0"]
"""The first that storage is formatted with group.version 1 for."""


def validate_member(consumer: TablePart, parts: Parts, where: str) -> Iterator[UsageError]:
    """Report an impossible group name, and keys that only a member of a group can have."""
    yield from consumer.check(_validate_group, where)
    yield from consumer.check(_validate_leaving, where)
    yield from consumer.check(_validate_committing, parts, where)
    yield from consumer.check(_validate_protocol, f"{where}.group_protocol")


def validate_group_protocols(parts: Parts) -> Iterator[UsageError]:
    """Report the protocol `consumer` (KIP-848) on releases and feature levels that do not have it."""
    users = [
        index
        for index, one in enumerate(parts.consumers or ())
        if one is not None and one.get("group_protocol") == "consumer"
    ]
    if not users or parts.cluster is None:
        return
    formed_on = parts.cluster.get("formed_on")
    for kafka in (parts.kafka or ()) if formed_on is None else (formed_on,):
        with contextlib.suppress(UsageError):
            parse_version(kafka)
            if Version(kafka) < first_with.CONSUMER_GROUPS:
                yield from _refuse_protocol(users, f"Kafka {kafka} does not have the group protocol of KIP-848")
    features = parts.cluster.elements("features", {})
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


def _validate_protocol(
    where: str, *, group_protocol: GroupProtocol | None, client: ConsumerLibrary | None, group: str | None
) -> Iterator[UsageError]:
    if group_protocol is not None and group is None:
        allowed = "group = 'NAME' beside it"
        yield UsageError("only a member of a group has its protocol", where=where, got=group_protocol, allowed=allowed)
    elif group_protocol == "consumer" and client != "librdkafka":
        yield UsageError(
            "kafka-python does not have the group protocol of KIP-848",
            where=where,
            got=group_protocol,
            allowed="classic, or client = 'librdkafka' beside it",
        )


def validate_group_name(where: str, group: str) -> Iterator[UsageError]:
    """Report a group name that Ebbtide does not use."""
    if not _GROUP.fullmatch(group):
        yield UsageError("not a group name", where=where, got=repr(group), allowed="1 to 64 of A-Z a-z 0-9 . _ -")


def _validate_group(where: str, *, group: str | None) -> Iterator[UsageError]:
    if group is not None:
        yield from validate_group_name(f"{where}.group", group)


def _validate_leaving(where: str, *, leave_every: float | None, group: str | None) -> Iterator[UsageError]:
    if leave_every is not None and group is None:
        yield UsageError(
            "only a member of a group can leave it",
            where=f"{where}.leave_every",
            got=str(leave_every),
            allowed="group = 'NAME' beside it",
        )


def _validate_committing(
    parts: Parts, where: str, *, commit_every: int | None, group: str | None
) -> Iterator[UsageError]:
    where = f"{where}.commit_every"
    if commit_every is None:
        return
    if group is None:
        allowed = "group = 'NAME' beside it"
        yield UsageError("only a member of a group can commit", where=where, got=str(commit_every), allowed=allowed)
    elif parts.topics and OFFSETS_TOPIC not in parts.topics:
        yield without_offsets_topic(where, str(commit_every))
