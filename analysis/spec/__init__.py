"""Kafka's replication protocol as a program, with one variant per set of rules.

A set of rules is that of a release or of a KIP. A variant is a `Protocol`; the modules `kraft`,
`kip903`, ... each state what differs from the variant before. The rules follow Kafka's source and
the KIPs' text. The conformance vectors in tests/spec/vectors were executed on the published
classes.
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
