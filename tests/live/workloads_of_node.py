"""Fixtures: the clients of a run against one real Kafka node, without a cluster's namespaces."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from live.single_node import SingleNode

from cluster.host.children import start_child
from cluster.host.ledger import Ledger
from cluster.runtime.base import StartClient
from cluster.runtime.tool_command import ToolCommand
from ebbtide.record.files import RecordFolder
from ebbtide.scenario.model import ConsumerSpec, ProducerSpec, TopicSpec
from ebbtide.waiting import wait_until
from workloads.forked_clients import ForkedClients, StartProcess
from workloads.group import Workload

Make = Callable[..., Workload]


def await_producers(workload: Workload) -> None:
    """Wait until every producer has handed over its count and knows every outcome."""
    wait_until(
        lambda: workload.check() or workload.are_producers_done(),
        awaited="the outcome of every record",
        timeout_s=60,
        last_seen=lambda: str(workload.send_counts()),
    )


@pytest.fixture(scope="module")
def start_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartProcess]:
    folder = tmp_path_factory.mktemp("processes")
    with Ledger.open("r", folder, ledgers=folder / "ledger") as ledger:
        yield functools.partial(start_child, ledger)


@pytest.fixture(scope="module")
def start(start_process: StartProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartClient]:
    """Forks the clients of all tests of a module from one process, as a run does."""
    clients = ForkedClients(start_process, tmp_path_factory.mktemp("clients") / "clients.log")
    yield clients.start
    clients.close()


@pytest.fixture
def make(kafka_node: SingleNode, start: StartClient, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes a workload whose topics are its producers', created as asked."""
    made: list[Workload] = []

    def workload(
        producers: Sequence[ProducerSpec],
        consumers: Sequence[ConsumerSpec] = (),
        partitions: int = 1,
        config: dict[str, str] | None = None,
        start_client: StartClient = start,
        tools: dict[int, ToolCommand] | None = None,
    ) -> Workload:
        topics = {spec.topic for spec in producers}
        made.append(
            Workload(
                record=RecordFolder(tmp_path),
                run_id=request.node.name,
                start_client=start_client,
                bootstrap=[kafka_node.address],
                topics={
                    name: TopicSpec(partitions=partitions, replication_factor=1, min_isr=1, config=config or {})
                    for name in topics
                },
                assignments={name: [(1,)] * partitions for name in topics},
                producers=producers,
                consumers=consumers,
                tools=tools,
            )
        )
        made[-1].create_topics()
        return made[-1]

    yield workload
    for item in made:
        item.close()
