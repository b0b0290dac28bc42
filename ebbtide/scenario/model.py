"""The scenario vocabulary: one set of types for scenario files, recorded schedules and replays.

A scenario says what to build (cluster, topics, clients), what to break and when (steps with triggers), and
what its author expects of each Kafka release (predictions). Targets are roles such as `leader(t-0)`; they
are resolved when the step fires.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, get_args

import msgspec

from ebbtide.scenario.steps.table import StepKind
from ebbtide.scenario.words import Duration, Rate

Acks = Literal["0", "1", "all"]
Isolation = Literal["read_uncommitted", "read_committed"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
OffsetReset = Literal["none", "earliest", "latest"]
AllowedCause = Literal[
    "unclean-election",
    "last-replica-standing",
    "last-known-leader",
    "beyond-tolerance",
    "stale-isr-join",
    "uncommitted-at-failover",
]
"""Why Kafka may lose a record; a verdict knows one cause more, `unexplained`."""


NodeRole = Literal["broker", "controller"]
NODE_ROLES: tuple[NodeRole, ...] = get_args(NodeRole)
"""No process has both: a cluster's controllers and brokers are apart."""


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Processes: controllers and brokers are separate. Properties are Kafka's, added to the generated ones.

    `features` are feature levels to format with, e.g. `{"eligible.leader.replicas.version": 0}`.
    """

    controllers: int = 1
    brokers: int = 3
    broker_properties: dict[str, str] = {}
    controller_properties: dict[str, str] = {}
    features: dict[str, int] = {}
    session_timeout_s: float = 3.0
    replica_lag_max_s: float = 4.0

    def given_to(self, role: NodeRole) -> dict[str, str]:
        """The properties that nodes of this role are given."""
        return self.broker_properties if role == "broker" else self.controller_properties

    def without(self, paths: Collection[str]) -> ClusterSpec:
        """Without the properties at these paths, as in `cluster.broker_properties.NAME`."""
        left = {
            f"{role}_properties": {
                name: value
                for name, value in self.given_to(role).items()
                if f"cluster.{role}_properties.{name}" not in paths
            }
            for role in NODE_ROLES
        }
        return msgspec.structs.replace(self, **left)


class TopicSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One topic; `config` holds topic configs besides min.insync.replicas.

    `assignment` lists the broker ids of each partition, the preferred leader first; none: drawn from the seed.
    """

    partitions: int = 1
    replication_factor: int = 3
    min_isr: int = 2
    assignment: tuple[tuple[int, ...], ...] = ()
    config: dict[str, str] = {}


class ProducerSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One producer process. Either `count` records or a `rate_per_s` until the end of the steps, or both.

    `keys`: how many different keys, each on the partition that Kafka's default partitioner gives it; none: no
    keys, and the partitions in turn.
    `transactional`: transactions of `txn_records` records; each `abort_every`-th is aborted on purpose, and in
    each `fence_every`-th a second incarnation takes over while the first goes on, which must be refused.
    """

    id: int
    topic: str
    acks: Acks = "all"
    count: int | None = None
    rate_per_s: float | None = None
    payload_bytes: int = 64
    linger_ms: int = 5
    compression: Compression = "none"
    keys: int | None = None
    idempotent: bool = False
    transactional: bool = False
    txn_records: int | None = None
    abort_every: int | None = None
    fence_every: int | None = None


class ConsumerSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tailing consumer process: assigned to all partitions of its topics, or a member of `group`.

    `leave_every`: after so many records the member leaves its group and joins again. `auto_offset_reset`: where
    it goes on when its position is no longer in the log; `none`: as near as possible.
    """

    id: int
    topics: tuple[str, ...]
    isolation: Isolation = "read_uncommitted"
    group: str | None = None
    leave_every: int | None = None
    max_rate_per_s: float | None = None
    auto_offset_reset: OffsetReset = "none"


class OfPartitions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trigger on partitions: on `partition`, or on every one of `partitions`."""

    partition: str | None = None
    partitions: tuple[str, ...] | None = None

    @property
    def asked(self) -> tuple[str, ...]:
        """The partitions by name."""
        return (self.partitions or ()) if self.partition is None else (self.partition,)


class IsrTrigger(OfPartitions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ISR has `size` members, or at least `at_least`."""

    size: int | None = None
    at_least: int | None = None


class MemberTrigger(OfPartitions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`broker` (a role) stands in the named place; `broker = "none"` for leader_is."""

    broker: str


class EpochTrigger(OfPartitions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The leader epoch is above `epoch`."""

    epoch: int


class ReplicasTrigger(OfPartitions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The replicas, those of an unfinished reassignment included, `are` these roles, in any order."""

    are: tuple[str, ...]


class ReassignedTrigger(OfPartitions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No reassignment is under way: no replica is being added or removed."""


class RecoveryTrigger(OfPartitions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The leader recovery state (KIP-704) is `state`."""

    state: Literal["recovered", "recovering"]


class OffsetTrigger(OfPartitions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The HW that the leader served is at least `offset`."""

    offset: int


class BrokerTrigger(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The newest registration event of `broker` (a role; of each, where it stands for several) is `state`."""

    broker: str
    state: Literal["registered", "fenced", "unfenced", "shutting_down", "unregistered"]


class ConfigTrigger(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`config` of `resource` (`topic:NAME`, `broker:ROLE`, `cluster`) has `value`; no value: it is not set there."""

    resource: str
    config: str
    value: str | None = None


class HeldTrigger(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`at_least` requests, or answers, of `api` are held or delayed now on connections of `node` (a role)."""

    node: str
    api: str
    at_least: int = 1


class Trigger(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a step waits for; exactly one is set. None at all: the step fires at once."""

    acked: int | None = None
    isr: IsrTrigger | None = None
    elr_contains: MemberTrigger | None = None
    leader_is: MemberTrigger | None = None
    epoch_above: EpochTrigger | None = None
    hw_at_least: OffsetTrigger | None = None
    replicas: ReplicasTrigger | None = None
    reassigned: ReassignedTrigger | None = None
    recovery_state: RecoveryTrigger | None = None
    config_is: ConfigTrigger | None = None
    broker_is: BrokerTrigger | None = None
    held: HeldTrigger | None = None
    after: Duration | None = None


class StepSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of the schedule, whom it acts on in roles; docs/scenario-steps.md says what each kind does.

    Which keys a kind needs and takes is in `ebbtide.scenario.steps`. `deadline_s` bounds the wait for the
    trigger; in a rolling step also the wait for the whole ISR after each broker, in an administrative step
    the wait for the answer and its record.
    `name` lets a later role refer to this step's resolved target: `step(NAME)`. `optional`: the schedule does not
    hang on this step; where it cannot fire, or takes no effect, the run goes on and is none the worse for it.
    """

    step: StepKind
    name: str | None = None
    target: str | None = None
    groups: tuple[tuple[str, ...], ...] = ()
    from_: tuple[str, ...] = msgspec.field(name="from", default=())
    to: tuple[str, ...] = ()
    mode: Literal["restart", "kill", "power-loss"] | None = None
    times: int | None = None
    period: Duration | None = None
    partition: str | None = None
    replicas: tuple[str, ...] = ()
    cancel: bool | None = None
    type: Literal["preferred", "unclean"] | None = None
    resource: str | None = None
    config: str | None = None
    value: str | None = None
    delete: bool | None = None
    feature: str | None = None
    level: int | None = None
    topic: str | None = None
    expect_error: str | None = None
    api: str | None = None
    direction: Literal["request", "response"] | None = None
    delay: Duration | None = None
    rate: Rate | None = None
    trigger: Trigger | None = None
    deadline_s: float = 30.0
    optional: bool | None = None


class LossExpectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lost records that a release must show (some) or must not (none); `cause` is the only one allowed."""

    committed: Literal["none", "some", "any"] = "any"
    uncommitted: Literal["none", "some", "any"] = "any"
    cause: AllowedCause | None = None
    at_least: int | None = None


class Prediction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the author expects on the releases it names.

    `kafka` is a version range as in `>=3.7,<4.1`; `features` narrows it by finalised levels. The first
    prediction that fits a run is the one it is held against. `clause` says what the prediction stands on.
    `exercised` and `never` name coverage facts of the verdict: a run in which one of the former did not come
    about proves nothing, and one in which one of the latter did contradicts the prediction. `known_bug` names
    why a run on these releases breaks the protocol and is contradicted, and `violates` the verdict's properties that it
    violates: where nothing else is broken, a campaign does not call that news.
    """

    kafka: str
    clause: str
    features: dict[str, int] = {}
    loss: LossExpectation = LossExpectation()
    hw_regression: Literal["none", "some", "any"] = "any"
    elected_from_elr: bool | None = None
    anomalies: Literal["none", "any"] = "any"
    exercised: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    known_bug: str | None = None
    violates: tuple[str, ...] = ()


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole scenario file."""

    name: str
    title: str
    description: str
    kafka: tuple[str, ...]
    cluster: ClusterSpec = ClusterSpec()
    topics: dict[str, TopicSpec]
    producers: tuple[ProducerSpec, ...]
    consumers: tuple[ConsumerSpec, ...] = ()
    steps: tuple[StepSpec, ...] = ()
    predictions: tuple[Prediction, ...]
    settle_s: float = 60.0
