"""The format of conformance vectors: one JSON object a line.

Each is a transition of one partition, on one layer: `builder` (inputs of PartitionChangeBuilder),
`controller` (a partition and one event), `leader` (HW, ISR and acks on a broker) or
`cleanShutdownFile`. `expected` is what the newest release of Kafka does; `differs` maps an older
release to what it does instead. `verified_on` lists the releases on whose published classes the
vector was executed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from analysis.spec.variants import protocol_for
from ebbtide.errors import EbbtideError, Problems, UsageError
from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.untrusted.files import read_file
from ebbtide.untrusted.values import decode_json

Json: TypeAlias = Any
"""A value of the file that is compared as it is."""
RecoveryState = Literal["RECOVERED", "RECOVERING"]


class _VectorPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A record whose keys are camelCase in the file."""


class VectorConfig(_VectorPart, frozen=True):
    """The feature levels and the topic's configuration.

    A leader vector has `minIsr` alone.
    """

    min_isr: int = 1
    metadata_version: str = "4.0-IV1"
    elr_enabled: bool = False
    unclean_election: bool = False
    use_last_known_leader: bool = True


class Registration(_VectorPart, frozen=True):
    """A stored broker registration."""

    state: Literal["ACTIVE", "FENCED", "CONTROLLED_SHUTDOWN"]
    epoch: int


class AcceptableBrokers(_VectorPart, frozen=True):
    """The brokers that a builder vector lets lead."""

    acceptable_leaders: list[int]


class Registrations(_VectorPart, frozen=True):
    """The registrations of a controller vector, by broker id."""

    registered: dict[int, Registration]


class VectorPartition(_VectorPart, frozen=True):
    """A partition in the controller's state."""

    replicas: list[int]
    isr: list[int]
    elr: list[int]
    last_known_elr: list[int]
    adding_replicas: list[int]
    removing_replicas: list[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: RecoveryState


class FollowerState(_VectorPart, frozen=True):
    """A follower in its leader's state; `fetchEpoch` null before its first fetch."""

    leo: int
    lag_ok: bool
    fenced: bool
    shutting_down: bool
    fetch_epoch: int | None
    metadata_epoch: int


class LeaderState(_VectorPart, frozen=True):
    """A leading broker's state."""

    leader: int
    replicas: list[int]
    isr: list[int]
    maximal_isr: list[int]
    pending: Literal["EXPAND", "SHRINK"] | None
    leader_leo: int
    hwm: int
    leader_epoch_start_offset: int
    followers: dict[int, FollowerState]


class LogDirs(_VectorPart, frozen=True):
    """The clean-shutdown file of each log directory, null where there is none."""

    log_dirs: list[str | None]
    offline_dirs: int


class Build(_VectorPart, frozen=True):
    """The inputs of PartitionChangeBuilder that a builder vector sets."""

    type: Literal["build"]
    election: Literal["PREFERRED", "ONLINE", "UNCLEAN"]
    target_isr: list[int] | None = None
    target_replicas: list[int] | None = None
    target_adding: list[int] | None = None
    target_removing: list[int] | None = None
    unclean_shutdown_replicas: list[int] = []


class ControllerEvent(_VectorPart, frozen=True):
    """One event at the controller; which fields count depends on `type`.

    `setConfig`: `scope` is topic, cluster or broker:N; a `value` of null removes the config.
    """

    type: Literal[
        "alterPartition",
        "assignReplicasToDirs",
        "balanceLeaders",
        "brokerShutdown",
        "controlledShutdown",
        "directoryOffline",
        "electLeaders",
        "electUncleanPeriodic",
        "fenceBroker",
        "reassign",
        "registerBroker",
        "setConfig",
        "unfenceBroker",
        "unregisterBroker",
    ]
    broker: int = -1
    broker_epoch: int = -1
    clean: bool = False
    election_type: Literal["PREFERRED", "UNCLEAN"] = "PREFERRED"
    leader_epoch: int = 0
    leader_recovery_state: RecoveryState = "RECOVERED"
    name: Literal["min.insync.replicas", "unclean.leader.election.enable"] = "min.insync.replicas"
    new_broker_epoch: int = -1
    new_isr: list[tuple[int, int]] = []
    partition_epoch: int = 0
    previous_broker_epoch: int = -1
    request_version: int = 4
    same_incarnation: bool = False
    scope: Annotated[str, msgspec.Meta(pattern="^(topic|cluster|broker:[0-9]+)$")] = "topic"
    target_replicas: list[int] | None = None
    value: str | None = ""


class LeaderEvent(_VectorPart, frozen=True):
    """One event at a leader; which fields count depends on `type`."""

    type: Literal[
        "alterPartitionError",
        "alterPartitionOk",
        "checkAcked",
        "fetch",
        "maybeShrinkIsr",
        "metadataIsr",
        "none",
        "produce",
    ]
    acks: int = -1
    epoch: int = -1
    error: str = ""
    follower: int = -1
    isr: list[int] = []
    metadata_epoch_at_fetch: int | None = None
    offset: int = 0
    required_offset: int = 0


class ReadFile(_VectorPart, frozen=True):
    """A broker starts and reads its clean-shutdown files."""

    type: Literal["readPreviousBrokerEpoch"]


class _Vector(msgspec.Struct, frozen=True, kw_only=True, tag_field="layer"):
    id: str
    source: str
    expected: dict[str, Json]
    verified_on: list[str]
    differs: dict[str, dict[str, Json]] = {}


class BuilderVector(_Vector, frozen=True, kw_only=True, tag="builder"):
    """Inputs and output of PartitionChangeBuilder."""

    config: VectorConfig
    brokers: AcceptableBrokers
    before: VectorPartition
    event: Build


class ControllerVector(_Vector, frozen=True, kw_only=True, tag="controller"):
    """One controller event on one partition."""

    config: VectorConfig
    brokers: Registrations
    before: VectorPartition
    event: ControllerEvent


class LeaderVector(_Vector, frozen=True, kw_only=True, tag="leader"):
    """One event at a leader."""

    config: VectorConfig
    before: LeaderState
    event: LeaderEvent


class ShutdownVector(_Vector, frozen=True, kw_only=True, tag="cleanShutdownFile"):
    """One reading of the clean-shutdown files."""

    before: LogDirs
    event: ReadFile


Vector = BuilderVector | ControllerVector | LeaderVector | ShutdownVector


def load(path: Path) -> list[Vector]:
    """Read the vectors of a file; blank lines are skipped.

    Raises `Problems` with every malformed line and repeated id.
    """
    lines = read_file(path, what="the vectors").splitlines()
    vectors: list[Vector] = []
    problems: list[EbbtideError] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            vector: Vector = decode_json(line, Vector)  # type: ignore[arg-type]
        except msgspec.DecodeError as error:
            problems.append(UsageError(str(error), where=f"{path}:{number}"))
            continue
        if vector.id in seen:
            problems.append(
                UsageError(f"the id is already that of line {seen[vector.id]}", where=f"{path}:{number}", got=vector.id)
            )
        seen.setdefault(vector.id, number)
        problems += _mistakes(vector, f"{path}:{number}")
        vectors.append(vector)
    if not vectors and not problems:
        problems.append(UsageError("the file has no vectors", where=str(path)))
    if problems:
        raise Problems(str(path), problems)
    return vectors


def _mistakes(vector: Vector, where: str) -> list[EbbtideError]:
    """Return the mistakes of a well-formed vector that names something unknown."""
    mistakes: list[EbbtideError] = []
    for release in dict.fromkeys((*vector.verified_on, *vector.differs)):
        try:
            protocol_for(release, {})
        except UsageError as error:
            mistakes.append(UsageError(error.what, where=where, got=release, allowed=error.allowed))
    if not isinstance(vector, ShutdownVector) and vector.config.metadata_version not in METADATA_VERSIONS:
        mistakes.append(
            UsageError(
                "no such metadata.version",
                where=where,
                got=vector.config.metadata_version,
                allowed=", ".join(METADATA_VERSIONS),
            )
        )
    event = vector.event
    if isinstance(event, ControllerEvent) and (event.type, event.name) == ("setConfig", "min.insync.replicas"):
        if event.value is None and event.scope == "topic":
            mistakes.append(
                UsageError(
                    "a topic's min.insync.replicas cannot be removed, because a vector does not name the cluster's",
                    where=where,
                    got="value null",
                    allowed="a number",
                )
            )
        if event.value is not None and not event.value.isdecimal():
            mistakes.append(UsageError("min.insync.replicas is not a number", where=where, got=event.value))
    return mistakes
