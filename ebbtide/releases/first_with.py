"""The first Kafka releases with features that Ebbtide depends on.

They hold whatever the feature levels say.
"""

from __future__ import annotations

from packaging.version import Version

ELR = Version("4.0.0")
"""The first with eligible leader replicas (KIP-966): a preview, off by default."""

ELR_BY_DEFAULT = Version("4.1.0")
"""The first whose new clusters have eligible.leader.replicas.version 1."""

DESCRIBE_TOPIC_PARTITIONS = Version("3.8.0")
"""The first whose brokers answer DescribeTopicPartitions, which has the ELR (KIP-966)."""

SEVERAL_LOG_DIRS = Version("3.7.0")
"""The first whose KRaft brokers go on without a log directory that failed (KIP-858): early access until 3.8."""

TRANSACTION_VERIFICATION = Version("3.6.0")
"""The first whose leaders ask the coordinator before they append a record of a transaction (KIP-890, part 1)."""

DYNAMIC_QUORUM = Version("3.9.0")
"""The first whose controllers can be added to the quorum and removed from it (KIP-853)."""

CONSUMER_GROUPS = Version("4.0.0")
"""The first whose new clusters have group.version 1, and with it the group protocol `consumer` (KIP-848)."""
