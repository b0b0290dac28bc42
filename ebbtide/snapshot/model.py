"""The snapshot of a cluster: all that was read of it, in one frozen struct."""

from __future__ import annotations

import msgspec

from ebbtide.releases.known_releases import ELR_VERSION, METADATA_VERSION

SNAPSHOT_VERSION = 1

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"
FLUSH_MESSAGES = "flush.messages"
FLUSH_MS = "flush.ms"
CLEANUP = "cleanup.policy"

BROKER_NAMES: dict[str, str] = {
    MIN_ISR: MIN_ISR,
    UNCLEAN: UNCLEAN,
    FLUSH_MESSAGES: "log.flush.interval.messages",
    FLUSH_MS: "log.flush.interval.ms",
    CLEANUP: "log.cleanup.policy",
}
"""Each topic config that is read, and its name at the broker and default level."""

KAFKA_DEFAULTS: dict[str, str] = {
    MIN_ISR: "1",
    UNCLEAN: "false",
    FLUSH_MESSAGES: str(2**63 - 1),
    FLUSH_MS: str(2**63 - 1),
    CLEANUP: "delete",
}


class SnapshotBroker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One live broker.

    `configs` are its effective values under the topic configs' names. `metadata_versions` are the
    lowest and highest metadata.version that it supports. `problem` says why the broker could not be asked.
    """

    id: int
    address: str
    rack: str | None = None
    configs: dict[str, str] = {}
    metadata_versions: tuple[int, int] | None = None
    problem: str | None = None


class SnapshotPartition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One partition; leader -1: none. An ELR of None: the brokers do not say.

    `adding` and `removing` are those of a reassignment under way.
    """

    index: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class SnapshotTopic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One topic; `configs` are those that the topic itself sets."""

    name: str
    partitions: tuple[SnapshotPartition, ...]
    internal: bool = False
    configs: dict[str, str] = {}


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cluster at one moment; `taken_at` is UTC in ISO 8601.

    `features` are finalised levels. `metadata_versions` are the lowest and highest that the broker
    which answered first supports. `notes` say what could not be read.
    """

    snapshot_version: int
    taken_at: str
    cluster_id: str
    brokers: tuple[SnapshotBroker, ...]
    features: dict[str, int]
    metadata_versions: tuple[int, int] | None = None
    topics: tuple[SnapshotTopic, ...]
    notes: tuple[str, ...] = ()

    @property
    def metadata_version(self) -> int | None:
        """The finalised metadata.version, None where no broker named it."""
        return self.features.get(METADATA_VERSION)

    @property
    def is_elr_on(self) -> bool:
        """Whether eligible.leader.replicas.version is 1 or more."""
        return self.features.get(ELR_VERSION, 0) >= 1
