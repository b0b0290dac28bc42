"""The settings of the clients of librdkafka and of Java, by these libraries' own names.

They say what `workloads.settings` says to kafka-python, so that the libraries can be compared. A scenario's
`properties` come last.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ebbtide.journal.convert import JOURNAL_SUFFIX
from ebbtide.scenario.kafka_settings import DEFAULT_LIBRARY, ClientLibrary, ConsumerLibrary
from ebbtide.scenario.model import ProducerSpec
from workloads.config import ConsumerConfig, CopySettings, ProducerConfig
from workloads.settings import (
    MAX_REQUEST_BYTES,
    Setting,
    consumer_settings,
    kafka_python_settings,
    producer_settings,
    settings_line,
)

_RETRIES_MAX = 2**31 - 1
_ONLY_KAFKA_PYTHON = ("bootstrap_timeout_ms", "allow_auto_create_topics", "metrics_enabled")


def librdkafka_settings(config: ProducerConfig) -> dict[str, Setting]:
    """Return the settings of librdkafka's producer, without bootstrap and name."""
    return {
        "acks": config.acks,
        "enable.idempotence": config.idempotent,
        "message.send.max.retries": _RETRIES_MAX,
        "max.in.flight.requests.per.connection": 5 if config.idempotent else 1,
        "linger.ms": config.linger_ms,
        "batch.size": 32_768,
        "message.max.bytes": MAX_REQUEST_BYTES,
        "compression.type": config.compression or "none",
        "request.timeout.ms": config.request_timeout_ms,
        "socket.timeout.ms": config.request_timeout_ms,
        "message.timeout.ms": config.delivery_timeout_ms,
        "retry.backoff.ms": config.retry_backoff_ms,
        "topic.metadata.refresh.interval.ms": 2_000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "allow.auto.create.topics": False,
        **config.properties,
    }


def librdkafka_consumer_settings(config: ConsumerConfig) -> dict[str, Setting]:
    """Return the settings of librdkafka's consumer, without bootstrap and name.

    They are those of `workloads.settings.consumer_settings`. librdkafka never resets a position itself. It takes no
    session timeout with the protocol `consumer` (KIP-848): the brokers set it.
    """
    settings: dict[str, Setting] = {
        # librdkafka requires one of every consumer. Without a group nothing is committed under it.
        "group.id": config.group or f"ebbtide-consumer-{config.id}",
        "enable.auto.commit": config.group is not None and config.commit_every is None,
        "auto.commit.interval.ms": 1_000,
        "auto.offset.reset": "error",
        "isolation.level": config.isolation,
        "check.crcs": False,
        "fetch.wait.max.ms": 100,
        "socket.timeout.ms": config.request_timeout_ms,
        "topic.metadata.refresh.interval.ms": 1_000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "allow.auto.create.topics": False,
    }
    if config.group is not None:
        settings["group.protocol"] = config.group_protocol
    if config.group_protocol == "classic":
        settings |= {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 1_000}
    return settings | config.properties


def java_settings(config: ProducerConfig) -> dict[str, Setting]:
    """Return the settings of Kafka's own producer, without bootstrap and serializers.

    Where kafka-python has a setting of Kafka's own producer, it names it alike.
    """
    same = {one: value for one, value in producer_settings(config).items() if one not in _ONLY_KAFKA_PYTHON}
    settings: dict[str, Setting] = {"client.id": f"ebbtide-producer-{config.id}"}
    settings |= {name.replace("_", "."): value for name, value in same.items()}
    settings |= {"compression.type": config.compression or "none", "retry.backoff.ms": config.retry_backoff_ms}
    if config.transactional_id is not None:
        # A commit waits that long for its answer. Less than `workloads.transactions` waits, so that the client answers.
        settings["max.block.ms"] = config.delivery_timeout_ms
    return settings | config.properties


def copy_settings(spec: ProducerSpec, folder: Path) -> CopySettings | None:
    """Return what a copier reads, with its journal in `folder`; None for a producer that is no copier."""
    if spec.copies is None or spec.group is None:
        return None
    journal = str(folder / f"copies-{spec.id}{JOURNAL_SUFFIX}")
    return CopySettings(topic=spec.copies, group=spec.group, offsets=spec.copied_offsets, journal=journal)


def java_copier_settings(config: ProducerConfig, copies: CopySettings) -> dict[str, Setting]:
    """Return the settings of a copier's consumer, without bootstrap and deserializers.

    The records of one poll are one transaction.
    """
    return {
        "client.id": f"ebbtide-producer-{config.id}",
        "group.id": copies.group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "max.poll.records": config.txn_records,
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 1_000,
        "request.timeout.ms": config.request_timeout_ms,
        "default.api.timeout.ms": config.request_timeout_ms,
        "retry.backoff.ms": config.retry_backoff_ms,
        "metadata.max.age.ms": 1_000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "allow.auto.create.topics": False,
    }


_PRODUCER_MODULES: dict[ClientLibrary, str] = {
    "kafka-python": "producer",
    "librdkafka": "librdkafka_producer",
    "java": "java_producer",
}

_SETTINGS: dict[ClientLibrary, Callable[[ProducerConfig], dict[str, Setting]]] = {
    "kafka-python": kafka_python_settings,
    "librdkafka": librdkafka_settings,
    "java": java_settings,
}


CONSUMER_MODULES: dict[ConsumerLibrary, str] = {
    "kafka-python": "consumer",
    "librdkafka": "librdkafka_consumer",
}
"""The module of each library's consumer process."""


def producer_module(spec: ProducerSpec) -> str:
    """Return the module of a producer's process."""
    return "java_copier" if spec.copies is not None else _PRODUCER_MODULES[spec.library]


def consumer_line(library: ConsumerLibrary, config: ConsumerConfig) -> str:
    """Return a consumer's library and settings as one line for the manifest."""
    if library == DEFAULT_LIBRARY:
        return settings_line(consumer_settings(config))
    return f"client={library}, {settings_line(librdkafka_consumer_settings(config))}"


def producer_line(library: ClientLibrary, config: ProducerConfig) -> str:
    """Return a producer's library and settings as one line for the manifest."""
    settings = settings_line(_SETTINGS[library](config))
    if library == DEFAULT_LIBRARY:
        return settings
    release = "" if config.java is None else f" of Kafka {config.java.kafka}"
    return f"client={library}{release}, {settings}"


def makes_one_attempt(config: ProducerConfig) -> bool:
    """Whether the producer never sends a record a second time, because the scenario sets its retries to 0."""
    return "0" in (config.properties.get("retries"), config.properties.get("message.send.max.retries"))
