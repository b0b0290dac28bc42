"""Administrative steps: proven by the record that each leaves in the metadata log.

Two requests leave none there. The leader's log start proves deleted records, and the broker itself a replica that
moves.

Kafka's answer alone is no proof: it may come before anything was written, or be missing although everything was.
The log is therefore read until the record is there. Where a scenario expects a refusal, the answer is the proof: a
refusal leaves no record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol, get_args

import msgspec

from cluster.kafka_api.admin_requests import (
    AddPartitions,
    AdminAnswer,
    AdminRequest,
    DeleteRecords,
    DeleteTopic,
    Elect,
    MakeTopic,
    Reassign,
    SetConfig,
    SetFeature,
    Unregister,
)
from cluster.kafka_api.log_dirs import MoveReplica
from cluster.kafka_api.metadata_log import AddVoter, RemoveVoter
from ebbtide.errors import HarnessError
from ebbtide.kraft.commits import VoterSet
from ebbtide.kraft.image import MetadataImage
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.rows import PartitionState
from ebbtide.scenario.steps.admin import (
    AddPartitionsStep,
    AdminStep,
    CreateTopicStep,
    DeleteRecordsStep,
    DeleteTopicStep,
    ElectStep,
    MoveReplicaStep,
    ReassignStep,
    RequestStep,
    SetConfigStep,
    SetFeatureStep,
    UnregisterStep,
    VoterStep,
)
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.words import Role
from ebbtide.waiting import WaitExpired, wait_until
from faults.base import REFUSED, Effect, proven_effect, unproven_effect
from faults.injector import Family, Injector, Plan, View
from faults.replica_moves import plan_move, voter_request, voters_record

_ACCEPTED = "NONE"
_UNANSWERED_WAIT_S = 2.0
"""How long (s) to wait for the record of a request without an answer: it was written long ago, or never."""

_RECORD_WAIT_MIN_S = 1.0


class Administer(Protocol):
    """The type of `Workload.administer`."""

    def __call__(self, request: AdminRequest, timeout_s: float) -> AdminAnswer:
        """Return Kafka's answer. Raises `HarnessError` if Kafka did not answer."""


class AdminFaults:
    """The administrative steps of one run.

    `deleted_topics`: the topics that a step asked to delete, and that no step made again.
    """

    def __init__(self, injector: Injector, administer: Administer) -> None:
        self._injector = injector
        self._administer = administer
        self.deleted_topics: set[str] = set()

    @property
    def family(self) -> Family:
        """How each kind is carried out."""
        return Family(plans={**dict.fromkeys(get_args(AdminStep), self._plan), MoveReplicaStep: self._plan_move})

    def _plan_move(self, step: MoveReplicaStep) -> Plan:
        return plan_move(step, self._injector, self._administer)

    def _plan(self, step: RequestStep) -> Plan:
        runtime, view = self._injector.runtime, self._injector.view
        request, nodes = voter_request(step, runtime, view) if isinstance(step, VoterStep) else request_of(step, view)

        def act() -> Effect:
            if isinstance(request, DeleteTopic):
                self.deleted_topics.add(request.topic)
            effect = carry_out(
                request,
                ask=self._administer,
                look=self._read_image,
                expect_error=step.expect_error,
                timeout_s=step.deadline_s,
                running=self._running_brokers(),
                voters=lambda: view.committed_voters,
            )
            if isinstance(request, MakeTopic) and effect.effect_ns is not None and step.expect_error is None:
                self.deleted_topics.discard(request.topic)
            return effect

        return Plan(nodes=nodes, description=describe_request(request), act=act)

    def _running_brokers(self) -> list[int]:
        runtime = self._injector.runtime
        return [node.id for node in runtime.nodes.values() if node.role == "broker" and runtime.pid(node.id)]

    def _read_image(self) -> MetadataImage:
        self._injector.poll()
        return self._injector.view.image


def carry_out(
    request: AdminRequest,
    *,
    ask: Callable[[AdminRequest, float], AdminAnswer],
    look: Callable[[], MetadataImage],
    expect_error: str | None,
    timeout_s: float,
    running: Collection[int] = (),
    voters: Callable[[], VoterSet | None] = lambda: None,
) -> Effect:
    """Send `request` and prove it by the metadata log.

    `ask` sends it, and raises `HarnessError` when there is no answer. `look` reads the metadata log. `running`: the
    brokers that must know of a new topic, before all later records are surely of that topic. `voters`: the newest
    voters that are committed.
    """
    began, asked_ns = time.monotonic(), time.time_ns()
    before = _Before(request, look())
    answer: AdminAnswer | None = None
    no_answer = ""
    try:
        answer = ask(request, timeout_s)
    except HarnessError as error:
        no_answer = f"Kafka did not answer: {error.render()}"
    figures: dict[str, object] = {"request": before.description}
    if answer is not None:
        figures |= {"answer": answer.error, **({"message": answer.message} if answer.message else {})}
        if answer.log_start is not None:
            figures["log_start"] = msgspec.to_builtins(answer.log_start)
    if isinstance(request, MakeTopic | DeleteTopic):
        figures |= {"asked_ns": asked_ns, "since": before.since}
    if expect_error is not None:
        if answer is None:
            return unproven_effect(no_answer, **figures)
        if answer.error != expect_error:
            return unproven_effect(f"Kafka answered {answer.error} instead of the expected {expect_error}", **figures)
        return proven_effect(**figures)
    if answer is not None and answer.error != _ACCEPTED:
        return unproven_effect(f"{REFUSED} {answer.error} {answer.message}".rstrip(), **figures)
    if answer is None and (isinstance(request, Elect) or (isinstance(request, Reassign) and request.replicas is None)):
        # Without an answer a new epoch may be from another election, and a reassignment may have ended by itself.
        return unproven_effect(no_answer, **figures)
    if isinstance(request, DeleteRecords):
        why = no_answer if answer is None else _why_log_start_proves_nothing(request, answer)
        return proven_effect(**figures) if why is None else unproven_effect(why, **figures)
    left_s = _UNANSWERED_WAIT_S if answer is None else max(_RECORD_WAIT_MIN_S, timeout_s - (time.monotonic() - began))
    try:
        record = wait_until(
            lambda: before.record(look(), voters()), awaited="the record in the metadata log", timeout_s=left_s
        )
    except WaitExpired as expired:
        return unproven_effect(no_answer or f"Kafka accepted, but {expired}", **figures)
    if isinstance(request, MakeTopic) and answer is not None:
        known_by = {broker for broker, topic_id in answer.topic_ids.items() if topic_id == record["topic_id"]}
        figures |= {"known_ns": answer.topic_ids_ns, "unaware": sorted(set(running) - known_by)}
    return proven_effect(**figures, record=record)


def _why_log_start_proves_nothing(request: DeleteRecords, answer: AdminAnswer) -> str | None:
    move = answer.log_start
    if move is None:
        return "Kafka accepted, but the leader did not say where its log starts, or another leader was elected"
    if move.new <= move.old:
        return f"no record was deleted: the log started at {move.old} before, and starts at {move.new} now"
    if request.before is not None and move.new < request.before:
        return f"Kafka accepted, but the log starts at {move.new}, not at {request.before}"
    return None


class _Before:
    """The metadata before a request, and the record that proves the request."""

    def __init__(self, request: AdminRequest, image: MetadataImage) -> None:
        self.description = describe_request(request)
        self._request = request
        self.since = image.next_offset
        self._was_set = isinstance(request, SetConfig) and (request.resource, request.config) in image.configs
        at = TopicPartition(request.topic, request.partition) if isinstance(request, Reassign | Elect) else None
        row = None if at is None else image.partitions.get(at)
        self._leader_epoch = -1 if row is None else row.leader_epoch
        self._moving = row is not None and bool(row.adding or row.removing)
        self._partitions = _partitions_of(image, request.topic) if isinstance(request, AddPartitions) else {}
        self._topic_id = image.topic_id(request.topic) if isinstance(request, MakeTopic | DeleteTopic) else None

    def record(self, image: MetadataImage, voters: VoterSet | None) -> dict[str, object] | None:
        """Return what the request changed, from newer records; None while there is none.

        `voters` are the newest that are committed: no image shows that.
        """
        match self._request:
            case Reassign() | Elect():
                return self._partition(image, self._request)
            case SetConfig(resource=resource, config=config, value=None):
                gone = self._was_set and (resource, config) not in image.configs
                return {"value": None} if gone else None
            case SetConfig(resource=resource, config=name, value=value):
                return self._config(image, resource, name, value)
            case SetFeature(feature=feature, level=level):
                return self._config(image, f"feature:{feature}", "level", str(level))
            case DeleteTopic(topic=topic):
                gone = self._topic_id is not None and image.topic_id(topic) != self._topic_id
                return {"partitions": [], "topic_id": self._topic_id} if gone else None
            case MakeTopic(topic=topic):
                return self._new_topic(image, topic)
            case AddPartitions(topic=topic, count=count):
                return self._new_partitions(_partitions_of(image, topic), count)
            case DeleteRecords() | MoveReplica():
                return None  # Neither leaves a record in the metadata log.
            case AddVoter() | RemoveVoter():
                return voters_record(self._request, voters, self.since)
            case Unregister(broker=broker):
                event = image.brokers.get(broker)
                if event is None or event.event != "unregistered" or event.metadata_offset < self.since:
                    return None
                return {"metadata_offset": event.metadata_offset, "event": event.event}

    def _partition(self, image: MetadataImage, request: Reassign | Elect) -> dict[str, object] | None:
        row = image.partitions.get(TopicPartition(request.topic, request.partition))
        if row is None or row.metadata_offset < self.since:
            return None
        if isinstance(request, Elect):
            elected = row.leader >= 0 and row.leader_epoch > self._leader_epoch
            shown = elected and (request.unclean or row.leader == row.replicas[0])
        elif request.replicas is None:
            shown = self._moving and not row.adding and not row.removing
        else:
            # During the reassignment, replicas that will be removed are listed after the new ones.
            shown = tuple(one for one in row.replicas if one not in row.removing) == request.replicas
        if not shown:
            return None
        return {
            "metadata_offset": row.metadata_offset,
            "leader": row.leader,
            "leader_epoch": row.leader_epoch,
            "replicas": list(row.replicas),
            "adding": list(row.adding),
            "removing": list(row.removing),
        }

    def _new_topic(self, image: MetadataImage, topic: str) -> dict[str, object] | None:
        topic_id, rows = image.topic_id(topic), _partitions_of(image, topic)
        if self._topic_id is not None or topic_id is None or not rows:
            return None
        return {
            "topic_id": topic_id,
            "metadata_offset": min(row.metadata_offset for row in rows.values()),
            "replicas": {str(number): list(row.replicas) for number, row in sorted(rows.items())},
        }

    def _new_partitions(self, now: Mapping[int, PartitionState], count: int) -> dict[str, object] | None:
        added = {number: row for number, row in sorted(now.items()) if number not in self._partitions}
        if not self._partitions or not added or len(now) != count:
            return None
        return {
            "added": len(added),
            "metadata_offset": max(row.metadata_offset for row in added.values()),
            "replicas": {str(number): list(row.replicas) for number, row in added.items()},
        }

    def _config(self, image: MetadataImage, resource: str, name: str, value: str | None) -> dict[str, object] | None:
        row = image.config_rows.get((resource, name))
        if row is None or row.metadata_offset < self.since or row.value != value:
            return None
        return {"metadata_offset": row.metadata_offset, "value": row.value}


def _partitions_of(image: MetadataImage, topic: str) -> Mapping[int, PartitionState]:
    return {at.partition: row for at, row in image.partitions.items() if at.topic == topic}


def describe_request(request: AdminRequest) -> str:
    """Return the request in words."""
    match request:
        case Reassign(topic=topic, partition=partition, replicas=None):
            return f"cancel the reassignment of {topic}-{partition}"
        case Reassign(topic=topic, partition=partition, replicas=replicas):
            return f"reassign {topic}-{partition} to {list(replicas or ())}"
        case Elect(topic=topic, partition=partition, unclean=unclean):
            return f"elect a leader of {topic}-{partition}, {'unclean' if unclean else 'preferred'}"
        case SetConfig(resource=resource, config=config, value=None):
            return f"delete {config} of {resource}"
        case SetConfig(resource=resource, config=config, value=value):
            return f"set {config} of {resource} to {value}"
        case SetFeature(feature=feature, level=level):
            return f"set {feature} to level {level}"
        case DeleteTopic(topic=topic):
            return f"delete the topic {topic}"
        case MakeTopic(topic=topic):
            return f"create the topic {topic}"
        case AddPartitions(topic=topic, count=count):
            return f"give the topic {topic} {count} partitions"
        case DeleteRecords(topic=topic, partition=partition, before=before):
            return f"delete the records of {topic}-{partition} below {'the HW' if before is None else before}"
        case Unregister(broker=broker):
            return f"unregister broker {broker}"
        case AddVoter(voter=voter, directory=directory):
            return f"add controller {voter} with directory {directory} to the voters"
        case RemoveVoter(voter=voter, directory=directory):
            return f"remove controller {voter} with directory {directory} from the voters"
        case MoveReplica(topic=topic, partition=partition, broker=broker, path=path):
            return f"move {topic}-{partition} on broker {broker} to {path}"


def request_of(step: StepSpec, view: View) -> tuple[AdminRequest, tuple[int, ...]]:
    """Return the request of a step of `ADMIN_KINDS`, and the nodes that it concerns.

    Raises `RoleUnresolved`.
    """
    match step:
        case ReassignStep():
            topic, number = step.partition.at
            replicas = None if step.cancel else view.resolve_all(step.replicas)
            return Reassign(topic=topic, partition=number, replicas=replicas), replicas or ()
        case ElectStep():
            topic, number = step.partition.at
            return Elect(topic=topic, partition=number, unclean=step.type == "unclean"), ()
        case SetConfigStep(config=config):
            resource = view.config_resource(step.resource)
            of, _, name = resource.partition(":")
            request = SetConfig(resource=resource, config=config, value=None if step.delete else step.value)
            return request, ((int(name),) if of == "broker" else ())
        case SetFeatureStep(feature=feature, level=level):
            downgrade = level < view.image.features.get(feature, 0)
            return SetFeature(feature=feature, level=level, downgrade=downgrade), ()
        case DeleteTopicStep(topic=topic):
            return DeleteTopic(topic=topic), ()
        case CreateTopicStep(topic=topic):
            return MakeTopic(topic=topic), ()
        case AddPartitionsStep(topic=topic, count=count):
            return AddPartitions(topic=topic, count=count), ()
        case DeleteRecordsStep(partition=partition, before=before):
            topic, number = partition.at
            leader = view.resolve_one(Role(f"leader({partition})"))
            return DeleteRecords(topic=topic, partition=number, before=before, leader=leader), (leader,)
        case UnregisterStep(target=role):
            broker = view.resolve_one(role)
            return Unregister(broker=broker), (broker,)
    raise AssertionError(f"{step.step} asks Kafka for nothing")
