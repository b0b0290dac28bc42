"""The topics of a watch: made on somebody else's cluster, and in the ledger before that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from cluster.host.ledger import Ledger
from cluster.kafka_api.connection import BrokerConnection, WireError
from cluster.watched.watch_topic import (
    PREFIX,
    SettingsRefused,
    TopicRefused,
    WatchTopic,
    connection_to,
    make_topic,
    missing_rights,
)
from ebbtide.errors import HarnessError, UsageError
from ebbtide.logs.segments import TopicPartition
from ebbtide.scenario.kafka_settings import RefusedByKafka
from ebbtide.scenario.model import TopicSpec
from ebbtide.waiting import wait_until
from harness.watch.plan import name_in_file
from workloads.config import settings_error
from workloads.topics import find_refused_settings


class OwnTopics:
    """The topics of the watch `run_id`, by their names on the cluster."""

    def __init__(
        self,
        run_id: str,
        topics: Mapping[str, TopicSpec],
        bootstrap: Sequence[str],
        brokers: Sequence[str],
        command_config: str | None,
    ) -> None:
        self._run_id = run_id
        self._topics = topics
        self._brokers = tuple(brokers)
        self._addresses = tuple(dict.fromkeys((*bootstrap, *brokers)))
        self._command_config = command_config
        self.replicas: dict[TopicPartition, tuple[int, ...]] = {}
        """The brokers with a replica of each partition, as a broker said last; a partition may be missing."""

    @property
    def partitions(self) -> list[TopicPartition]:
        """Every partition of the topics."""
        return [
            TopicPartition(name, number) for name, topic in self._topics.items() for number in range(topic.partitions)
        ]

    def make(self, ledger: Ledger, name: str) -> None:
        """Make a topic.

        Raises `RefusedByKafka` for its settings, `TopicRefused` with another reason of Kafka, and `HarnessError` if no
        broker answers. The request is sent once: Kafka may have carried out a request that it did not answer.
        """
        entry = WatchTopic(
            run_id=self._run_id, name=name, bootstrap=self._addresses, command_config=self._command_config
        )
        try:
            ledger.make(entry, lambda: self._ask_for(name))
        except (TopicRefused, RefusedByKafka):
            # It was not made. To delete it would fail too, and hide the reason.
            ledger.forget(entry)
            raise

    def _ask_for(self, name: str) -> None:
        topic = self._topics[name]
        config = {"min.insync.replicas": str(topic.min_isr), **topic.config}
        seen = "no broker answered"
        for address in self._addresses:
            with self._connect(address) as broker:
                try:
                    broker.api_keys()
                except WireError as error:
                    seen = str(error)
                    continue
                try:
                    make_topic(
                        broker,
                        name,
                        partitions=topic.partitions,
                        replication_factor=topic.replication_factor,
                        config=config,
                    )
                except SettingsRefused as refusal:
                    raise self._settings_error(broker, name, refusal) from None
                except WireError as error:
                    raise HarnessError("a broker got the request and did not answer", got=str(error)) from None
                return
        raise HarnessError(f"no broker makes the topic {name}", got=seen)

    def _settings_error(self, broker: BrokerConnection, name: str, refusal: SettingsRefused) -> UsageError:
        """Return the error that names the settings as the file of the workload has them."""
        configs = {topic: one.config for topic, one in self._topics.items()}
        try:
            found = find_refused_settings(broker, configs, name, refusal.message)
        except WireError:  # it refused the topic all the same
            return refusal
        return settings_error([msgspec.structs.replace(one, topic=name_in_file(one.topic)) for one in found])

    def check_rights(self, timeout_s: float) -> None:
        """Raise `UsageError` if this user may not do what a watch does with its topics.

        Raises `WaitExpired` when no broker knows the topics in time.
        """
        seen = "no broker answered"
        missing: dict[str, None] = {}

        def are_known() -> bool:
            nonlocal seen, missing
            for address in self._addresses:
                try:
                    with self._connect(address) as broker:
                        answers = [missing_rights(broker, name) for name in self._topics]
                except WireError as error:
                    seen = str(error)
                    continue
                if None not in answers:
                    missing = dict.fromkeys(right for rights in answers if rights for right in rights)
                    return True
                # A broker learns of a new topic from the metadata log, after the controller answered.
                seen = f"{address} does not know the topic yet"
            return False

        wait_until(
            are_known,
            awaited="a broker that says which rights this user has on the topic of the watch",
            timeout_s=timeout_s,
            last_seen=lambda: seen,
            poll_s=0.1,
        )
        if missing:
            raise UsageError(
                "this user lacks rights on the topic of the watch",
                where=", ".join(self._topics),
                got=f"no {', '.join(missing)}",
                allowed="Create, Describe, Read, Write and Delete on topics with the prefix " + PREFIX,
                next="docs/watch.md has the rights",
            )

    def await_leaders(self, timeout_s: float, look: Callable[[], None]) -> None:
        """Wait until each partition has a leader, and call `look` meanwhile.

        Raises `WaitExpired` with what was seen.
        """
        seen = "no broker answered"

        def are_led() -> bool:
            nonlocal seen
            look()
            for address in self._brokers:
                try:
                    with self._connect(address) as broker:
                        found = broker.metadata(list(self._topics)).partitions
                except WireError as error:
                    seen = str(error)
                    continue
                self.replicas |= {TopicPartition(*at): one.replicas for at, one in found.items()}
                seen = ", ".join(
                    f"{topic}-{number} has leader {one.leader} and ISR {list(one.isr)}"
                    for (topic, number), one in sorted(found.items())
                )
                if len(found) == len(self.partitions) and all(one.leader >= 0 for one in found.values()):
                    return True
            return False

        wait_until(
            are_led,
            awaited="a leader for each partition of the watch",
            timeout_s=timeout_s,
            last_seen=lambda: seen,
            poll_s=0.2,
        )

    def _connect(self, address: str) -> BrokerConnection:
        return connection_to(address, self._command_config)
