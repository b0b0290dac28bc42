"""The settings of the producers of librdkafka and of Java, by these libraries' own names.

They say what `workloads.library_settings` says to kafka-python, so that the libraries can be compared. A scenario's
`properties` come last.

Every setting of kafka-python's clients that can distort an experiment.

They are set only here. The manifest records the same values that the clients run with. The reasons are in
docs/clients.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ebbtide.journal.convert import JOURNAL_SUFFIX
from ebbtide.scenario.kafka_settings import DEFAULT_LIBRARY, ClientLibrary, ConsumerLibrary
from ebbtide.scenario.model import Isolation, ProducerSpec
from workloads.config import ConsumerConfig, CopySettings, ProducerConfig

Setting = str | int | bool | None

_CONNECTION: dict[str, Setting] = {
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 500,
    "allow_auto_create_topics": False,
    "metrics_enabled": False,
}
MAX_REQUEST_BYTES = 2 << 20
"""Above a broker's default limit, so that the broker and not the client refuses a record that is too large."""


def producer_settings(config: ProducerConfig) -> dict[str, Setting]:
    """Return the settings of kafka-python's producer, without bootstrap and name."""
    idempotent = config.idempotent or config.transactional_id is not None
    settings: dict[str, Setting] = {
        "acks": config.acks,
        "enable_idempotence": idempotent,
        "retries": 2**31 - 1,
        "max_in_flight_requests_per_connection": 5 if idempotent else 1,
        "linger_ms": config.linger_ms,
        "batch_size": 32_768,
        "max_request_size": MAX_REQUEST_BYTES,
        "compression_type": config.compression,
        "request_timeout_ms": config.request_timeout_ms,
        "delivery_timeout_ms": config.delivery_timeout_ms,
        "retry_backoff_ms": config.retry_backoff_ms,
        "metadata_max_age_ms": 2_000,
        "max_block_ms": 5_000,
        "bootstrap_timeout_ms": int(config.start_timeout_s * 1000),
        **_CONNECTION,
    }
    if config.transactional_id is not None:
        settings["transactional_id"] = config.transactional_id
        # kafka-python checks for the answer of a request to the coordinator only at this interval.
        settings["retry_backoff_ms"] = 20
        # Longer than a record may be in flight, so that only a fault makes the coordinator give up a transaction.
        settings["transaction_timeout_ms"] = config.delivery_timeout_ms + 5_000
    return settings


def consumer_settings(config: ConsumerConfig) -> dict[str, Setting]:
    """Return the settings of a scenario's consumer, without bootstrap and name."""
    settings = reader_settings(config.isolation, config.group, config.request_timeout_ms, config.start_timeout_s)
    # Every commit of a consumer that journals its commits must be in the journal.
    return settings if config.commit_every is None else settings | {"enable_auto_commit": False}


def reader_settings(
    isolation: Isolation, group: str | None, request_timeout_ms: int, bootstrap_timeout_s: float
) -> dict[str, Setting]:
    """Return the settings of any consumer, without bootstrap and name.

    `auto_offset_reset` is always none here: a reset inside the client would move the position silently.
    `workloads.consumer` carries out the scenario's policy, and records each move. Batch CRCs are not checked: the
    payload's CRC shows damage record by record.
    """
    settings: dict[str, Setting] = {
        "group_id": group,
        "enable_auto_commit": group is not None,
        "auto_offset_reset": "none",
        "isolation_level": isolation,
        "check_crcs": False,
        "fetch_max_wait_ms": 100,
        "max_poll_records": 2_000,
        "request_timeout_ms": request_timeout_ms,
        "retry_backoff_ms": 100,
        "metadata_max_age_ms": 1_000,
        "bootstrap_timeout_ms": int(bootstrap_timeout_s * 1000),
        **_CONNECTION,
    }
    if group is not None:
        settings |= {"auto_commit_interval_ms": 1_000, "session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_000}
    return settings


def settings_line(settings: Mapping[str, Setting]) -> str:
    """Return the settings as one line for the manifest."""
    return ", ".join(f"{name}={format_value(value)}" for name, value in settings.items())


def format_value(value: Setting) -> str:
    """Return a setting as Kafka's clients write it: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


_RETRIES_MAX = 2**31 - 1


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

    They are those of `consumer_settings`. librdkafka never resets a position itself. It takes no
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
    return settings


def java_settings(config: ProducerConfig) -> dict[str, Setting]:
    """Return the settings of Kafka's own producer, without bootstrap and serializers."""
    idempotent = config.idempotent or config.transactional_id is not None
    settings: dict[str, Setting] = {
        "client.id": f"ebbtide-producer-{config.id}",
        "acks": config.acks,
        "enable.idempotence": idempotent,
        "retries": _RETRIES_MAX,
        "max.in.flight.requests.per.connection": 5 if idempotent else 1,
        "linger.ms": config.linger_ms,
        "batch.size": 32_768,
        "max.request.size": MAX_REQUEST_BYTES,
        "compression.type": config.compression or "none",
        "request.timeout.ms": config.request_timeout_ms,
        "delivery.timeout.ms": config.delivery_timeout_ms,
        "retry.backoff.ms": config.retry_backoff_ms,
        "metadata.max.age.ms": 2_000,
        "max.block.ms": 5_000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
    }
    if config.transactional_id is not None:
        settings["transactional.id"] = config.transactional_id
        settings["transaction.timeout.ms"] = config.delivery_timeout_ms + 5_000
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
    "kafka-python": producer_settings,
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
