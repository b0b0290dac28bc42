"""Reads a cluster into one snapshot. Nothing is written to the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from cluster.kafka_api.connection import DESCRIBE_TOPIC_PARTITIONS, NONE, DescribedPartition, Refused, WireError
from cluster.kafka_api.metadata_log import quorum_voters
from cluster.snapshot.requests import (
    ApiFacts,
    ask_api_versions,
    ask_broker_configs,
    ask_reassignments,
    ask_topic_configs,
)
from cluster.snapshot.secure_connection import (
    CONNECT_S,
    FIRST_ANSWER_S,
    SecureConnection,
    first_answer,
    hint_for,
)
from cluster.snapshot.security import Security
from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import METADATA_VERSION
from ebbtide.snapshot.model import (
    BROKER_NAMES,
    SNAPSHOT_VERSION,
    ClusterSnapshot,
    SnapshotBroker,
    SnapshotPartition,
    SnapshotTopic,
)

ANSWER_S = 30.0
"""The deadline of each later answer: a large cluster has large answers."""

_ASKED_AT_ONCE = 16
_RIGHTS = "docs/advise.md lists the rights that Ebbtide needs"


def read_cluster(bootstrap: Sequence[str], security: Security) -> ClusterSnapshot:
    """Read the cluster from the first address that answers. Raises `UsageError`."""
    connection, facts = first_answer(bootstrap, security)
    with connection:
        connection.set_request_timeout(ANSWER_S)
        try:
            return _read(connection, facts, security)
        except WireError as error:
            hint = hint_for(error, connection.address, security, answered=True)
            raise UsageError("the broker stopped answering", where="--bootstrap", got=str(error), next=hint) from None


def _read(connection: SecureConnection, facts: ApiFacts, security: Security) -> ClusterSnapshot:
    notes: list[str] = []
    answer = connection.ask_metadata(None)
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        listed = sorted(answer.brokers, key=lambda one: one.node_id)
        brokers = tuple(pool.map(lambda one: _read_broker(one, security), listed))
    names = sorted(topic.name for topic in answer.topics if topic.error_code == NONE and topic.partitions)
    if not answer.topics:
        notes.append("no topic is visible: the cluster has none, or this user has the right DESCRIBE on none")
    configs = _topic_configs(connection, names)
    try:
        moves: Mapping[tuple[str, int], Any] = ask_reassignments(connection, int(ANSWER_S * 1000))
    except Refused as error:
        moves = {}
        notes.append(f"reassignments under way are unknown: {error} (DESCRIBE on the cluster)")
    elrs: Mapping[tuple[str, int], DescribedPartition] = {}
    if DESCRIBE_TOPIC_PARTITIONS in facts.keys and names:
        elrs = {(one.topic, one.partition): one for one in connection.describe(names)}
    controllers: tuple[int, ...] | None = None
    with suppress(Refused):  # without the right they stay unknown, and the advice says so
        controllers = quorum_voters(connection)
    return ClusterSnapshot(
        snapshot_version=SNAPSHOT_VERSION,
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
        cluster_id=answer.cluster_id or "",
        brokers=brokers,
        metadata_versions=facts.supported.get(METADATA_VERSION),
        features=_known_features(facts),
        controllers=controllers,
        topics=tuple(
            SnapshotTopic(
                name=topic.name,
                configs=configs[topic.name],
                partitions=tuple(
                    _partition(topic.name, one, elrs, moves)
                    for one in sorted(topic.partitions, key=lambda one: one.partition_index)
                ),
            )
            for topic in sorted(answer.topics, key=lambda topic: topic.name)
            if topic.name in configs
        ),
        notes=tuple(notes),
    )


def _known_features(facts: ApiFacts) -> dict[str, int]:
    if METADATA_VERSION not in facts.finalized:
        raise UsageError(
            "the broker names no metadata.version",
            where="--bootstrap",
            got=", ".join(facts.finalized) or "no finalised feature",
            allowed="a cluster in KRaft mode, 3.3 or newer",
        )
    return dict(sorted(facts.finalized.items()))


def _topic_configs(connection: SecureConnection, names: Sequence[str]) -> dict[str, dict[str, str]]:
    try:
        return dict(ask_topic_configs(connection, names, list(BROKER_NAMES)))
    except Refused as error:
        right = "the right DESCRIBE_CONFIGS on topics is missing" if error.is_missing_right else "no topic configs"
        raise UsageError(right, where=connection.address, got=str(error), next=_RIGHTS) from None


def _read_broker(answer: Any, security: Security) -> SnapshotBroker:
    """Ask a broker for its levels and configs; a broker that does not answer is in the snapshot with the reason."""
    address = f"[{answer.host}]:{answer.port}" if ":" in answer.host else f"{answer.host}:{answer.port}"
    broker = SnapshotBroker(id=answer.node_id, address=address, rack=answer.rack or None)
    connection = SecureConnection(address, security, connect_timeout_s=CONNECT_S, request_timeout_s=FIRST_ANSWER_S)
    with connection:
        try:
            facts = ask_api_versions(connection)
            of_broker = ask_broker_configs(connection, broker.id, list(BROKER_NAMES.values()))
        except (Refused, WireError) as error:
            if not (isinstance(error, Refused) and error.is_missing_right):
                return msgspec.structs.replace(broker, problem=str(error))
            what = "the right DESCRIBE_CONFIGS on the cluster is missing"
            raise UsageError(what, where=address, got=str(error), next=_RIGHTS) from None
    return msgspec.structs.replace(
        broker,
        configs={name: of_broker[other] for name, other in BROKER_NAMES.items() if other in of_broker},
        metadata_versions=facts.supported.get(METADATA_VERSION),
    )


def _partition(
    topic: str, answer: Any, elrs: Mapping[tuple[str, int], DescribedPartition], moves: Mapping[tuple[str, int], Any]
) -> SnapshotPartition:
    key = (topic, answer.partition_index)
    elr, move = elrs.get(key), moves.get(key)
    return SnapshotPartition(
        index=answer.partition_index,
        leader=answer.leader_id,
        replicas=tuple(answer.replica_nodes),
        isr=tuple(answer.isr_nodes),
        elr=elr.elr if elr is not None else None,
        last_known_elr=elr.last_known_elr if elr is not None else None,
        adding=tuple(move.adding_replicas) if move is not None else (),
        removing=tuple(move.removing_replicas) if move is not None else (),
    )
