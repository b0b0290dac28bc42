"""What a client process is told, as one JSON file. The names are the file's keys; paths are absolute.

Every client gets a status file to count in and a stop file whose appearance ends it; most write a journal.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.model import Isolation, NodeRole, OffsetReset

FINAL_CONSUMER = 0
"""The id under which the final read is journalled. Scenario consumers count from 1, so none can have it."""

Config = TypeVar("Config", bound=msgspec.Struct)


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Where the harness and one client process meet: two files."""

    status: str
    stop: str


class ProducerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One producer process.

    `partitions` are served in turn, or as the `keys` fall; `sequence` counts up per partition. Without `count`
    and `rate_per_s` it sends at full speed until it is told to stop. `max_outstanding` bounds the records handed
    over and not yet answered: kafka-python 3 has no buffer limit of its own.
    `stop_timeout_s` is how long a stopping producer waits for answers before it calls the rest unknown.
    With a `transactional_id` it sends transactions of `txn_records`; see `workloads.transactions`.
    """

    endpoints: Endpoints
    journal: str
    run_id: str
    bootstrap: tuple[str, ...]
    id: int
    topic: str
    partitions: int = 1
    acks: int = -1
    idempotent: bool = False
    count: int | None = None
    rate_per_s: float | None = None
    payload_bytes: int = 64
    linger_ms: int = 5
    compression: str | None = None
    keys: int | None = None
    transactional_id: str | None = None
    txn_records: int = 0
    abort_every: int | None = None
    fence_every: int | None = None
    max_outstanding: int = 10_000
    request_timeout_ms: int = 5_000
    delivery_timeout_ms: int = 15_000
    retry_backoff_ms: int = 100
    start_timeout_s: float = 30.0
    stop_timeout_s: float = 5.0
    flush_interval_ms: int = 50


class ConsumerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tailing consumer process; `topics` maps a topic to its number of partitions.

    Without a `group` it is assigned all of them.
    """

    endpoints: Endpoints
    journal: str
    run_id: str
    bootstrap: tuple[str, ...]
    id: int
    topics: dict[str, int]
    isolation: Isolation = "read_uncommitted"
    group: str | None = None
    leave_every: int | None = None
    max_rate_per_s: float | None = None
    auto_offset_reset: OffsetReset = "none"
    request_timeout_ms: int = 5_000
    start_timeout_s: float = 30.0


class FinalReadConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The read of every partition from its start to its HW after everything was healed.

    `result` is where the offsets are written, as JSON: `{"t-0": {"log_start": 0, "high_watermark": 18}}`.
    """

    endpoints: Endpoints
    journal: str
    run_id: str
    bootstrap: tuple[str, ...]
    topics: dict[str, int]
    result: str
    timeout_s: float = 30.0
    request_timeout_ms: int = 5_000


class SamplerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sampler; `brokers` maps a broker id to its `host:port`.

    HWs go to `journal`, what brokers describe to `described`.
    """

    endpoints: Endpoints
    journal: str
    described: str
    brokers: dict[int, str]
    topics: dict[str, int]
    interval_ms: int = 100
    describe_interval_ms: int = 200
    connect_timeout_ms: int = 500
    request_timeout_ms: int = 1_000


class NewTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One topic to create: the replicas of each partition, preferred leader first. `config` has min.insync.replicas."""

    assignment: tuple[tuple[int, ...], ...]
    config: dict[str, str] = {}


class GivenProperties(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names of properties that a scenario gives the nodes of one role, and one of those nodes to ask about them."""

    role: NodeRole
    names: tuple[str, ...]
    node: int
    address: str


class TopicsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Topics to create once as many brokers are registered as `bootstrap` names.

    `properties`: those to ask Kafka about.
    `result` is where `TopicsResult` is written.
    """

    endpoints: Endpoints
    bootstrap: tuple[str, ...]
    topics: dict[str, NewTopic]
    properties: tuple[GivenProperties, ...] = ()
    result: str
    timeout_s: float = 60.0


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """A property that Kafka does not know, and ignores; `near` is a name that it knows, empty for none."""

    role: NodeRole
    name: str
    near: str

    @property
    def table(self) -> str:
        """Where it stands in the scenario."""
        return f"cluster.{self.role}_properties"


class TopicsResult(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers' addresses (`10.0.0.1:9092`) by id, and what was wrong with the properties."""

    brokers: dict[int, str]
    unknown: tuple[Unknown, ...]


def read_config(path: Path, kind: type[Config]) -> Config:
    """The configuration in `path`. Raises `UsageError` naming the key that is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError("the client's configuration cannot be read", where=str(path), got=str(error)) from None
