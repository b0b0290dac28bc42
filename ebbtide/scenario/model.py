"""The scenario vocabulary: types of scenario files, schedules and replays.

A scenario says what to build (cluster, topics, clients), what to break and when (steps with triggers), and
what its author expects of each Kafka release (predictions). Targets are roles such as `leader(t-0)`; they
are resolved when the step fires.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, get_args

import msgspec

from ebbtide.scenario.kafka_settings import DEFAULT_LIBRARY, ClientLibrary, ConsumerLibrary, GroupProtocol
from ebbtide.scenario.steps.admin import AddPartitionsStep
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.steps.step import StepSpec

Acks = Literal["0", "1", "all"]
Isolation = Literal["read_uncommitted", "read_committed"]
Expected = Literal["none", "some", "any"]
"""Whether a run must show none, must show some, or may show either."""
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CopiedOffsets = Literal["in-transaction", "after-transaction"]
"""When a copier commits its group's offsets: with the records that it sends, or on their own after these."""
OffsetReset = Literal["none", "earliest", "latest"]
CommitWhen = Literal["after-handling", "before-handling"]
AllowedCause = Literal[
    "unclean-election",
    "last-replica-standing",
    "last-known-leader",
    "beyond-tolerance",
    "stale-isr-join",
    "unclean-recovery",
    "uncommitted-at-failover",
]
"""Why Kafka may lose a record; a verdict knows one cause more, `unexplained`."""


WriteBack = Literal["held", "kernel"]
"""Who decides when dirty pages are written: nobody until the run ends, or the kernel by its own settings."""
FileSystem = Literal["ext4", "xfs"]
Quorum = Literal["static", "dynamic"]
"""How the controllers know who votes: by a property of every node, or by records of the metadata log (KIP-853)."""

MAX_BROKERS = 6
"""As many as a small machine carries, at some 300 MB each, and enough for RF 6 with min ISR 4. The specification's
explorer, which starts no process, takes one more."""

NodeRole = Literal["broker", "controller"]
NODE_ROLES: tuple[NodeRole, ...] = get_args(NodeRole)
"""No process has both: a cluster's controllers and brokers are apart."""


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The processes of a cluster; controllers and brokers are separate processes.

    Properties are Kafka's, added to the generated ones. `features` are feature levels to format
    with, e.g. `{"eligible.leader.replicas.version": 0}`. `write_back` and `file_system` are of the
    nodes' volumes; None means held and ext4. `formed_on` is an earlier release: it formats the cluster, whose
    nodes are then moved to the run's release, one after the other, before there are topics. Feature levels
    stay those of `formed_on`, as they do in Kafka. `quorum` None means static. `initial_voters`: how many controllers
    of a dynamic quorum, the first ones, vote from the start; None means all. The others are observers.
    `log_dirs`: how many log directories each broker has, each on a volume of its own (KIP-858); None means one.
    """

    controllers: int = 1
    brokers: int = 3
    broker_properties: dict[str, str] = {}
    controller_properties: dict[str, str] = {}
    features: dict[str, int] = {}
    session_timeout_s: float = 3.0
    replica_lag_max_s: float = 4.0
    write_back: WriteBack | None = None
    file_system: FileSystem | None = None
    formed_on: str | None = None
    quorum: Quorum | None = None
    initial_voters: int | None = None
    log_dirs: int | None = None

    @property
    def has_dynamic_quorum(self) -> bool:
        """Whether records of the metadata log say who votes (kraft.version 1)."""
        return self.quorum == "dynamic"

    @property
    def first_voters(self) -> int:
        """How many controllers vote from the start."""
        return self.controllers if self.initial_voters is None else self.initial_voters

    def log_dirs_of(self, role: NodeRole) -> int:
        """How many log directories a node of this role has; controllers have one."""
        return (self.log_dirs or 1) if role == "broker" else 1

    def properties_of(self, role: NodeRole) -> dict[str, str]:
        """The properties that the scenario sets for nodes of this role."""
        return self.broker_properties if role == "broker" else self.controller_properties

    def without_properties(self, paths: Collection[str]) -> ClusterSpec:
        """Without the properties at these paths, as in `cluster.broker_properties.NAME`."""
        left = {
            f"{role}_properties": {
                name: value
                for name, value in self.properties_of(role).items()
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
    """One producer process, which sends `count` records, or at a `rate_per_s`.

    With both, the producer stops at `count`. Without `count`, it sends until the steps end.

    - `keys`: the number of different keys; Kafka's default partitioner chooses the partition of each. Without it
      records have no key, and the producer uses the partitions in turn.
    - `transactional`: transactions of `txn_records` records. Each `abort_every`-th is aborted on purpose. In each
      `fence_every`-th a second incarnation takes over while the first continues; Kafka must refuse the first.
      `abort_unacked`: a transaction of which a record was not acked is aborted, and the same incarnation continues;
      else a new one takes over.
    - `copies`: it reads this topic as a member of `group`, and sends one record for each record that it reads. The
      transaction of at most `txn_records` also commits the group's offsets, or they are committed after it (`offsets`).
    - `client`: the client library; None means kafka-python. `client_kafka`: the release of a Java client, None that
      of the cluster. `properties`: settings of the library, by its own names.
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
    abort_unacked: bool = False
    copies: str | None = None
    group: str | None = None
    offsets: CopiedOffsets | None = None
    client: ClientLibrary | None = None
    client_kafka: str | None = None
    properties: dict[str, str] | None = None

    @property
    def library(self) -> ClientLibrary:
        """The client library of this producer."""
        return self.client or DEFAULT_LIBRARY

    @property
    def copied_offsets(self) -> CopiedOffsets:
        """When a copier commits its group's offsets."""
        return self.offsets or "in-transaction"


class ConsumerSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One consumer process that reads new records as they come.

    It is assigned to all partitions of its topics, or is a member of `group`. The member leaves its
    group after every `leave_every` records and joins it again. It commits after every `commit_every` records, and the
    record then has its commits; None: the client commits by itself, unrecorded. `auto_offset_reset` says where it
    continues when its position is no longer in the log; `none` is as near as possible. `client`: the client library;
    None means kafka-python. `group_protocol`: that of the group, None means classic. `properties`: settings of the
    library, by its own names.

    It takes `handle_ms` to handle each record, and has a row of the record only then. It commits what it has handled;
    with `commit_when`, all that a poll returned, before it handles any of it.
    """

    id: int
    topics: tuple[str, ...]
    isolation: Isolation = "read_uncommitted"
    group: str | None = None
    leave_every: int | None = None
    commit_every: int | None = None
    max_rate_per_s: float | None = None
    auto_offset_reset: OffsetReset = "none"
    client: ConsumerLibrary | None = None
    group_protocol: GroupProtocol | None = None
    properties: dict[str, str] | None = None
    handle_ms: float | None = None
    commit_when: CommitWhen | None = None

    @property
    def library(self) -> ConsumerLibrary:
        """The client library of this consumer."""
        return self.client or DEFAULT_LIBRARY


class LossExpectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lost records that a release must show (some) or must not show (none).

    `cause` is the only cause allowed. `acks` says the same of the records sent with each acks, committed or not. That
    includes acks=0, whose records no broker acks: those that the final read lacks are lost.
    `none_on` names topics that lose no committed record, while others may. `commits`: acked commits of groups' offsets
    that their group does not get back.
    """

    committed: Expected = "any"
    uncommitted: Expected = "any"
    acks: dict[str, Expected] = {}
    cause: AllowedCause | None = None
    at_least: int | None = None
    none_on: tuple[str, ...] = ()
    commits: Expected = "any"


class TimeBounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A time in seconds that a release must reach on some partition (min), and must not exceed on any (max)."""

    min: float | None = None
    max: float | None = None


class UnavailabilityExpectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of the longest time for which a partition has no leader, and for which acks=all records get no ack."""

    no_leader: TimeBounds | None = None
    no_ack: TimeBounds | None = None


class Prediction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the author expects on the releases that the prediction names.

    - `kafka` is a version range such as `>=3.7,<4.1`; `features` narrows it by finalised levels. A run is compared
      with the first prediction that fits it.
    - `clause` names the part of the protocol on which the prediction is based.
    - `passed_over` "any" takes records that a group passed over out of `anomalies`.
    - `exercised` names coverage facts of the verdict; a run without one of them is inconclusive.
    - `never` names coverage facts too; a run with one of them contradicts the prediction.
    - `holds` names properties of the verdict that the run must show to hold. A run in which such a property was not
      exercised, or is unknown, is inconclusive.
    - `unavailable_s` bounds the time without service of each partition.
    - `known_bug` says why a run on these releases breaks the protocol and is contradicted. `violates` names the
      properties of the verdict that it violates. If nothing else is broken, a campaign does not report it as news.
    """

    kafka: str
    clause: str
    features: dict[str, int] = {}
    loss: LossExpectation = LossExpectation()
    hw_regression: Expected = "any"
    elected_from_elr: bool | None = None
    anomalies: Literal["none", "any"] = "any"
    passed_over: Literal["any"] | None = None
    exercised: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    unavailable_s: UnavailabilityExpectation | None = None
    known_bug: str | None = None
    violates: tuple[str, ...] = ()


PROTOCOL_ALONE = Prediction(
    kafka=">=3.3",
    clause="the scenario has no prediction: judged by KIP-966, KIP-704 and KIP-903 alone, which allow some losses",
)
"""The prediction of a scenario that has none: a run is contradicted only where it violates the protocol."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole scenario file."""

    name: str
    title: str
    description: str = ""
    kafka: tuple[str, ...]
    cluster: ClusterSpec = ClusterSpec()
    topics: dict[str, TopicSpec]
    producers: tuple[ProducerSpec, ...]
    consumers: tuple[ConsumerSpec, ...] = ()
    steps: tuple[StepSpec, ...] = ()
    predictions: tuple[Prediction, ...] = (PROTOCOL_ALONE,)
    settle_s: float = 60.0

    @property
    def final_partition_counts(self) -> dict[str, int]:
        """The most partitions of each topic to which a step adds some."""
        counts: dict[str, int] = {}
        for step in self.steps:
            if isinstance(step, AddPartitionsStep):
                counts[step.topic] = max(step.count, counts.get(step.topic, 0))
        return counts

    @property
    def groups(self) -> frozenset[str]:
        """The groups that consumers and copiers are members of."""
        members = (*(one.group for one in self.consumers), *(one.group for one in self.producers))
        return frozenset(group for group in members if group is not None)

    @property
    def other_releases(self) -> tuple[str, ...]:
        """The releases besides that of `kafka` that nodes run during the run."""
        formed = () if self.cluster.formed_on is None else (self.cluster.formed_on,)
        return tuple(dict.fromkeys((*formed, *(step.to for step in self.steps if isinstance(step, UpgradeStep)))))
