"""Creates topics on a cluster that is up, from the clients' network namespace."""

from __future__ import annotations

from pathlib import Path

from cluster.runtime.cluster import Runtime
from ebbtide.errors import EbbtideError, Problems, UsageError
from ebbtide.kraft.image import MetadataImage
from ebbtide.record.files import JOURNAL_DIR, LOGS_DIR
from ebbtide.scenario.model import TopicSpec
from ebbtide.scenario.validate import validate_topic
from workloads.client import Client
from workloads.config import NewTopic, TopicsConfig, read_topics_result

TIMEOUT_S = 30.0


def refuse_topic(runtime: Runtime, image: MetadataImage, name: str, spec: TopicSpec) -> None:
    """Raise `Problems` for a topic that exists or that this cluster cannot have."""
    problems: list[EbbtideError] = []
    there = [row for partition, row in image.partitions.items() if partition.topic == name]
    if there:
        count, factor = len(there), max(len(row.replicas) for row in there)
        problems.append(
            UsageError(
                "a topic of this name exists",
                got=f"{name}, with {count} partition{'s' if count > 1 else ''} and replication factor {factor}",
                allowed=f"another name, or `ebbtide cluster fault delete-topic --topic {name}` first",
            )
        )
    problems += validate_topic(name, spec, name, len(_broker_ids(runtime)))
    if problems:
        raise Problems(f"the topic {name}", problems, next="ebbtide cluster status")


def create_topic(runtime: Runtime, folder: Path, name: str, spec: TopicSpec) -> None:
    """Create a topic with its leaders spread over the brokers.

    Returns when every partition has its full ISR.

    The client writes its files into `folder`. Raises `HarnessError` with the last answer of the cluster, and
    `UsageError` for settings that Kafka refuses.
    """
    brokers = _broker_ids(runtime)
    client = Client(f"topic-{name}", "workloads.topics", folder / JOURNAL_DIR, folder / LOGS_DIR / f"topic-{name}.log")
    config = TopicsConfig(
        endpoints=client.endpoints,
        bootstrap=tuple(runtime.bootstrap_servers()),
        topics={
            name: NewTopic(
                assignment=spec.assignment or _spread_replicas(brokers, spec),
                config={"min.insync.replicas": str(spec.min_isr), **spec.config},
            )
        },
        result=str(folder / JOURNAL_DIR / f"topic-{name}.brokers.json"),
        timeout_s=TIMEOUT_S,
    )
    client.run_to_end(config, runtime.start_client, TIMEOUT_S)
    read_topics_result(Path(config.result))


def _broker_ids(runtime: Runtime) -> list[int]:
    return [node.id for node in runtime.nodes.values() if node.role == "broker"]


def _spread_replicas(brokers: list[int], spec: TopicSpec) -> tuple[tuple[int, ...], ...]:
    """Return each partition's replicas.

    Its first replica is one broker on from that of the partition before.
    """
    count = len(brokers)
    return tuple(
        tuple(brokers[(partition + replica) % count] for replica in range(spec.replication_factor))
        for partition in range(spec.partitions)
    )
