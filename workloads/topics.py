"""Creates the topics of a run once every broker is there, and learns addresses.

`python -m ebbtide.command workloads.topics CONFIG.json`, whose configuration is a `workloads.config.TopicsConfig`. It
may be started before the cluster answers: it waits for the brokers.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from cluster.kafka_api.connection import INVALID_CONFIG, NONE, BrokerConnection, ClusterState, WireError
from ebbtide.errors import HarnessError
from ebbtide.record.files import write_atomically
from ebbtide.suggestions import nearest_words
from ebbtide.waiting import wait_until
from workloads.config import NewTopic, RefusedSetting, TopicsConfig, TopicsResult, read_config
from workloads.process import ClientState, StatusFile, Stop, run_client


def find_refused_settings(
    broker: BrokerConnection, configs: Mapping[str, Mapping[str, str]], refused: str, message: str
) -> list[RefusedSetting]:
    """Return the settings of all topics that Kafka does not know, else what it says of the topic that it refused.

    `configs` are those of the topics by name, and `message` is Kafka's about `refused`. Raises `WireError`.
    """
    known = sorted(
        one.name
        for one in broker.create_topic(
            # Kafka only checks it, and answers with all its settings. It need not exist.
            refused,
            (),
            {},
            partitions=1,
            replication_factor=1,
            only_check=True,
        ).configs
        or ()
    )
    unknown = [
        RefusedSetting(
            topic=name,
            why=f"Kafka does not know {key}",
            near=next(iter(nearest_words(key, known, most=1)), ""),
            key=key,
        )
        for name, config in configs.items()
        for key in config
        if known and key not in known
    ]
    if unknown:
        return unknown
    words = {word.strip(",.:;") for word in message.split()}
    named = [key for key in configs[refused] if key in words]
    why = f"Kafka refuses the settings of a topic: {message}"
    return [RefusedSetting(topic=refused, why=why, key=named[0] if len(named) == 1 else "")]


_TOPIC_ALREADY_EXISTS = 36
_NOT_YET = frozenset({-1, 5, 7, 8, 14, 15, 38, 41, 89})
"""Errors of a cluster that is still starting: unknown server error, no leader or broker yet, timed out, no
coordinator, too few brokers registered for the replication factor, controller elsewhere, throttled."""


def create_topics(bootstrap: Sequence[str], topics: dict[str, NewTopic], timeout_s: float) -> dict[int, str]:
    """Create `topics` and return the brokers' addresses by id.

    Waits until as many brokers are registered as `bootstrap` names, and until every partition has a leader and its
    full ISR. A topic that exists already is accepted: an earlier request may have been carried out without an answer.
    Raises `WaitExpired` with the last state seen, `TopicSettingsRefused` for settings that are wrong, and
    `HarnessError` when Kafka refuses anything else.
    """
    seen = "no broker answered"

    def attempt() -> dict[int, str] | None:
        nonlocal seen
        for address in bootstrap:
            try:
                with BrokerConnection(address, connect_timeout_s=0.5, request_timeout_s=5.0) as broker:
                    state = broker.metadata(list(topics))
                    if len(state.brokers) < len(bootstrap):
                        seen = f"{address} knows the brokers {sorted(state.brokers)}"
                        continue
                    missing = [name for name in topics if (name, 0) not in state.partitions]
                    seen = _create(broker, {name: topics[name] for name in missing}) or _first_incomplete(state, topics)
                    return state.brokers if not seen else None
            except WireError as error:
                seen = str(error)
        return None

    return wait_until(
        attempt,
        awaited=f"the topics {', '.join(topics)} on {len(bootstrap)} brokers",
        timeout_s=timeout_s,
        last_seen=lambda: seen,
        poll_s=0.1,
    )


class TopicSettingsRefused(Exception):
    """Kafka refuses topics because of settings in the scenario file."""

    def __init__(self, refused: Sequence[RefusedSetting]) -> None:
        self.refused = tuple(refused)
        super().__init__("; ".join(one.why for one in refused))


def _create(broker: BrokerConnection, topics: dict[str, NewTopic]) -> str:
    """Ask for each topic; returns what prevents it so far, empty for nothing."""
    for name, topic in topics.items():
        answer = broker.create_topic(name, topic.assignment, topic.config)
        message = answer.error_message or ""
        if answer.error_code in _NOT_YET:
            return f"{broker.address} answers {name} with error {answer.error_code} {message}".rstrip()
        if answer.error_code == INVALID_CONFIG:
            configs = {name: one.config for name, one in topics.items()}
            raise TopicSettingsRefused(find_refused_settings(broker, configs, name, message))
        if answer.error_code not in (NONE, _TOPIC_ALREADY_EXISTS):
            raise HarnessError(
                f"Kafka refuses to create the topic {name}",
                where=broker.address,
                got=f"error {answer.error_code}: {message}",
                next="correct the topic's settings in the scenario file",
            )
    return ""


def _first_incomplete(state: ClusterState, topics: dict[str, NewTopic]) -> str:
    """Return the first partition without a leader or its full ISR; empty for none."""
    for name, topic in topics.items():
        for partition, replicas in enumerate(topic.assignment):
            found = state.partitions.get((name, partition))
            if found is None:
                return f"{name}-{partition} is not there"
            if found.leader < 0 or len(found.isr) < len(replicas):
                return f"{name}-{partition} has leader {found.leader} and ISR {list(found.isr)}"
    return ""


def main(argv: Sequence[str]) -> int:
    """Create the topics of the configuration file and write the brokers' addresses."""
    config = read_config(Path(argv[0]), TopicsConfig)

    def body(_status: StatusFile, _stop: Stop) -> ClientState:
        try:
            brokers = create_topics(config.bootstrap, config.topics, config.timeout_s)
        except TopicSettingsRefused as refusal:
            refused = TopicsResult(brokers={}, refused=refusal.refused)
            write_atomically(Path(config.result), msgspec.json.encode(refused))
            return ClientState.DONE
        result = TopicsResult(brokers=brokers)
        write_atomically(Path(config.result), msgspec.json.encode(result))
        return ClientState.DONE

    return run_client(config.endpoints, 0, body)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
