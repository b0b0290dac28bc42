"""The administrator's requests to Kafka, and how each one is encoded.

Any broker accepts them and forwards them to the active controller. The versions are fixed, and every KRaft release
supports them (3.3 to 4.x).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kafka.protocol.api_message import ApiMessage

import cluster.kafka_api.schemas
from cluster.kafka_api.connection import (
    BROKER,
    EARLIEST,
    INVALID_CONFIG,
    LATEST,
    TOPIC,
    BrokerConnection,
    OffsetAnswer,
    WireError,
    error_name,
)
from cluster.kafka_api.log_dirs import MoveReplica, ReplicaMove, move_replica
from cluster.kafka_api.metadata_log import AddVoter, RemoveVoter, ask_voters
from ebbtide import run_clock
from ebbtide.scenario.steps.step import LogStartMove
from ebbtide.suggestions import bracketed_suggestion
from ebbtide.waiting import WaitExpired, wait_until

_SET, _DELETE = 0, 1
_HIGH_WATERMARK = -1
_UPGRADE, _SAFE_DOWNGRADE = 1, 2
_LOOK_S = 1.0
_AGREE_S = 5.0
"""How long brokers may take to learn of a new topic; a broker that is cut off does not."""


class UnregisterBrokerRequest(ApiMessage, load_json=cluster.kafka_api.schemas):  # type: ignore[call-arg, misc]
    """UnregisterBroker request, API key 64."""


class UnregisterBrokerResponse(ApiMessage, load_json=cluster.kafka_api.schemas):  # type: ignore[call-arg, misc]
    """UnregisterBroker response, API key 64."""


class Reassign(msgspec.Struct, frozen=True, kw_only=True, tag="reassign"):
    """Make `replicas` the partition's replicas, the preferred leader first.

    None cancels the reassignment that is under way.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


class Elect(msgspec.Struct, frozen=True, kw_only=True, tag="elect"):
    """Elect a leader: the preferred replica, or with `unclean` any live replica.

    An unclean election happens only where the ISR is empty.
    """

    topic: str
    partition: int
    unclean: bool


class SetConfig(msgspec.Struct, frozen=True, kw_only=True, tag="set-config"):
    """Set a dynamic config; value None deletes it.

    `resource` is written as in the metadata log: `topic:NAME`, `broker:ID` or `cluster`.
    """

    resource: str
    config: str
    value: str | None


class SetFeature(msgspec.Struct, frozen=True, kw_only=True, tag="set-feature"):
    """Finalise a feature level.

    `downgrade`: the level is below the level in force (a safe downgrade).
    """

    feature: str
    level: int
    downgrade: bool


class DeleteTopic(msgspec.Struct, frozen=True, kw_only=True, tag="delete-topic"):
    """Delete a topic."""

    topic: str


class MakeTopic(msgspec.Struct, frozen=True, kw_only=True, tag="create-topic"):
    """Create a topic; without an `assignment` it has the partitions and replicas of Kafka's defaults.

    `brokers`: those that are asked for the topic's id afterwards, by their ids.
    """

    topic: str
    assignment: tuple[tuple[int, ...], ...] = ()
    config: dict[str, str] = {}
    brokers: dict[int, str] = {}


class AddPartitions(msgspec.Struct, frozen=True, kw_only=True, tag="add-partitions"):
    """Give a topic `count` partitions in all; the controller chooses the replicas of the new ones."""

    topic: str
    count: int


class DeleteRecords(msgspec.Struct, frozen=True, kw_only=True, tag="delete-records"):
    """Delete the records of a partition below `before`; None: below the HW. Only the `leader` does it."""

    topic: str
    partition: int
    before: int | None
    leader: int


class Unregister(msgspec.Struct, frozen=True, kw_only=True, tag="unregister"):
    """End the registration of a broker."""

    broker: int


AdminRequest = (
    Reassign
    | Elect
    | SetConfig
    | SetFeature
    | DeleteTopic
    | MakeTopic
    | AddPartitions
    | DeleteRecords
    | Unregister
    | AddVoter
    | RemoveVoter
    | MoveReplica
)


class AdminAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Kafka's answer: the error's protocol name (`NONE` on success) and its message.

    `log_start`: how a request to delete records moved the leader's log start, where the leader said it.
    `topic_ids`: the id that each broker gives a topic that was created; brokers that did not answer are left out.
    `topic_ids_ns`: when the last of them was asked. `replica_move`: where the replica of a request to move it was seen.
    """

    broker: str
    error: str
    message: str = ""
    log_start: LogStartMove | None = None
    topic_ids: dict[int, str] = {}
    topic_ids_ns: int | None = None
    replica_move: ReplicaMove | None = None


def ask(connection: BrokerConnection, request: AdminRequest, timeout_s: float) -> AdminAnswer:
    """Send the request to one broker. Raises `WireError` when no answer comes."""
    timeout_ms = round(timeout_s * 1000)
    moved: LogStartMove | None = None
    match request:
        case Reassign():
            answers = _reassign(connection, request, timeout_ms)
        case Elect():
            answers = _elect(connection, request, timeout_ms)
        case SetConfig():
            answers = _set_config(connection, request)
        case SetFeature():
            answers = _set_feature(connection, request, timeout_ms)
        case DeleteTopic():
            wish = DeleteTopicsRequest(topic_names=[request.topic], timeout_ms=timeout_ms)
            answers = list(connection.ask(wish, DeleteTopicsResponse, 3).responses)
        case MakeTopic():
            return _create_topic(connection, request, timeout_s)
        case AddPartitions():
            answers = _add_partitions(connection, request, timeout_ms)
        case DeleteRecords():
            answers, moved = _delete_records(connection, request, timeout_ms)
        case Unregister():
            wish = UnregisterBrokerRequest(broker_id=request.broker)
            answers = [connection.ask(wish, UnregisterBrokerResponse, 0)]
        case AddVoter() | RemoveVoter():
            answers = [ask_voters(connection, request, timeout_ms)]
        case MoveReplica():
            code, move = move_replica(connection, request, timeout_s)
            return AdminAnswer(broker=connection.address, error=error_name(code), replica_move=move)
    wrong = next((one for one in answers if one.error_code != 0), answers[0])
    message = getattr(wrong, "error_message", None) or ""
    if isinstance(request, SetConfig) and wrong.error_code == INVALID_CONFIG:
        message += _setting_meant(connection, request)
    return AdminAnswer(broker=connection.address, error=error_name(wrong.error_code), message=message, log_start=moved)


def _create_topic(connection: BrokerConnection, request: MakeTopic, timeout_s: float) -> AdminAnswer:
    answer = connection.create_topic(request.topic, request.assignment, request.config)
    is_made = answer.error_code == 0
    return AdminAnswer(
        broker=connection.address,
        error=error_name(answer.error_code),
        message=answer.error_message or "",
        topic_ids=_ask_topic_ids(request.topic, request.brokers, timeout_s) if is_made else {},
        topic_ids_ns=run_clock.now_ns() if is_made else None,
    )


def _ask_topic_ids(topic: str, brokers: Mapping[int, str], timeout_s: float) -> dict[int, str]:
    """Return the topic's id as each broker knows it, once all that answer name the same; at the latest after a while.

    Brokers that do not answer, or do not know the topic, are left out.
    """
    ids: dict[int, str] = {}

    def all_agree() -> bool:
        ids.clear()
        for broker, address in brokers.items():
            one = BrokerConnection(address, connect_timeout_s=_LOOK_S, request_timeout_s=_LOOK_S)
            with contextlib.suppress(WireError), one as connection:
                if found := connection.topic_id(topic):
                    ids[broker] = found
        return len(ids) == len(brokers) and len(set(ids.values())) == 1

    with contextlib.suppress(WaitExpired):
        wait_until(all_agree, awaited="the topic's id", timeout_s=min(timeout_s / 2, _AGREE_S), poll_s=0.05)
    return ids


def _reassign(connection: BrokerConnection, request: Reassign, timeout_ms: int) -> list[Any]:
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic
    replicas = None if request.replicas is None else list(request.replicas)
    partition = kind.ReassignablePartition(partition_index=request.partition, replicas=replicas)
    wish = AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms, topics=[kind(name=request.topic, partitions=[partition])]
    )
    answer = connection.ask(wish, AlterPartitionReassignmentsResponse, 0)
    return [answer, *(one for topic in answer.responses for one in topic.partitions)]


def _elect(connection: BrokerConnection, request: Elect, timeout_ms: int) -> list[Any]:
    topic = ElectLeadersRequest.TopicPartitions(topic=request.topic, partitions=[request.partition])
    wish = ElectLeadersRequest(election_type=int(request.unclean), topic_partitions=[topic], timeout_ms=timeout_ms)
    answer = connection.ask(wish, ElectLeadersResponse, 1)
    return [answer, *(one for topic in answer.replica_election_results for one in topic.partition_result)]


def _set_config(connection: BrokerConnection, request: SetConfig) -> list[Any]:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    operation = _DELETE if request.value is None else _SET
    kind, _, name = request.resource.partition(":")
    change = resource.AlterableConfig(name=request.config, config_operation=operation, value=request.value)
    wish = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=TOPIC if kind == "topic" else BROKER, resource_name=name, configs=[change])],
        validate_only=False,
    )
    return list(connection.ask(wish, IncrementalAlterConfigsResponse, 0).responses)


def _setting_meant(connection: BrokerConnection, request: SetConfig) -> str:
    """Return ` (did you mean 'X'?)` for a setting that the resource does not have, else ""."""
    kind, _, name = request.resource.partition(":")
    with contextlib.suppress(WireError):
        (answer,) = connection.describe_configs(TOPIC if kind == "topic" else BROKER, [name])
        known = [one.name for one in answer.configs or ()]
        if request.config not in known:
            return bracketed_suggestion(request.config, known)
    return ""


def _set_feature(connection: BrokerConnection, request: SetFeature, timeout_ms: int) -> list[Any]:
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature=request.feature,
        max_version_level=request.level,
        upgrade_type=_SAFE_DOWNGRADE if request.downgrade else _UPGRADE,
    )
    wish = UpdateFeaturesRequest(timeout_ms=timeout_ms, feature_updates=[update], validate_only=False)
    answer = connection.ask(wish, UpdateFeaturesResponse, 1)
    return [answer, *answer.results]


def _add_partitions(connection: BrokerConnection, request: AddPartitions, timeout_ms: int) -> list[Any]:
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=request.topic, count=request.count, assignments=None)
    wish = CreatePartitionsRequest(topics=[topic], timeout_ms=timeout_ms, validate_only=False)
    return list(connection.ask(wish, CreatePartitionsResponse, 1).results)


def _delete_records(
    connection: BrokerConnection, request: DeleteRecords, timeout_ms: int
) -> tuple[list[Any], LogStartMove | None]:
    """Return the answers, and how the log start moved as far as the leader says it under one epoch.

    The broker answers once every live replica has moved its log start; an error may come after the leader moved.
    """
    kind = DeleteRecordsRequest.DeleteRecordsTopic
    offset = _HIGH_WATERMARK if request.before is None else request.before
    partition = kind.DeleteRecordsPartition(partition_index=request.partition, offset=offset)
    wish = DeleteRecordsRequest(topics=[kind(name=request.topic, partitions=[partition])], timeout_ms=timeout_ms)
    at = [(request.topic, request.partition)]
    # Only the answer for the latest offset has the leader's epoch; that for the earliest has the record's.
    before = [*connection.list_offsets(at, LATEST), *connection.list_offsets(at, EARLIEST)]
    asked_ns = run_clock.now_ns()
    answer = connection.ask(wish, DeleteRecordsResponse, 1)
    after = [*connection.list_offsets(at, LATEST), *connection.list_offsets(at, EARLIEST)]
    moved = _log_start_move(before, after, asked_ns)
    return [one for topic in answer.topics for one in topic.partitions], moved


def _log_start_move(
    before: Sequence[OffsetAnswer], after: Sequence[OffsetAnswer], asked_ns: int
) -> LogStartMove | None:
    epoch = before[0].leader_epoch
    if any(one.error for one in (*before, *after)) or epoch is None or after[0].leader_epoch != epoch:
        return None
    old, new = before[1].offset, after[1].offset
    return LogStartMove(old=old, new=new, leader_epoch=epoch, asked_ns=asked_ns, answered_ns=run_clock.now_ns())
