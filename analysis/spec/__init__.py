"""Kafka's replication protocol as a program: one variant per set of rules that a release or a KIP has.

A variant is a `Protocol`; the modules `kraft`, `kip903`, ... each state what differs from the one before.
The rules are after Kafka's source and the KIPs' text; the conformance vectors in tests/spec/vectors were executed
on the published classes.
"""

from analysis.spec.partition import (
    AlterPartition,
    Cluster,
    Election,
    LogInfo,
    Outcome,
    Partition,
    UncleanElection,
)
from analysis.spec.protocol import Protocol
from analysis.spec.variants import VARIANTS, cluster_for, protocol_for

__all__ = [
    "VARIANTS",
    "AlterPartition",
    "Cluster",
    "Election",
    "LogInfo",
    "Outcome",
    "Partition",
    "Protocol",
    "UncleanElection",
    "cluster_for",
    "protocol_for",
]
