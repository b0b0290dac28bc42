"""Clients of the user's own, which Ebbtide did not write, are judged by their traffic; payloads are nowhere."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from evidence_builders import Content, batch
from host_state import HostState, left_after
from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse
from live.commands import LOCAL, ebbtide

from bench.broken_kafka.agent import environment_of
from bench.broken_kafka.bugs import read_bugs
from cluster.kafka_api.connection import BrokerConnection
from cluster.watched.watch_topic import connection_to
from ebbtide.daemon.control import status_of
from ebbtide.errors import ExitCode
from ebbtide.handled import HandledRecords
from ebbtide.record.files import RecordFolder
from ebbtide.record.own_producers import OwnProducer
from ebbtide.record.verdict import Verdict, read_judgement
from ebbtide.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.root]

MARKER = "do-not-keep-me"
SCENARIO = """
name = "own-producer"
title = "A producer of the test's own"
description = "Its topic is made by hand."
kafka = ["4.3.1"]

[topics.t]

[[producers]]
id = 1
topic = "t"
rate_per_s = 100

[[predictions]]
kafka = "==4.3.1"
loss = { committed = "none", uncommitted = "none" }
clause = "no acked record of any client is lost"
"""


@pytest.fixture
def publish() -> str:
    """The word of `--publish`; a test may set another."""
    return "0"


@pytest.fixture
def bug() -> str | None:
    """The bug that is planted in the nodes; a test may set one."""
    return None


@pytest.fixture
def name(tmp_path: Path, publish: str, bug: str | None) -> Iterator[str]:
    """A cluster with published ports and the topic `orders`."""
    before, name = HostState.now(), f"own-{os.getpid()}"
    file = tmp_path / "own-producer.toml"
    file.write_text(SCENARIO)
    agent = {} if bug is None else environment_of(read_bugs()[bug])
    # Containers do not get the environment that loads the agent.
    options = ["--publish", publish, "--cluster", name, "--runs", tmp_path / "runs", *(LOCAL if bug else ())]
    up = ebbtide("cluster", "up", file, *options, env=agent)
    assert up.returncode == ExitCode.AS_PREDICTED, up.stdout + up.stderr
    done(ebbtide("cluster", "topic", "orders", "min_isr=1", "--cluster", name))
    yield name
    ebbtide("clean")
    assert left_after(before, str(tmp_path)) == []


def done(process: subprocess.CompletedProcess[str]) -> None:
    assert process.returncode == ExitCode.AS_PREDICTED, process.stdout + process.stderr


def high_watermark(published: Sequence[str]) -> int:
    """Return the HW of orders-0, below which all replicas in the ISR have the records."""
    asking = Consumer({"bootstrap.servers": ",".join(published), "group.id": "nobody"})
    try:
        _, end = asking.get_watermark_offsets(TopicPartition("orders", 0), timeout=10)
    finally:
        asking.close()
    return int(end)


def address_of(name: str) -> dict[str, str]:
    """Return what a client's settings say of where the cluster is."""
    status = status_of(name)
    assert status is not None
    tls = {"security.protocol": "SSL", "ssl.ca.location": status.published_ca} if status.published_ca else {}
    return {"bootstrap.servers": ",".join(status.published), **tls}


class Application:
    """A producer with acks=1, in a library that Ebbtide knows nothing of."""

    def __init__(self, name: str) -> None:
        self.acked = 0
        self._producer = Producer({"client.id": "orders-1", "acks": "1", **address_of(name)})

    def send(self, count: int) -> None:
        """Send records, and wait for an ack of each."""
        wanted = self.acked + count
        for number in range(count):
            self._producer.produce("orders", f"{MARKER} {number}".encode(), on_delivery=self._note)
        wait_until(
            lambda: self._producer.poll(0.01) is not None and self.acked == wanted,
            awaited=f"{wanted} acks",
            timeout_s=30,
            last_seen=lambda: str(self.acked),
        )

    def _note(self, error: KafkaError | None, _message: Message) -> None:
        self.acked += error is None


def read_all(name: str, count: int, *, commits_first: bool) -> None:
    """Read records as the group `billing`, handle all but the last three if it commits first, and commit."""
    status = status_of(name)
    assert status is not None
    handled = HandledRecords(Path(status.record), status.clock_base_ns)
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "group.id": "billing"}
    consumer = Consumer({**settings, **address_of(name)})
    consumer.subscribe(["orders"])
    got: list[Message] = []

    def has_all() -> bool:
        got.extend(consumer.consume(count - len(got), 0.5))
        return len(got) == count

    wait_until(has_all, awaited=f"{count} records", timeout_s=60, last_seen=lambda: str(len(got)))
    if commits_first:
        consumer.commit(message=got[-1], asynchronous=False)
    for record in got[: -3 if commits_first else None]:
        handled.note(record)
    if not commits_first:
        consumer.commit(message=got[-1], asynchronous=False)
    consumer.close()


def write_transaction(name: str, count: int) -> None:
    """Write records in a transaction, and commit it."""
    producer = Producer({"transactional.id": "copier", **address_of(name)})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(count):
        producer.produce("orders", f"{MARKER} copy {number}".encode())
    producer.commit_transaction(30)


def of_own_clients(verdict: Verdict) -> dict[str, str]:
    """Return how the clauses on own clients ended."""
    return {one.name: one.status for one in verdict.properties if one.name.startswith("own-")}


def judged(name: str, runs: Path, code: ExitCode) -> tuple[Verdict, list[OwnProducer]]:
    done(ebbtide("cluster", "down", name))
    (record,) = runs.iterdir()
    assert ebbtide("analyze", record).returncode == code
    assert subprocess.run(["grep", "-rl", MARKER, record], capture_output=True, check=False).stdout == b""
    verdict = read_judgement(RecordFolder(record))
    assert isinstance(verdict.own_producers, list)
    assert json.loads((record / "manifest.json").read_bytes())["wire"]["unread"] == {}
    return verdict, verdict.own_producers


@pytest.mark.parametrize("bug", ["duplicates-appended"])
def test_a_lost_leaders_records_a_hasty_group_and_a_batch_appended_again_are_accused_by_name(
    name: str, tmp_path: Path
) -> None:
    application = Application(name)
    application.send(100)
    read_all(name, 100, commits_first=True)
    send_twice(name, 20, tmp_path)
    status = status_of(name)
    assert status is not None
    leader = next(row.leader for row in status.partitions if row.topic == "orders")
    others = ", ".join(f"broker({broker})" for broker in (1, 2, 3) if broker != leader)
    wait_until(lambda: high_watermark(status.published) == 140, awaited="140 records on all replicas", timeout_s=30)
    done(ebbtide("cluster", "fault", "--cluster", name, "partition", "--groups", f"broker({leader}) | {others}"))
    application.send(500)
    done(ebbtide("cluster", "fault", "--cluster", name, "power-loss", f"broker({leader})"))
    wait_until(lambda: leader_of(name) not in (leader, -1), awaited="another leader", timeout_s=60, poll_s=0.5)
    verdict, producers = judged(name, tmp_path / "runs", ExitCode.CONTRADICTED)
    (producer,) = (one for one in producers if one.client == "orders-1")
    assert (producer.acks, producer.acked) == (1, 600)
    assert 0 < producer.lost <= 500
    assert verdict.why[0] == str(producer)
    # On a busy host leaders may follow each other so soon that only their epochs are known.
    assert leader_of_epoch(verdict) != str(leader)
    assert leader_of_epoch(verdict) or "a leader of the epochs" in verdict.why[0]
    assert "did not have them" in str(producer)
    assert {(one.client, one.acked, one.lost) for one in producers if one != producer} == {("ebbtide", 20, 0)}
    assert (
        "your group billing committed 100 offsets of orders-0 before their records were handled, from offset 0 on; 3 "
        "of these were handled by nobody"
    ) in verdict.why
    says = "your idempotent producer (client.id ebbtide) sent 20 records of orders-0 once, and the log has them more"
    assert any(says in why for why in verdict.why)
    statuses = of_own_clients(verdict)
    assert statuses["own-commits-are-kept"] == "holds"
    assert statuses["own-idempotent-sends-are-once"] == "violated"


def leader_of(name: str) -> int:
    status = status_of(name)
    assert status is not None
    return next(row.leader for row in status.partitions if row.topic == "orders")


def leader_of_epoch(verdict: Verdict) -> str:
    """Return the broker that the sentence names."""
    return verdict.why[0].partition("(broker ")[2].partition(")")[0]


def send_twice(name: str, count: int, folder: Path) -> None:
    """Send a batch of an idempotent producer, and again, as a client does that got no answer."""
    status = status_of(name)
    assert status is not None
    config = folder / "client.properties"
    tls = f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={status.published_ca}\n"
    config.write_text(tls if status.published_ca else "")
    kind = ProduceRequest.TopicProduceData
    for address in status.published:
        with connection_to(address, str(config), request_timeout_s=30) as broker:
            given = wait_until(lambda broker=broker: producer_id_of(broker), awaited="a producer id", timeout_s=60)  # type: ignore[misc]
            contents: list[Content] = [(None, f"{MARKER} {number}".encode(), ()) for number in range(count)]
            records = batch(0, contents, epoch=-1, producer=(given.producer_id, given.producer_epoch, 0))
            data = [kind(name="orders", partition_data=[kind.PartitionProduceData(index=0, records=records)])]
            for _ in range(2):
                request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=20_000, topic_data=data)
                answer = broker.ask(request, ProduceResponse, 9).responses[0].partition_responses[0]
            if answer.error_code == 0:
                return
    raise AssertionError(f"no broker took the batch: error {answer.error_code}")


def producer_id_of(broker: BrokerConnection) -> Any:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1, producer_id=-1, producer_epoch=-1)
    answer = broker.ask(request, InitProducerIdResponse, 4)
    return answer if answer.error_code == 0 else None


@pytest.mark.parametrize("publish", ["tls:0"])
def test_without_a_fault_the_same_application_passes_with_a_group_a_transaction_and_a_batch_that_was_sent_again(
    name: str, tmp_path: Path
) -> None:
    Application(name).send(600)
    write_transaction(name, 20)
    send_twice(name, 30, tmp_path)
    read_all(name, 650, commits_first=False)
    verdict, producers = judged(name, tmp_path / "runs", ExitCode.AS_PREDICTED)
    assert sorted((one.acked, one.lost, one.why) for one in producers) == [(20, 0, None), (30, 0, None), (600, 0, None)]
    assert of_own_clients(verdict) == {
        "own-commits-are-kept": "holds",
        "own-commits-follow-the-handling": "holds",
        "own-idempotent-sends-are-once": "holds",
        "own-transactions-are-whole": "holds",
    }
