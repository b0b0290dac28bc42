"""Every member of the ELR is a replica of the partition."""

from __future__ import annotations

from analysis.spec.partition import Cluster, Partition


def holds(partition: Partition, cluster: Cluster) -> bool:
    """Return whether the ELR has replicas only."""
    return partition.elr.issubset(partition.replicas)
