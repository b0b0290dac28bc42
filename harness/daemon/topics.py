"""Creates topics on a cluster that is up, from the clients' place in the network."""

from __future__ import annotations

from pathlib import Path

from cluster.runtime.base import Runtime
from ebbtide.errors import EbbtideError, Problems, UsageError
from ebbtide.kraft.image import MetadataImage
from ebbtide.record.files import JOURNAL_DIR, LOGS_DIR
from ebbtide.scenario.meaning import topic_meaning
from ebbtide.scenario.model import TopicSpec
from ebbtide.scenario.references import nothing_wrong
from workloads.client import Client
from workloads.config import NewTopic, TopicsConfig

TIMEOUT_S = 30.0


def refuse_topic(runtime: Runtime, image: MetadataImage, name: str, spec: TopicSpec) -> None:
    """Raises `Problems` for a topic that there is already, or that cannot be on this cluster."""
    problems: list[EbbtideError] = []
    there = [row for partition, row in image.partitions.items() if partition.topic == name]
    if there:
        count, factor = len(there), max(len(row.replicas) for row in there)
        problems.append(
            UsageError(
                "there is a topic of this name",
                got=f"{name}, with {count} partition{'s' if count > 1 else ''} and replication factor {factor}",
                allowed=f"another name, or ebbtide fault delete-topic --topic {name} before",
            )
        )
    problems += topic_meaning(name, spec, name, len(_brokers(runtime)), nothing_wrong)
    if problems:
        raise Problems(f"the topic {name}", problems, next="ebbtide cluster status")


def create_topic(runtime: Runtime, folder: Path, name: str, spec: TopicSpec) -> None:
    """Create it, leaders spread over the brokers; returns once every partition has a leader and its whole ISR.

    `folder` takes the client's small files. Raises `HarnessError` with what the cluster last said.
    """
    brokers = _brokers(runtime)
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


def _brokers(runtime: Runtime) -> list[int]:
    return [node.id for node in runtime.nodes.values() if node.role == "broker"]


def _spread(brokers: list[int], spec: TopicSpec) -> tuple[tuple[int, ...], ...]:
    """Each partition's replicas, the first one broker on from the partition before."""
    count = len(brokers)
    return tuple(
        tuple(brokers[(partition + replica) % count] for replica in range(spec.replication_factor))
        for partition in range(spec.partitions)
    )
