"""Every setting of kafka-python's clients that can distort an experiment, set here and nowhere else.

What is recorded in the manifest and what the clients run with are the same values. The reasons are in
docs/workloads.md.
"""

from __future__ import annotations

from ebbtide.scenario.model import Isolation
from workloads.config import ConsumerConfig, ProducerConfig

Setting = str | int | bool | None

_CONNECTION: dict[str, Setting] = {
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 500,
    "allow_auto_create_topics": False,
    "metrics_enabled": False,
}
_MAX_REQUEST_BYTES = 2 << 20
"""Above what a broker takes by default, so that a record that is too large is the broker's to refuse."""


def producer_settings(config: ProducerConfig) -> dict[str, Setting]:
    """kafka-python's producer, whom it connects to and its name aside."""
    idempotent = config.idempotent or config.transactional_id is not None
    settings: dict[str, Setting] = {
        "acks": config.acks,
        "enable_idempotence": idempotent,
        "retries": 2**31 - 1,
        "max_in_flight_requests_per_connection": 5 if idempotent else 1,
        "linger_ms": config.linger_ms,
        "batch_size": 32_768,
        "max_request_size": _MAX_REQUEST_BYTES,
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
        # kafka-python looks for the answer of a request to the coordinator only as often as this.
        settings["retry_backoff_ms"] = 20
        # Longer than a record may be under way, so that only a fault lets the coordinator give a transaction up.
        settings["transaction_timeout_ms"] = config.delivery_timeout_ms + 5_000
    return settings


def consumer_settings(config: ConsumerConfig) -> dict[str, Setting]:
    """kafka-python's consumer, whom it connects to and its name aside."""
    return reader_settings(config.isolation, config.group, config.request_timeout_ms, config.start_timeout_s)


def reader_settings(
    isolation: Isolation, group: str | None, request_timeout_ms: int, bootstrap_timeout_s: float
) -> dict[str, Setting]:
    """The same of a consumer that need not be a scenario's.

    `auto_offset_reset` is always none here: a reset inside the client would move the position without a word.
    The scenario's policy is carried out by `workloads.consumer`, and each move is recorded. Batch CRCs are not
    checked: the payload's CRC shows damage record by record.
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


def told(settings: dict[str, Setting]) -> str:
    """The settings as one line for the manifest."""
    return ", ".join(f"{name}={_word(value)}" for name, value in settings.items())


def _word(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
