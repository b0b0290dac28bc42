"""Steps that send a request to Kafka; nothing undoes them.

They touch the cluster only.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import Literal

from ebbtide.scenario.steps.step import BaseStep, Kind, LogStartMove, RequestProof
from ebbtide.scenario.words import ConfigResource, PartitionName, Role

_admin = partial(
    Kind,
    family="admin",
    undone="not: what Kafka was asked for stays in the cluster, which ends with the run",
    lasts_s=2.0,
)


def _refusal(example: str, /, **shown: str) -> MappingProxyType[str, str]:
    """Return the words for `expect_error`, with a refusal that Kafka may answer, and those for other keys."""
    return MappingProxyType({"expect_error": f"the refusal that you expect, e.g. '{example}'", **shown})


class RequestStep(BaseStep, frozen=True, kw_only=True):
    """A request to Kafka; `expect_error`: the refusal that you expect."""

    Proof = RequestProof
    shown = _refusal("ELECTION_NOT_NEEDED")
    expect_error: str | None = None


class ReassignStep(RequestStep, frozen=True, kw_only=True, tag="reassign"):
    """Asks for other replicas of a partition, or for the end of such a request."""

    kind = _admin(
        first="partition",
        does="asks for other replicas (AlterPartitionReassignments)",
        note="does not wait until the partition has them",
        proof="a newer partition record with these replicas (without those being removed). "
        "Of a cancelled reassignment: with nothing to add or remove",
        either=("replicas", "cancel"),
        weight=0.8,
        lasts_s=3.0,
    )
    shown = _refusal(
        "NO_REASSIGNMENT_IN_PROGRESS",
        replicas="roles, the preferred leader first",
        cancel="end a reassignment",
    )
    partition: PartitionName
    replicas: tuple[Role, ...] = ()
    cancel: bool | None = None


class ElectStep(RequestStep, frozen=True, kw_only=True, tag="elect"):
    """Asks for an election."""

    kind = _admin(
        first="partition",
        does="asks for an election (ElectLeaders)",
        proof="Kafka's answer without an error, and a newer partition record with a new leader epoch. "
        "Of type `preferred`: with the first replica as leader",
        weight=0.6,
    )
    partition: PartitionName
    type: Literal["preferred", "unclean"]


class SetConfigStep(RequestStep, frozen=True, kw_only=True, tag="set-config"):
    """Changes a config, or takes it back to its default."""

    kind = _admin(
        does="changes a config (IncrementalAlterConfigs)",
        proof="a newer config record with the value, or its deletion",
        either=("value", "delete"),
        weight=0.8,
    )
    shown = _refusal(
        "INVALID_CONFIG",
        config="a config's name, e.g. 'min.insync.replicas'",
        value="what to set it to",
        delete="take it back to its default",
    )
    resource: ConfigResource
    config: str
    value: str | None = None
    delete: bool | None = None


class SetFeatureStep(RequestStep, frozen=True, kw_only=True, tag="set-feature"):
    """Finalises a feature level."""

    kind = _admin(
        does="finalises a feature level (UpdateFeatures)",
        note="up, or down as a safe downgrade; "
        "a level that no release in `kafka` has needs `expect_error` or `optional`",
        proof="a newer feature level record",
        weight=0.3,
    )
    shown = _refusal("INVALID_UPDATE_VERSION", feature="a feature's name", level="a whole number, 0 or more")
    feature: str
    level: int


class DeleteTopicStep(RequestStep, frozen=True, kw_only=True, tag="delete-topic"):
    """Deletes a topic."""

    kind = _admin(
        does="deletes a topic (DeleteTopics)",
        note="no client of the scenario may use the topic; `create-topic` can make it again",
        proof="the metadata log no longer has the topic's partitions",
        weight=0.2,
    )
    shown = _refusal("UNKNOWN_TOPIC_OR_PARTITION", topic="a topic's name")
    topic: str


class CreateTopicStep(RequestStep, frozen=True, kw_only=True, tag="create-topic"):
    """Makes a topic again that an earlier step deleted."""

    kind = _admin(
        does="makes a deleted topic again, as `[topics]` describes it (CreateTopics)",
        note="an earlier `delete-topic` must name the topic; it has a new topic id, and its offsets begin at 0",
        proof="newer partition records of a topic of this name with another topic id",
        weight=2.0,
    )

    class Proof(RequestProof, frozen=True, kw_only=True):
        """From `since` on, records of the metadata log are of the new topic, which was asked for at `asked_ns`.

        At `known_ns` it was looked which running brokers knew it: all but the `unaware`.
        """

        since: int | None = None
        asked_ns: int | None = None
        known_ns: int | None = None
        unaware: tuple[int, ...] | None = None

    shown = _refusal("TOPIC_ALREADY_EXISTS", topic="a topic's name")
    topic: str


class AddPartitionsStep(RequestStep, frozen=True, kw_only=True, tag="add-partitions"):
    """Gives a topic more partitions."""

    kind = _admin(
        does="gives a topic more partitions (CreatePartitions); Kafka chooses their replicas",
        note="producers of kafka-python write to the new partitions and groups read them; a consumer without a "
        "group keeps the partitions that it had",
        proof="newer partition records of all new partitions",
        weight=0.3,
    )
    shown = _refusal("INVALID_PARTITIONS", topic="a topic's name", count="how many partitions it then has")
    topic: str
    count: int


class DeleteRecordsStep(RequestStep, frozen=True, kw_only=True, tag="delete-records"):
    """Deletes the oldest records of a partition."""

    kind = _admin(
        does="deletes the oldest records of a partition (DeleteRecords)",
        note="moves the log start; fewer records than `before` in the log need `expect_error`",
        unset=MappingProxyType({"before": "all records below the HW"}),
        proof="the leader's log start before and after, asked for with ListOffsets",
        weight=0.8,
    )

    class Proof(RequestProof, frozen=True, kw_only=True):
        """How the log start moved, as the leader said."""

        log_start: LogStartMove | None = None

    shown = _refusal("OFFSET_OUT_OF_RANGE", before="the first offset to keep")
    partition: PartitionName
    before: int | None = None


class UnregisterStep(RequestStep, frozen=True, kw_only=True, tag="unregister"):
    """Ends a broker's registration."""

    kind = _admin(
        does="ends a broker's registration (UnregisterBroker)",
        proof="a newer record that ends the registration",
        only_brokers="only a broker can be unregistered",
        weight=0.3,
    )
    shown = _refusal("BROKER_ID_NOT_REGISTERED")
    target: Role


class VoterStep(RequestStep, frozen=True, kw_only=True):
    """A change of the controllers that vote, in a dynamic quorum (KIP-853)."""

    shown = MappingProxyType({"target": "one controller, e.g. 'controller(101)' or 'controller'"})
    target: Role


class AddVoterStep(VoterStep, frozen=True, kw_only=True, tag="add-voter"):
    """Makes a controller a voter, with the disk that it has now."""

    kind = _admin(
        does="makes a controller a voter, with the disk that it has now (AddRaftVoter)",
        note="needs `quorum = 'dynamic'`; Kafka answers once the controller has caught up and the new voters are "
        "committed",
        proof="the newest VotersRecord has the controller and its disk, and a majority of these voters has the record",
        needs_process=True,
        weight=1.5,
        lasts_s=3.0,
    )
    shown = _refusal("DUPLICATE_VOTER")


class RemoveVoterStep(VoterStep, frozen=True, kw_only=True, tag="remove-voter"):
    """Makes a voter an observer."""

    kind = _admin(
        does="makes a voter an observer (RemoveRaftVoter)",
        note="needs `quorum = 'dynamic'`; the controller may be down, and continues if it runs. Asks for the directory "
        "id that the metadata log has of it",
        proof="the newest VotersRecord lacks the controller, and a majority of these voters has the record",
        weight=1.5,
        lasts_s=3.0,
    )
    shown = _refusal("VOTER_NOT_FOUND")


class MoveReplicaStep(RequestStep, frozen=True, kw_only=True, tag="move-replica"):
    """Moves a replica to another log directory of its broker."""

    kind = _admin(
        does="moves a replica to another log directory of its broker (AlterReplicaLogDirs)",
        note="does not wait until the replica is there: the trigger `in_directory` does; needs `log_dirs`",
        proof="DescribeLogDirs: the replica was in another directory, and is now in this one, or its future replica is",
        only_brokers="only a broker has several log directories",
        counted=("replicas-moved", "brokers on which a replica began to move to another log directory"),
        weight=1.5,
    )
    shown = _refusal("KAFKA_STORAGE_ERROR", directory="the log directory to move it to, from 1 on")
    partition: PartitionName
    target: Role
    directory: int


AdminStep = (
    ReassignStep
    | ElectStep
    | SetConfigStep
    | SetFeatureStep
    | DeleteTopicStep
    | CreateTopicStep
    | AddPartitionsStep
    | DeleteRecordsStep
    | UnregisterStep
    | AddVoterStep
    | RemoveVoterStep
    | MoveReplicaStep
)
