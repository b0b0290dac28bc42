"""Every setting of kafka-python's clients that can distort an experiment.

They are set only here. The manifest records the same values that the clients run with. The reasons are in
docs/clients.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ebbtide.scenario.kafka_settings import Place, settings_at
from ebbtide.scenario.model import Isolation
from workloads.config import ConsumerConfig, ProducerConfig

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


def kafka_python_settings(config: ProducerConfig) -> dict[str, Setting]:
    """Return the settings of a scenario's producer of kafka-python, with those that the scenario sets."""
    return producer_settings(config) | _own("kafka-python", config.properties)


def consumer_settings(config: ConsumerConfig) -> dict[str, Setting]:
    """Return the settings of a scenario's consumer, without bootstrap and name."""
    settings = reader_settings(config.isolation, config.group, config.request_timeout_ms, config.start_timeout_s)
    # Every commit of a consumer that journals its commits must be in the journal.
    settings |= {} if config.commit_every is None else {"enable_auto_commit": False}
    return settings | _own("kafka-python-consumer", config.properties)


def _own(place: Place, properties: Mapping[str, str]) -> dict[str, Setting]:
    """Return a scenario's properties with values of the types that kafka-python takes."""
    types = {name: settings_at(place)[name].type for name in properties}
    read: dict[str, Callable[[str], Setting]] = {"boolean": lambda text: text == "true", "int": int}
    return {name: read.get(types[name], str)(text) for name, text in properties.items()}


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
