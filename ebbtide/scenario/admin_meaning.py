"""What the types of administrative steps cannot say: replicas, resources, features and errors that Kafka knows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import combinations

import msgspec

from ebbtide.errors import UsageError
from ebbtide.releases.feature_levels import ELR_VERSION, METADATA_VERSION
from ebbtide.scenario.check import suggestion
from ebbtide.scenario.feature_meaning import check_features
from ebbtide.scenario.model import ClusterSpec, Scenario, StepSpec
from ebbtide.scenario.roles import Role, overlap, parse_role

FEATURES = (
    METADATA_VERSION,
    ELR_VERSION,
    "kraft.version",
    "transaction.version",
    "group.version",
    "share.version",
    "streams.version",
)
"""The features that Kafka finalises, from its `Feature` enum, `MetadataVersion` and `KRaftVersion`."""

_UPGRADED_ONLY = "kraft.version"
"""A cluster with a static quorum is formatted with level 0 of it, and may be brought to others afterwards."""
_NO_REPLICAS = ("controller", "controllers", "clients")


def feature_known(name: str, where: str) -> Iterator[UsageError]:
    """A feature that no release has."""
    if name not in FEATURES:
        allowed = ", ".join(FEATURES) + suggestion(name, list(FEATURES))
        yield UsageError("unknown feature", where=where, got=repr(name), allowed=allowed)


def has_level(kafka: str, name: str, level: int, cluster: ClusterSpec) -> bool:
    """Whether a cluster of release `kafka`, set up like this one, can come to this level, as far as is known."""
    if name == _UPGRADED_ONLY:
        return True
    try:
        check_features(kafka, msgspec.structs.replace(cluster, features={name: level}))
    except UsageError:
        return False
    return True


def replicas(step: StepSpec, where: str, brokers: int) -> Iterator[UsageError]:
    """Replicas that are no brokers, that stand twice, or that are more than there are brokers."""
    roles: list[Role] = []
    for text in step.replicas:
        with contextlib.suppress(UsageError):
            roles.append(parse_role(text))
    for role in roles:
        if role.kind in _NO_REPLICAS:
            yield UsageError("no replica can be there", where=where, got=repr(str(role)), allowed="roles of brokers")
    for one, other in combinations(roles, 2):
        if overlap(one, other):
            got = f"{str(one)!r} and {str(other)!r}"
            yield UsageError("a broker holds a replica once", where=where, got=got, allowed="each broker once")
    if len(roles) > brokers:
        yield UsageError(
            "more replicas than brokers", where=where, got=str(len(roles)), allowed=f"up to {brokers} (cluster.brokers)"
        )


def resource_form(text: str, where: str) -> Iterator[UsageError]:
    """A config resource that is none of topic:NAME, broker:ROLE and cluster."""
    kind, _, rest = text.partition(":")
    if text != "cluster" and (kind not in ("topic", "broker") or not rest):
        yield UsageError(
            "not a config resource", where=where, got=repr(text), allowed="'topic:NAME', 'broker:ROLE' or 'cluster'"
        )


def broker_config(text: str, where: str) -> Iterator[UsageError]:
    """Configs of a node that is no broker: the request would have to go to a controller."""
    with contextlib.suppress(UsageError):
        if parse_role(text).kind in ("controller", "controllers"):
            yield UsageError(
                "a config of a controller",
                where=where,
                got=repr(text),
                allowed="a role of one broker; what controllers start with is cluster.controller_properties",
            )


def error_known(name: str, where: str) -> Iterator[UsageError]:
    """An error that Kafka does not have."""
    # Imported here: few scenarios expect an error.
    from kafka import errors

    kinds = [one for one in vars(errors).values() if isinstance(one, type)]
    names = sorted({str(vars(one)["message"]) for one in kinds if _is_answer(one, errors.BrokerResponseError)})
    if name not in names:
        allowed = "an error of Kafka's protocol, e.g. ELECTION_NOT_NEEDED" + suggestion(name, names)
        yield UsageError("unknown error", where=where, got=repr(name), allowed=allowed)


def deleted_topic(scenario: Scenario, topic: str, where: str) -> Iterator[UsageError]:
    """A topic that clients use: what of its records is lost could not be judged."""
    read = {name for consumer in scenario.consumers for name in consumer.topics}
    if topic in read or any(producer.topic == topic for producer in scenario.producers):
        yield UsageError(
            "a topic that clients use", where=where, got=repr(topic), allowed="one without producers and consumers"
        )


def _is_answer(kind: type, base: type) -> bool:
    """Whether it stands for an error code of the protocol."""
    return issubclass(kind, base) and (vars(kind).get("errno") or -1) > 0
