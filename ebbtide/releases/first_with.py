"""The first Kafka release that has a feature which Ebbtide takes account of, whatever the feature levels say."""

from __future__ import annotations

from packaging.version import Version

ELR = Version("4.0.0")
"""Eligible leader replicas can be turned on (KIP-966): a preview, off by default."""

ELR_BY_DEFAULT = Version("4.1.0")
"""New clusters have eligible.leader.replicas.version 1."""

DESCRIBE_TOPIC_PARTITIONS = Version("3.8.0")
"""Brokers answer DescribeTopicPartitions, which names the ELR (KIP-966)."""

CONTROLLERS_DESCRIBE_CONFIGS = Version("3.7.0")
"""Controllers answer DescribeConfigs for themselves (KIP-919)."""
