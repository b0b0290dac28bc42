"""The metadata messages that make up a timeline, as typed structs.

The fields mean what the JSON definitions say. In a change, null means unchanged and an empty list means cleared;
`leader` -2 means unchanged, -1 none.
"""

from __future__ import annotations

import msgspec

NO_LEADER_CHANGE = -2
RECOVERY_STATE_UNCHANGED = -1


class SupportedFeature(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The levels of a feature that a registering broker supports."""

    name: str
    max_supported_version: int


class RegisterBrokerRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """API key 0: a broker's registration. `broker_epoch` is this record's own offset."""

    broker_id: int
    incarnation_id: str
    broker_epoch: int
    fenced: bool
    in_controlled_shutdown: bool
    features: tuple[SupportedFeature, ...] = ()


class UnregisterBrokerRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """API key 1: the end of a registration."""

    broker_id: int
    broker_epoch: int


class TopicRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """API key 2: a new topic."""

    name: str
    topic_id: str


class RemoveTopicRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """API key 9: a deleted topic."""

    topic_id: str


class PartitionRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """API key 3: the full state of a partition."""

    partition_id: int
    topic_id: str
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
    eligible_leader_replicas: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None
    directories: tuple[str, ...] | None = None


class PartitionChangeRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """API key 5: the changed fields of a partition."""

    partition_id: int
    topic_id: str
    isr: tuple[int, ...] | None
    leader: int
    replicas: tuple[int, ...] | None
    removing_replicas: tuple[int, ...] | None
    adding_replicas: tuple[int, ...] | None
    leader_recovery_state: int
    eligible_leader_replicas: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None
    directories: tuple[str, ...] | None = None


class ConfigRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """API key 4: a config.

    `resource_type` 2 is a topic, 4 a broker (empty name: cluster default).
    """

    resource_type: int
    resource_name: str
    name: str
    value: str | None


class FeatureLevelRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """API key 12: a finalized feature level."""

    name: str
    feature_level: int


class FenceBrokerRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """API keys 7 and 8 (legacy): a broker is fenced or unfenced."""

    id: int
    epoch: int


class BrokerRegistrationChangeRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """API key 17: a changed registration. `fenced`: 1 fence, -1 unfence, 0 unchanged."""

    broker_id: int
    broker_epoch: int
    fenced: int
    in_controlled_shutdown: int


class ClearElrRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """API key 28: the ELR of a topic is emptied. An empty name means every topic."""

    topic_name: str


class LeaderChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Control record 2: the controller that leads from this epoch on."""

    leader_id: int


class SnapshotHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Control record 3: the start of a snapshot; milliseconds since the epoch."""

    last_contained_log_timestamp: int


class KRaftVersion(msgspec.Struct, frozen=True, kw_only=True):
    """Control record 5: the level of kraft.version."""

    level: int = msgspec.field(name="kRaftVersion")
