"""All clients of one run behind one object.

They are topics, sampler, consumers, producers and the final read. The order of a run is:

- `create_topics`, `start`;
- steps, while `check` raises nothing and the counters move;
- `stop_producers`, heal, `final_read`, `stop`;
- `ebbtide.journal.convert.convert_journals` on the record.

Call `close` in a finally block: it kills by pid whatever still runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from cluster.kafka_api.admin_requests import AdminAnswer, AdminRequest, MakeTopic
from cluster.runtime.base import StartClient
from cluster.runtime.tool_command import ToolCommand
from ebbtide.errors import HarnessError
from ebbtide.journal.convert import JOURNAL_SUFFIX
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.files import JOURNAL_DIR, LOGS_DIR, RecordFolder
from ebbtide.record.manifest import ACKS
from ebbtide.scenario.internal_topics import INTERNAL_TOPICS
from ebbtide.scenario.kafka_settings import DEFAULT_GROUP_PROTOCOL
from ebbtide.scenario.model import ConsumerSpec, ProducerSpec, TopicSpec
from workloads.admin import AdminConfig, brokers_for
from workloads.client import Client, ClientEnd, ReplicaQuestion
from workloads.client_steps import STARTED, ClientSteps
from workloads.config import (
    FINAL_CONSUMER,
    ConsumerConfig,
    FinalRead,
    FinalReadConfig,
    NewTopic,
    ProducerConfig,
    SamplerConfig,
    TopicsConfig,
    read_topics_result,
)
from workloads.ended_transactions import ENDING_S, transactional_id
from workloads.library_settings import CONSUMER_MODULES, consumer_line, copy_settings, producer_line, producer_module
from workloads.process import ClientState
from workloads.replica_high_watermarks import ASKING_S
from workloads.replica_logs import ReplicaLogsConfig
from workloads.sampler import groups_to_ask, partitions_of
from workloads.send_account import SendCounts, counts_in

START_TIMEOUT_S = 30.0
_OUTSTANDING = 10_000
_OUTSTANDING_BYTES = 64 << 20
"""How many records and bytes a producer may have in flight: kafka-python 3 has no buffer limit of its own."""


class Workload:
    """The clients of one run. Use one object from one thread.

    - `record` is the run folder: journals and the clients' small files go to `journal/`, their stderr to `logs/`.
    - `start_client` starts a client where it reaches the brokers; `bootstrap` is `Runtime.bootstrap_servers()`.
    - `assignments` are each topic's replicas per partition.
    - `command_config` is the properties file with which the clients reach the brokers.
    - `tools` has the command of each Java producer, by its id.
    - `final_partition_counts` has how many partitions a topic may have in the end, where steps add some.
    """

    def __init__(
        self,
        *,
        record: RecordFolder,
        run_id: str,
        start_client: StartClient,
        bootstrap: Sequence[str],
        topics: Mapping[str, TopicSpec],
        assignments: Mapping[str, Sequence[tuple[int, ...]]],
        producers: Sequence[ProducerSpec],
        consumers: Sequence[ConsumerSpec] = (),
        tools: Mapping[int, ToolCommand] | None = None,
        command_config: str | None = None,
        final_partition_counts: Mapping[str, int] | None = None,
    ) -> None:
        self._record = record.path.absolute()
        self._command_config = command_config
        self._run_id = run_id
        self._start_client = start_client
        self._bootstrap = tuple(bootstrap)
        self._topics = dict(topics)
        self._assignments = assignments
        self._tools = tools or {}
        self._producers = {
            spec.id: (spec, self._client(f"producer-{spec.id}", producer_module(spec))) for spec in producers
        }
        self._consumers = {
            spec.id: (spec, self._client(f"consumer-{spec.id}", CONSUMER_MODULES[spec.library])) for spec in consumers
        }
        pairs = (*self._consumers.values(), *self._producers.values())
        self.client_steps = ClientSteps(self._folder, [client for _, client in pairs], self._begin)
        self._earlier: dict[int, SendCounts] = {}  # what each producer had counted when a step started it again
        self._sampler = self._client("sampler", "sampler")
        self._final = self._client(f"consumer-{FINAL_CONSUMER}", "final_read")
        self._topic_maker = self._client("topics", "topics")
        self._asked = 0
        self._counts = {name: spec.partitions for name, spec in topics.items()} | dict(final_partition_counts or {})
        self._slots = {item: index for index, item in enumerate(partitions_of(self._counts))}
        self._brokers: dict[int, str] = {}

    def create_topics(self, timeout_s: float = 60.0) -> None:
        """Wait for every broker, create the topics, and learn the brokers' addresses.

        Raises `HarnessError` with the last state of the cluster.
        """
        result = self._folder / "brokers.json"
        config = TopicsConfig(
            endpoints=self._topic_maker.endpoints,
            bootstrap=self._bootstrap,
            topics={name: self._new_topic(name) for name in self._topics},
            result=str(result),
            timeout_s=timeout_s,
        )
        self._topic_maker.run_to_end(config, self._start_client, timeout_s)
        self._brokers = read_topics_result(result).brokers

    def _new_topic(self, name: str) -> NewTopic:
        """Return a topic of the scenario as Kafka is asked for it."""
        spec = self._topics[name]
        own = INTERNAL_TOPICS.get(name, {})
        return NewTopic(
            assignment=tuple(self._assignments[name]),
            config={"min.insync.replicas": str(spec.min_isr), **own, **spec.config},
        )

    def use_topics(self, brokers: Mapping[int, str]) -> None:
        """Use topics that exist already, on brokers with these addresses."""
        self._brokers = dict(brokers)

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start sampler, consumers and producers, and wait until each one works.

        Raises `HarnessError` when a client dies, `WaitExpired` when a client does not get ready.
        """
        if not self._brokers:
            raise HarnessError("the workload was started before its topics were created")
        self._sampler.start(self._sampler_config(), self._start_client)
        for name in self.client_steps.clients:
            self._begin(name, timeout_s)
        deadline = time.monotonic() + timeout_s
        for client in self._running_clients():
            client.await_state(STARTED, max(0.0, deadline - time.monotonic()))

    def _begin(self, name: str, timeout_s: float) -> None:
        """Start a process of a producer or consumer; one that steps took down before continues its journal."""
        for consumer, client in self._consumers.values():
            if client.name == name:
                client.start(self._consumer_config(consumer, client, timeout_s), self._start_client)
        for producer, client in self._producers.values():
            if client.name == name:
                self._earlier[producer.id] = self._counts_of(producer.id)
                client.start(self._producer_config(producer, client, timeout_s), self._start_client)

    def settings(self) -> dict[str, str]:
        """Return the settings of each client of the scenario by name, for the manifest."""
        producers = {
            client.name: producer_line(spec.library, self._producer_config(spec, client, START_TIMEOUT_S))
            for spec, client in self._producers.values()
        }
        consumers = {
            client.name: consumer_line(spec.library, self._consumer_config(spec, client, START_TIMEOUT_S))
            for spec, client in self._consumers.values()
        }
        return producers | consumers

    def check(self) -> None:
        """Raise `HarnessError` with its reason when a client died by itself."""
        for client in self._running_clients():
            client.check()

    def send_counts(self) -> SendCounts:
        """Return the counts of sends so far.

        They are at most one flush interval (50 ms) old. Every counted record is in the journals.
        """
        return sum(map(self._counts_of, self._producers), SendCounts())

    def _counts_of(self, producer: int) -> SendCounts:
        """Return the counts of a producer, with those of processes that a step ended: they leave no answer open."""
        spec, client = self._producers[producer]
        counts = counts_in(client.status, self._counts[spec.topic])
        return self._earlier.get(producer, SendCounts()) + (counts.abandoned() if client.is_down else counts)

    def acked(self) -> int:
        """Return how many records were acked so far."""
        return self.send_counts().acked

    def are_producers_done(self) -> bool:
        """Whether every producer has handed over its count and knows every outcome, or was left down by a step."""
        return all(client.is_down or client.state == ClientState.DONE for _, client in self._producers.values())

    def high_watermark(self, topic: str, partition: int) -> int | None:
        """Return the highest HW that any leader of the partition has served, or None."""
        slot, status = self._slots.get((topic, partition)), self._sampler.status
        served = 0 if slot is None or status is None else status.get(slot)
        return served - 1 if served > 0 else None

    def stop_producers(self, timeout_s: float = 10.0) -> list[ClientEnd]:
        """End the producers: they send no more, and wait for outstanding answers.

        Sends without an answer are unknown. A producer that still runs after `timeout_s` is killed; its journal keeps
        what it wrote.
        """
        return _end([client for _, client in self._producers.values()], timeout_s)

    def administer(self, request: AdminRequest, timeout_s: float) -> AdminAnswer:
        """Send an administrative request to the cluster, from the client namespace.

        A topic is created as the scenario's topics describe it. Raises `HarnessError` that says why there is no answer.
        """
        self._asked += 1
        if isinstance(request, MakeTopic):
            made = self._new_topic(request.topic) if request.topic in self._topics else NewTopic(assignment=())
            request = MakeTopic(
                topic=request.topic, assignment=made.assignment, config=made.config, brokers=self._brokers
            )
        client = self._client(f"admin-{self._asked}", "admin")
        result = self._folder / f"{client.name}.answer.json"
        config = AdminConfig(
            endpoints=client.endpoints,
            bootstrap=brokers_for(request, self._brokers, self._bootstrap),
            request=request,
            result=str(result),
            timeout_s=timeout_s,
        )
        client.run_to_end(config, self._start_client, timeout_s)
        return msgspec.json.decode(result.read_bytes(), type=AdminAnswer)

    def ask_replicas(self, at: TopicPartition, replicas: Sequence[int]) -> ReplicaQuestion:
        """Begin to ask these replicas of a partition for their logs, from the client namespace."""
        self._asked += 1
        client = self._client(f"replica-logs-{self._asked}", "replica_logs")
        result = self._folder / f"{client.name}.answers.json"
        result.unlink(missing_ok=True)
        config = ReplicaLogsConfig(
            endpoints=client.endpoints,
            topic=at.topic,
            partition=at.partition,
            replicas={broker: self._brokers[broker] for broker in replicas},
            result=str(result),
            bootstrap=self._bootstrap,
        )
        client.start(config, self._start_client)
        return ReplicaQuestion(client, result)

    def final_read(
        self,
        timeout_s: float = 30.0,
        *,
        topics: Mapping[str, int] | None = None,
        gone: Sequence[str] = (),
        replicas: Mapping[TopicPartition, Sequence[int]] | None = None,
    ) -> FinalRead:
        """Read every partition of `topics` from its start to its HW, as consumer `FINAL_CONSUMER`.

        None: all topics that were created. Kafka's own are left out. The `replicas` are asked for their own HW.
        The metadata log has no topic of `gone` any more.
        Raises `HarnessError` that says why the read did not settle.
        """
        created = {name: spec.partitions for name, spec in self._topics.items()}
        counts = created if topics is None else topics
        transactional = [spec for spec, _ in self._producers.values() if spec.transactional]
        transactions_s = ENDING_S if transactional else 0.0
        result = self._folder / "final.json"
        config = FinalReadConfig(
            endpoints=self._final.endpoints,
            journal=self._journal(self._final),
            run_id=self._run_id,
            bootstrap=self._bootstrap,
            topics={name: count for name, count in counts.items() if name not in INTERNAL_TOPICS},
            gone=tuple(gone),
            result=str(result),
            brokers=self._brokers,
            replicas={str(at): tuple(brokers) for at, brokers in (replicas or {}).items()},
            transactional_ids=tuple(transactional_id(spec) for spec in transactional),
            transactions_s=transactions_s,
            timeout_s=timeout_s,
        )
        self._final.run_to_end(config, self._start_client, timeout_s + transactions_s + ASKING_S)
        return msgspec.json.decode(result.read_bytes(), type=FinalRead)

    def stop(self, timeout_s: float = 10.0) -> list[ClientEnd]:
        """End the clients that run, the sampler last; returns how every client ended."""
        *others, sampler = self._running_clients()
        return [*_end(others, timeout_s), *_end([sampler], timeout_s)]

    def close(self) -> None:
        """Kill the clients that still run; never raises for a client that has ended."""
        for client in [*self._running_clients(), self._final, self._topic_maker]:
            client.kill()

    @property
    def _folder(self) -> Path:
        return self._record / JOURNAL_DIR

    def _running_clients(self) -> list[Client]:
        return [*self.client_steps.clients.values(), self._sampler]

    def _client(self, name: str, module: str) -> Client:
        log = self._record / LOGS_DIR / f"client-{name}.log"
        return Client(name, f"workloads.{module}", self._folder, log, command_config=self._command_config)

    def _journal(self, client: Client) -> str:
        return str(self._folder / f"{client.name}{JOURNAL_SUFFIX}")

    def _sampler_config(self) -> SamplerConfig:
        producers, consumers = self._producers.values(), self._consumers.values()
        groups = groups_to_ask([spec for spec, _ in producers], [spec for spec, _ in consumers])
        return SamplerConfig(
            endpoints=self._sampler.endpoints,
            journal=self._journal(self._sampler),
            groups=groups,
            commits=str(self._folder / f"commits-served{JOURNAL_SUFFIX}") if groups else None,
            described=str(self._folder / f"describer{JOURNAL_SUFFIX}"),
            brokers=self._brokers,
            topics=self._counts,
        )

    def _consumer_config(self, spec: ConsumerSpec, client: Client, timeout_s: float) -> ConsumerConfig:
        return ConsumerConfig(
            endpoints=client.endpoints,
            journal=self._journal(client),
            run_id=self._run_id,
            bootstrap=self._bootstrap,
            id=spec.id,
            # Only a group learns of partitions that are added later.
            topics={name: self._counts[name] if spec.group else self._topics[name].partitions for name in spec.topics},
            isolation=spec.isolation,
            group=spec.group,
            group_protocol=spec.group_protocol or DEFAULT_GROUP_PROTOCOL,
            leave_every=spec.leave_every,
            commit_every=spec.commit_every,
            commits_journal=str(self._folder / f"commits-{spec.id}{JOURNAL_SUFFIX}") if spec.commit_every else None,
            max_rate_per_s=spec.max_rate_per_s,
            auto_offset_reset=spec.auto_offset_reset,
            properties=spec.properties or {},
            handle_ms=spec.handle_ms or 0.0,
            commit_when=spec.commit_when or "after-handling",
            start_timeout_s=timeout_s,
            life=self.client_steps.life_of(client.name),
        )

    def _producer_config(self, spec: ProducerSpec, client: Client, timeout_s: float) -> ProducerConfig:
        return ProducerConfig(
            endpoints=client.endpoints,
            journal=self._journal(client),
            run_id=self._run_id,
            bootstrap=self._bootstrap,
            id=spec.id,
            topic=spec.topic,
            partitions=self._counts[spec.topic],
            first_partitions=self._topics[spec.topic].partitions,
            acks=ACKS[spec.acks],
            idempotent=spec.idempotent,
            count=None if spec.count is None else spec.count - self._earlier.get(spec.id, SendCounts()).handed,
            rate_per_s=spec.rate_per_s,
            payload_bytes=spec.payload_bytes,
            linger_ms=spec.linger_ms,
            properties=spec.properties or {},
            java=self._tools.get(spec.id),
            compression=None if spec.compression == "none" else spec.compression,
            keys=spec.keys,
            transactional_id=transactional_id(spec) if spec.transactional else None,
            txn_records=spec.txn_records or 0,
            abort_every=spec.abort_every,
            fence_every=spec.fence_every,
            abort_unacked=spec.abort_unacked,
            copies=copy_settings(spec, self._folder),
            max_outstanding=max(1, min(_OUTSTANDING, _OUTSTANDING_BYTES // spec.payload_bytes)),
            start_timeout_s=timeout_s,
            life=self.client_steps.life_of(client.name),
        )


def _end(clients: Sequence[Client], timeout_s: float) -> list[ClientEnd]:
    for client in clients:
        client.request_stop()
    deadline = time.monotonic() + timeout_s
    return [client.join(deadline) for client in clients]
