"""The final consumer, which reads every partition from its log start to its HW.

`python -m ebbtide.command workloads.final_read CONFIG.json`, whose configuration is a
`workloads.config.FinalReadConfig`.

It runs after everything was healed. What it returns is the final log that the run is measured against, so that a
partial read is refused. It asks for the offsets before and after the read. An attempt in which a leader changed or
the HW went back is thrown away and repeated. After transactions, it first waits until they have ended
(`workloads.ended_transactions`). In the end it asks each replica for its own HW (`workloads.replica_high_watermarks`).
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import AuthorizationError, KafkaError
from msgspec.structs import replace

from cluster.kafka_api.connection import EARLIEST, LATEST, NONE, UNKNOWN_TOPIC, WireError
from ebbtide.errors import UsageError
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.payload import value_of
from ebbtide.record.files import write_atomically
from ebbtide.record.manifest import FinalOffsets
from ebbtide.waiting import wait_until
from workloads.config import FINAL_CONSUMER, FinalRead, FinalReadConfig, read_config
from workloads.ended_transactions import await_ended_transactions, last_stable_offsets
from workloads.process import ClientState, StatusFile, Stop, run_client
from workloads.reaching import connection_to
from workloads.reading import ReadPartition, journal_poll, open_consumer, wait_for_brokers
from workloads.replica_high_watermarks import ask_high_watermarks
from workloads.sampler import partitions_of
from workloads.settings import reader_settings

_POLL_MS = 200


class PartitionEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Log start, HW, leader epoch and last stable offset of one partition, as its leader answered."""

    log_start: int
    high_watermark: int
    leader_epoch: int | None
    last_stable: int | None = None


class _UnsettledRead(Exception):
    """The attempt does not count; the message says what moved."""


def ask_ends(config: FinalReadConfig, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], PartitionEnd]:
    """Return every partition's ends, from its leader; with transactions, also the last stable offset.

    A partition of a topic that is gone ends at 0 once every broker says that it does not know it. Raises
    `_UnsettledRead` when a partition has no answer.
    """
    endpoints, bootstrap, stable = config.endpoints, config.bootstrap, bool(config.transactional_ids)
    ends: dict[tuple[str, int], PartitionEnd] = {}
    unknown: Counter[tuple[str, int]] = Counter()
    seen = "no broker answered"
    for address in bootstrap:
        try:
            with connection_to(endpoints, address) as broker:
                starts = {(item.topic, item.partition): item for item in broker.list_offsets(partitions, EARLIEST)}
                latest = broker.list_offsets(partitions, LATEST)
                # Asked after the HW, which it cannot exceed: what is below it then was below it all the time.
                last_stable = last_stable_offsets(broker, partitions) if stable else {}
        except WireError as error:
            seen = str(error)
            continue
        for answer in latest:
            key = (answer.topic, answer.partition)
            if stable and answer.error == NONE and key not in last_stable:
                seen = f"{address} gives no last stable offset of {key[0]}-{key[1]}"
            elif answer.error == NONE and starts[key].error == NONE:
                ends[key] = PartitionEnd(
                    log_start=starts[key].offset,
                    high_watermark=answer.offset,
                    leader_epoch=answer.leader_epoch,
                    last_stable=last_stable.get(key),
                )
            else:
                unknown[key] += answer.error == UNKNOWN_TOPIC and answer.topic in config.gone
                seen = f"{address} answers {key[0]}-{key[1]} with error {answer.error or starts[key].error}"
    for key in (one for one, count in unknown.items() if count == len(bootstrap)):
        ends[key] = PartitionEnd(log_start=0, high_watermark=0, leader_epoch=None, last_stable=0 if stable else None)
    missing = [f"{topic}-{partition}" for topic, partition in partitions if (topic, partition) not in ends]
    if missing:
        raise _UnsettledRead(f"no leader answers for {', '.join(missing)}; {seen}")
    return ends


def read_once(config: FinalReadConfig, deadline: float) -> dict[str, FinalOffsets]:
    """Make one attempt: ask, read, ask again.

    Raises `_Unsettled`, `KafkaError`, `JournalError`.
    """
    partitions = partitions_of(config.topics)
    ends = ask_ends(config, partitions)
    bootstrap = wait_for_brokers(config.endpoints, config.bootstrap, 5.0, lambda: False)
    header = JournalHeader(table="polls", id=FINAL_CONSUMER, topics=tuple(config.topics), isolation="read_uncommitted")
    # Opening the journal empties it: only the rows of the last attempt remain.
    journal = JournalWriter(Path(config.journal), header)
    remaining_s = max(1.0, deadline - time.monotonic())
    settings = reader_settings("read_uncommitted", None, config.request_timeout_ms, remaining_s)
    consumer = open_consumer(config.endpoints, bootstrap, "ebbtide-final", settings)
    try:
        _read(consumer, journal, config, ends, deadline)
    finally:
        consumer.close()
        journal.close()
    after = ask_ends(config, partitions)
    for key, end in after.items():
        if end != ends[key]:
            raise _UnsettledRead(f"{key[0]}-{key[1]} moved during the read, from {ends[key]} to {end}")
    return {
        f"{topic}-{partition}": FinalOffsets(
            log_start=end.log_start, high_watermark=end.high_watermark, last_stable=end.last_stable
        )
        for (topic, partition), end in after.items()
    }


def _read(
    consumer: KafkaConsumer,
    journal: JournalWriter,
    config: FinalReadConfig,
    ends: dict[tuple[str, int], PartitionEnd],
    deadline: float,
) -> None:
    """Read every partition to its HW; pause the partitions that are done."""
    names = list(config.topics)
    lanes = {
        TopicPartition(*key): ReadPartition(names.index(key[0]), TopicPartition(*key))
        for key in ends
        if key[0] not in config.gone
    }
    consumer.assign(list(lanes))
    for partition, lane in lanes.items():
        consumer.seek(partition, ends[partition].log_start)
        lane.reposition(1)
    value = value_of(config.run_id)
    open_ = {item for item in lanes if ends[item].log_start < ends[item].high_watermark}
    while open_:
        consumer.pause(*(lanes.keys() - open_))
        returned = consumer.poll(timeout_ms=_POLL_MS)
        # Records above the asked HW do not belong to the final log; producers should be done by now.
        returned = {
            item: [record for record in records if record.offset < ends[item].high_watermark]
            for item, records in returned.items()
        }
        journal_poll(journal, lanes, {item: records for item, records in returned.items() if records}, value)
        open_ = {item for item in open_ if _position(consumer, item) < ends[item].high_watermark}
        if open_ and time.monotonic() > deadline:
            left = {f"{item.topic}-{item.partition}": _position(consumer, item) for item in open_}
            raise _UnsettledRead(f"not read to the end; positions {left}")


def _position(consumer: KafkaConsumer, partition: TopicPartition) -> int:
    """Return the next offset to fetch, also beyond control records.

    No poll returns control records.
    """
    position: int | None = consumer.position(partition, timeout_ms=1_000)
    return -1 if position is None else position


def run(config: FinalReadConfig, _status: StatusFile, stop: Stop) -> ClientState:
    """Read until an attempt counts.

    Raises `WaitExpired` with the last attempt's reason, and `UsageError` when Kafka says that this user may not read.
    """
    # One deadline for both waits: the parent kills this process soon after it, and then no reason is left to show.
    deadline = time.monotonic() + config.transactions_s + config.timeout_s
    transactions = await_ended_transactions(config, stop) if config.transactional_ids else None
    left_s = min(config.timeout_s, max(1.0, deadline - time.monotonic()))
    deadline = time.monotonic() + left_s
    seen = "nothing"

    def attempt() -> FinalRead | None:
        nonlocal seen
        if stop:
            return FinalRead(offsets={})
        try:
            return FinalRead(offsets=read_once(config, deadline), transactions=transactions)
        except AuthorizationError as error:
            raise UsageError(
                "this user may not read the topic",
                where=", ".join(config.topics),
                got=str(error),
                allowed="the right Read",
            ) from None
        except (_UnsettledRead, KafkaError) as error:
            seen = str(error)
            return None

    found = wait_until(
        attempt,
        awaited="a read of every partition from its start to its HW",
        timeout_s=left_s,
        last_seen=lambda: seen,
        poll_s=0.2,
    )
    if stop:
        return ClientState.STOPPED
    # The read counts whatever becomes of the questions.
    write_atomically(Path(config.result), msgspec.json.encode(found))
    answered = ask_high_watermarks(config.endpoints, config.brokers, config.replicas, found.offsets, lambda: bool(stop))
    write_atomically(Path(config.result), msgspec.json.encode(replace(found, answered=answered)))
    return ClientState.DONE


def main(argv: Sequence[str]) -> int:
    """Run the final read once."""
    config = read_config(Path(argv[0]), FinalReadConfig)
    return run_client(config.endpoints, 0, lambda status, stop: run(config, status, stop))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
