"""Creates topics on a cluster that is up, from the clients' place in the network."""

from __future__ import annotations

from pathlib import Path

from harness.errors import UsageError
from harness.record.files import JOURNAL_DIR, LOGS_DIR
from harness.runtime.base import Runtime
from harness.scenario.model import TopicSpec
from workloads.client import Client
from workloads.config import NewTopic, TopicsConfig

TIMEOUT_S = 30.0


def create_topic(runtime: Runtime, folder: Path, name: str, spec: TopicSpec) -> None:
    """Create it, leaders spread over the brokers; returns once every partition has a leader and its whole ISR.

    `folder` takes the client's small files. Raises `UsageError`, `HarnessError` with what the cluster last said.
    """
    brokers = [node.id for node in runtime.nodes.values() if node.role == "broker"]
    if not 1 <= spec.replication_factor <= len(brokers):
        raise UsageError(
            "not a replication factor of this cluster",
            got=str(spec.replication_factor),
            allowed=f"1 to {len(brokers)}",
        )
    client = Client(f"topic-{name}", "workloads.topics", folder / JOURNAL_DIR, folder / LOGS_DIR / f"topic-{name}.log")
    config = TopicsConfig(
        endpoints=client.endpoints,
        bootstrap=tuple(runtime.bootstrap_servers()),
        topics={
            name: NewTopic(
                assignment=spec.assignment or _spread(brokers, spec),
                config={"min.insync.replicas": str(spec.min_isr), **spec.config},
            )
        },
        result=str(folder / JOURNAL_DIR / f"topic-{name}.brokers.json"),
        timeout_s=TIMEOUT_S,
    )
    client.run_to_end(config, runtime.start_client, TIMEOUT_S)


def _spread(brokers: list[int], spec: TopicSpec) -> tuple[tuple[int, ...], ...]:
    """Each partition's replicas, the first one broker on from the partition before."""
    count = len(brokers)
    return tuple(
        tuple(brokers[(partition + replica) % count] for replica in range(spec.replication_factor))
        for partition in range(spec.partitions)
    )
