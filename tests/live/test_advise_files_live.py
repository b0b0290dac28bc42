"""The advice from people's files equals the advice about the cluster that these files make."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from checkout import ROOT
from host_turn import HOST
from kafka import KafkaConsumer, KafkaProducer
from live.commands import ebbtide
from live.foreign_cluster import ForeignCluster
from live.single_node import free_ports

from ebbtide.snapshot.described import BROKER, CONTROLLER, FileFacts
from ebbtide.snapshot.planned import NEXT_TOPIC
from ebbtide.snapshot.text_files import describe_files
from ebbtide.waiting import wait_until

pytestmark = pytest.mark.live

ADVISED = ROOT / "tests" / "data" / "advised"
ELR_ON = "eligible.leader.replicas.version=1"
TOPICS = {NEXT_TOPIC, "__consumer_offsets", "__transaction_state"}
PLACES = {"listeners", "advertised.listeners", "log.dirs", "inter.broker.listener.name", "node.id", "broker.id"} | {
    "controller.quorum.voters",
    "controller.listener.names",
    "listener.security.protocol.map",
}
"""Where a node is: these are the test's, and all other properties are those of the files."""


class FilesCluster(ForeignCluster):
    """The nodes of files, each with its own id, roles and properties."""

    def __init__(self, folder: Path, kafka: str, facts: FileFacts) -> None:
        super().__init__(folder, kafka, brokers=1, controllers=0)
        self._described = {one.id: one for one in facts.nodes if one.id is not None}
        self._brokers = [one for one, node in self._described.items() if BROKER in node.roles]  # type: ignore[assignment]
        voters = [one for one, node in self._described.items() if CONTROLLER in node.roles]
        ports = free_ports(len(self._described) + len(voters))
        self._ports = dict(zip(self._described, ports, strict=False))
        self._voters = dict(zip(voters, ports[len(self._described) :], strict=True))

    def _settings(self, node: int) -> dict[str, str]:
        described = self._described[node]
        listeners = [f"BROKER://{self.address(node)}"] if BROKER in described.roles else []
        listeners += [f"CONTROLLER://127.0.0.1:{self._voters[node]}"] if CONTROLLER in described.roles else []
        usual = {
            name: value for name, value in super()._settings(node).items() if name != "offsets.topic.replication.factor"
        }
        return {
            **usual,
            **{name: value for name, value in described.properties.items() if name not in PLACES},
            "process.roles": ",".join(sorted(described.roles)),
            "controller.quorum.voters": ",".join(f"{one}@127.0.0.1:{port}" for one, port in self._voters.items()),
            "listeners": ",".join(listeners),
        }


@contextmanager
def cluster_of(files: list[Path], folder: Path, kafka: str) -> Iterator[FilesCluster]:
    """The cluster of the files, with the three topics that clients make without asking."""
    cluster = FilesCluster(folder, kafka, describe_files(files))
    with HOST.held():
        try:
            cluster.up()
            producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id="mover")
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(NEXT_TOPIC, b"first").get(timeout=30)
            producer.commit_transaction()
            producer.close()
            consumer = KafkaConsumer(NEXT_TOPIC, bootstrap_servers=cluster.bootstrap, group_id="readers")
            wait_until(
                lambda: consumer.poll(timeout_ms=200) is not None and _is_whole(cluster),
                awaited="each partition of the three topics with all its replicas in sync",
                timeout_s=60,
            )
            consumer.close()
            yield cluster
        finally:
            cluster.down()


def _is_whole(cluster: FilesCluster) -> bool:
    with cluster.connection_to(next(iter(cluster._brokers))) as connection:
        found = connection.metadata(sorted(TOPICS)).partitions
    return {topic for topic, _ in found} == TOPICS and all(set(one.isr) == set(one.replicas) for one in found.values())


def answers(advice: dict[str, Any]) -> dict[str, Any]:
    """What the advice says of each topic: its settings, and each event by acks.

    Only files say that new pods or containers have empty disks.
    """
    return {
        topic: (
            group["settings"],
            {
                line["key"]: {acks: one["says"] for acks, one in line["acks"].items()}
                for line in group["lines"]
                if line["key"] != "containers"
            },
        )
        for group in advice["groups"]
        for topic in group["topics"]
    }


def changes(advice: dict[str, Any]) -> dict[str, set[str]]:
    """The changes for the whole cluster, each with its topics."""
    return {one["assume"]: set(one["topics"]) for one in advice["changes"]}


@pytest.mark.parametrize(
    ("name", "kafka", "assume"),
    [
        ("properties", "4.3.1", f"kafka=4.3.1,{ELR_ON}"),
        pytest.param("bitnami", "3.9.1", "kafka=3.9.1", marks=pytest.mark.slow),
        pytest.param("strimzi", "4.3.1", ELR_ON, marks=pytest.mark.slow),
        pytest.param("brokers-only", "4.3.1", ELR_ON, marks=pytest.mark.slow),
    ],
)
def test_the_answer_from_files_equals_that_of_the_cluster_they_make(
    name: str, kafka: str, assume: str, tmp_path: Path
) -> None:
    files = sorted((ADVISED / name).iterdir())
    with cluster_of(files, tmp_path / "nodes", kafka) as cluster:
        live = json.loads(ebbtide("advise", "--bootstrap", cluster.bootstrap, "--json").stdout)
    found = advice_of(name, assume)
    # Only a compose file says that its brokers share a host, and so commonly lose power together.
    found["headline"] = found["headline"].replace("one common event: all 3", "one rare event: all 3")
    assert_same(found, live)


@pytest.mark.beside
def test_files_of_different_tools_with_the_same_settings_get_the_same_answer() -> None:
    """The properties get that of their cluster."""
    assert_same(advice_of("strimzi", ELR_ON), advice_of("properties", f"kafka=4.3.1,{ELR_ON}"))


def advice_of(name: str, assume: str) -> dict[str, Any]:
    files = sorted((ADVISED / name).iterdir())
    advice: dict[str, Any] = json.loads(ebbtide("advise", *files, "--assume", assume, "--json").stdout)
    return advice


def assert_same(advice: dict[str, Any], other: dict[str, Any]) -> None:
    assert answers(advice) == answers(other)
    assert advice["headline"] == other["headline"]
    assert changes(advice) == changes(other)
    assert [advice["release"][one] for one in ("elr", "variant")] == [
        other["release"][one] for one in ("elr", "variant")
    ]
