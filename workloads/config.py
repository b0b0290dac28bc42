"""The configuration of each client process: one JSON file.

The field names are the file's keys; paths are absolute. Every client gets a status file to count in, and a stop file
whose appearance ends it. Most write a journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from cluster.runtime.tool_command import ToolCommand
from ebbtide.errors import UsageError
from ebbtide.journal.file import NUMBERS_OF_A_LIFE
from ebbtide.journal.payload import value_at
from ebbtide.record.manifest import FinalOffsets, FinalTransactions
from ebbtide.scenario.kafka_settings import GroupProtocol, RefusedByKafka, allowed_or_near
from ebbtide.scenario.model import CommitWhen, CopiedOffsets, Isolation, OffsetReset

FINAL_CONSUMER = 0
"""The id under which the final read is journalled; scenario consumers count from 1, so that it is free."""

_SETTINGS = "settings of a topic, in this release"

Config = TypeVar("Config", bound=msgspec.Struct)


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The two files through which the harness and a client process communicate.

    `command_config` is the properties file with which the client reaches the brokers; None: they take anybody.
    `clock_base_ns` is the base of the run's clock; None: the client measures one of its own.
    """

    status: str
    stop: str
    command_config: str | None = None
    clock_base_ns: int | None = None


class CopySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a copier reads: a topic, as a member of `group`; `journal` gets its copies."""

    topic: str
    group: str
    offsets: CopiedOffsets
    journal: str


class ProducerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of one producer process.

    - `partitions` are served in turn, or by the hash of the `keys`; `sequence` counts up in each partition.
      `first_partitions` of them exist at first, None: all; the others may come later.
    - Without `count` and `rate_per_s` it sends at full speed until it is stopped.
    - `max_outstanding` bounds the records that are handed over and not yet answered: kafka-python 3 has no buffer
      limit of its own.
    - `stop_timeout_s` is how long a stopping producer waits for answers before it reports the rest as unknown.
    - With a `transactional_id` it sends transactions of `txn_records`; see `workloads.transactions`.
    - `properties` are settings of the scenario by the client library's names; `java` is for a Java producer.
    - With `copies` it sends a record for each that it reads, and nothing else.
    - `life`: see `JournalWriter`. `count` is what is left to send.
    """

    endpoints: Endpoints
    journal: str
    run_id: str
    bootstrap: tuple[str, ...]
    id: int
    topic: str
    partitions: int = 1
    first_partitions: int | None = None
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
    abort_unacked: bool = False
    copies: CopySettings | None = None
    properties: dict[str, str] = {}
    java: ToolCommand | None = None
    max_outstanding: int = 10_000
    request_timeout_ms: int = 5_000
    delivery_timeout_ms: int = 15_000
    retry_backoff_ms: int = 100
    start_timeout_s: float = 30.0
    stop_timeout_s: float = 5.0
    flush_interval_ms: int = 50
    life: int = 0

    def value_at(self, number: int) -> int:
        """Return the value of this process's record `number`, and of its transaction `number`."""
        return value_at(self.id, self.life * NUMBERS_OF_A_LIFE + number)

    @property
    def partitions_at_start(self) -> int:
        """How many partitions the topic must have before the first record is sent."""
        return self.partitions if self.first_partitions is None else self.first_partitions


class ConsumerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of one tailing consumer process.

    `topics` maps a topic to its number of partitions. Without a `group` all of them are assigned to it. Commits go to
    `commits_journal`. `properties` and `life` are as in `ProducerConfig`.
    """

    endpoints: Endpoints
    journal: str
    run_id: str
    bootstrap: tuple[str, ...]
    id: int
    topics: dict[str, int]
    isolation: Isolation = "read_uncommitted"
    group: str | None = None
    group_protocol: GroupProtocol = "classic"
    leave_every: int | None = None
    commit_every: int | None = None
    commits_journal: str | None = None
    max_rate_per_s: float | None = None
    auto_offset_reset: OffsetReset = "none"
    properties: dict[str, str] = {}
    handle_ms: float = 0.0
    commit_when: CommitWhen = "after-handling"
    request_timeout_ms: int = 5_000
    start_timeout_s: float = 30.0
    life: int = 0


class FinalReadConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of the final read of every partition, from start to HW.

    It runs after everything was healed. A `FinalRead` is written to `result` as JSON. With `transactional_ids` it
    first waits up to `transactions_s` until no transaction is open, and it asks for the last stable offsets. The
    `replicas` of each `topic-partition` are asked for their own HW at the end, at the addresses of `brokers`. The
    metadata log has no topic of `gone`: where no broker knows such a topic, it has no records.
    """

    endpoints: Endpoints
    journal: str
    run_id: str
    bootstrap: tuple[str, ...]
    topics: dict[str, int]
    gone: tuple[str, ...] = ()
    result: str
    brokers: dict[int, str] = {}
    replicas: dict[str, tuple[int, ...]] = {}
    transactional_ids: tuple[str, ...] = ()
    transactions_s: float = 0.0
    timeout_s: float = 30.0
    request_timeout_ms: int = 5_000


class AnsweredHighWatermarks(msgspec.Struct, frozen=True, kw_only=True):
    """The replicas that answered with the final HW: `{broker: {"topic-partition": HW}}`.

    `why_not_all` names those that did not, and what they answered last.
    """

    reached: dict[int, dict[str, int]] = {}
    why_not_all: str | None = None


class FinalRead(msgspec.Struct, frozen=True, kw_only=True):
    """What the final read found: the ends by `topic-partition`, and what else it was asked for."""

    offsets: dict[str, FinalOffsets]
    transactions: FinalTransactions | None = None
    answered: AnsweredHighWatermarks = AnsweredHighWatermarks()


class SamplerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of the sampler; `brokers` maps a broker id to its `host:port`.

    HWs go to `journal`, the brokers' descriptions to `described`, and what the `groups` have committed for their topics
    to `commits`.
    """

    endpoints: Endpoints
    journal: str
    described: str
    brokers: dict[int, str]
    topics: dict[str, int]
    groups: dict[str, tuple[str, ...]] = {}
    commits: str | None = None
    interval_ms: int = 100
    describe_interval_ms: int = 200
    connect_timeout_ms: int = 500
    request_timeout_ms: int = 1_000


class NewTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic to create.

    `assignment`: the replicas of each partition, preferred leader first. `config` includes min.insync.replicas.
    """

    assignment: tuple[tuple[int, ...], ...]
    config: dict[str, str] = {}


class TopicsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of the process that creates topics.

    It creates them once as many brokers are registered as `bootstrap` names.
    `TopicsResult` is written to `result`.
    """

    endpoints: Endpoints
    bootstrap: tuple[str, ...]
    topics: dict[str, NewTopic]
    result: str
    timeout_s: float = 60.0


class RefusedSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting in a topic's `config` for which Kafka refuses the topic, and the nearest name that Kafka knows.

    `key` is empty if Kafka does not say which setting it refuses.
    """

    topic: str
    why: str
    near: str = ""
    key: str = ""

    @property
    def where(self) -> str:
        """The place of the setting in a scenario file, or of the table that has it."""
        return f"topics.{self.topic}.config" + (f".{self.key}" if self.key else "")


class TopicsResult(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers' addresses (`10.0.0.1:9092`) by id.

    With `refused` settings no topic of theirs was made, and nothing else is known.
    """

    brokers: dict[int, str]
    refused: tuple[RefusedSetting, ...] = ()


def read_topics_result(path: Path) -> TopicsResult:
    """Read what became of the topics. Raises `UsageError` for settings that Kafka refused."""
    result = msgspec.json.decode(path.read_bytes(), type=TopicsResult)
    if not result.refused:
        return result
    raise settings_error(result.refused)


def settings_error(refused: Sequence[RefusedSetting]) -> RefusedByKafka:
    """Return the error for settings of topics that Kafka refused. `refused` has at least one."""
    return RefusedByKafka(
        "; ".join(one.why for one in refused),
        [UsageError(one.why, where=one.where, allowed=allowed_or_near(_SETTINGS, [one.near])) for one in refused],
        allowed=allowed_or_near(_SETTINGS, [one.near for one in refused]),
        next="correct the topic's settings, and try again",
    )


def read_config(path: Path, kind: type[Config]) -> Config:
    """Read the configuration in `path`. Raises `UsageError` that names the wrong key."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError("the client's configuration cannot be read", where=str(path), got=str(error)) from None
