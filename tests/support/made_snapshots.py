"""Snapshots of clusters of three brokers, made without a cluster."""

from __future__ import annotations

from typing import Any

import msgspec

from ebbtide.snapshot.model import ClusterSnapshot, SnapshotBroker, SnapshotPartition, SnapshotTopic

ELR = "eligible.leader.replicas.version"
NEWEST = {"3.4": 8, "3.6": 14, "3.7": 19, "3.9": 21, "4.0": 25, "4.1": 27, "4.3": 30}


def topic(name: str, rf: int, min_isr: int, **more: Any) -> SnapshotTopic:
    replicas = tuple(range(1, rf + 1))
    whole = {"index": 0, "leader": 1, "replicas": replicas, "isr": replicas}
    partition = SnapshotPartition(**{**whole, **more.pop("partition", {})})
    configs = {"min.insync.replicas": str(min_isr), **more.pop("configs", {})}
    return SnapshotTopic(name=name, partitions=(partition,), configs=configs, **more)


def cluster(minor: str, *topics: SnapshotTopic, features: dict[str, int] | None = None, **more: Any) -> ClusterSnapshot:
    level = NEWEST.get(minor, 99)
    values: dict[str, Any] = {
        "snapshot_version": 1,
        "taken_at": "2026-11-24T09:00:00+00:00",
        "cluster_id": "made",
        "brokers": brokers(3, level),
        "features": {"metadata.version": level, **(features or {})},
        "controllers": (101, 102, 103),
        "topics": topics,
        **more,
    }
    return ClusterSnapshot(**values)


def brokers(count: int, level: int) -> tuple[SnapshotBroker, ...]:
    return tuple(
        SnapshotBroker(id=one, address=f"b{one}:9092", rack=f"r{one % 3}", metadata_versions=(4, level))
        for one in range(1, count + 1)
    )


def without_answers(snapshot: ClusterSnapshot, *silent: int) -> ClusterSnapshot:
    """Return the snapshot as if these brokers had not answered."""
    asked = tuple(
        msgspec.structs.replace(one, metadata_versions=None, configs={}, problem="no answer within 5 s")
        if one.id in silent
        else one
        for one in snapshot.brokers
    )
    return msgspec.structs.replace(snapshot, brokers=asked)
