"""What an administrative step asks of Kafka, its roles resolved."""

from __future__ import annotations

from cluster.kafka_api.admin_requests import (
    AdminRequest,
    DeleteTopic,
    Elect,
    Reassign,
    SetConfig,
    SetFeature,
    Unregister,
)
from ebbtide.logs.segments import TopicPartition
from ebbtide.scenario.model import StepSpec
from harness.runner.view import ClusterView


def request_of(step: StepSpec, view: ClusterView) -> tuple[AdminRequest, tuple[int, ...]]:
    """The request of a step of `ADMIN_KINDS`, and the nodes that it is about. Raises `RoleUnresolved`."""
    match step.step:
        case "reassign":
            replicas = None if step.cancel else view.resolve_all(step.replicas)
            at = TopicPartition.parse(step.partition or "")
            return Reassign(topic=at.topic, partition=at.partition, replicas=replicas), replicas or ()
        case "elect":
            at = TopicPartition.parse(step.partition or "")
            return Elect(topic=at.topic, partition=at.partition, unclean=step.type == "unclean"), ()
        case "set-config":
            resource = view.config_resource(step.resource or "")
            kind, _, name = resource.partition(":")
            value = None if step.delete else step.value
            request = SetConfig(resource=resource, config=step.config or "", value=value)
            return request, ((int(name),) if kind == "broker" else ())
        case "set-feature":
            feature, level = step.feature or "", step.level or 0
            downgrade = level < view.image.features.get(feature, 0)
            return SetFeature(feature=feature, level=level, downgrade=downgrade), ()
        case "delete-topic":
            return DeleteTopic(topic=step.topic or ""), ()
    broker = view.resolve_one(step.target or "")
    return Unregister(broker=broker), (broker,)
