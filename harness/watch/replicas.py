"""Reads the log of each replica over the network, as segments in the record's raw/.

Kafka gives a replica's log up to its end to a Fetch with the replica id of a log copy
(`cluster.kafka_api.replica_log`).
The HW of each answer goes to a file in the form of a broker's own checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cluster.kafka_api.connection import WireError
from cluster.kafka_api.replica_log import ReplicaRefused, read_replica
from ebbtide.logs.checkpoint_file import HIGH_WATERMARKS
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.files import write_atomically
from harness.watch.observer import Connect, whole_batches

_NO_REPLICA = ("UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER", "NOT_LEADER_FOR_PARTITION")


def read_replicas(
    brokers: Mapping[int, str],
    partitions: Sequence[TopicPartition],
    raw: Path,
    connect: Connect,
    *,
    limit_bytes: int,
    timeout_s: float,
) -> dict[str, str]:
    """Read every replica; returns why for each `broker-N/topic-P` that is not in raw/ as a whole.

    A broker without a replica of the partition leaves nothing.
    """
    missing: dict[str, str] = {}
    deadline = time.monotonic() + timeout_s
    for broker, address in brokers.items():
        folder = raw / f"broker-{broker}"
        marks: dict[TopicPartition, int] = {}
        for at in partitions:
            name = f"{folder.name}/{at}"
            try:
                mark = _read_one(address, at, folder / str(at), connect, limit_bytes, deadline)
            except ReplicaRefused as error:
                if str(error) not in _NO_REPLICA:
                    missing[name] = f"{address} answers {error}"
                continue
            except WireError as error:
                missing[name] = str(error)
                continue
            if mark is None:
                missing[name] = f"its log is longer than {limit_bytes:,} bytes, or took longer than {timeout_s:g} s"
            else:
                marks[at] = mark
        if marks:
            write_atomically(folder / HIGH_WATERMARKS, _checkpoint(marks.items()))
    return missing


def _read_one(
    address: str, at: TopicPartition, folder: Path, connect: Connect, limit_bytes: int, deadline: float
) -> int | None:
    """Read one replica, and return its HW; None if there is too much of it."""
    with connect(address) as connection:
        part = read_replica(connection, at, 0)
        start = offset = max(0, part.log_start)
        data = bytearray()
        while True:
            batches = whole_batches(part.batches)
            data += b"".join(bytes(one.data) for one in batches)
            if not batches:
                break
            if len(data) > limit_bytes or time.monotonic() > deadline:
                return None
            offset = batches[-1].next_offset
            part = read_replica(connection, at, offset)
    write_atomically(folder / f"{start:020}.log", bytes(data))
    return part.high_watermark


def _checkpoint(marks: Iterable[tuple[TopicPartition, int]]) -> bytes:
    lines = [f"{at.topic} {at.partition} {mark}" for at, mark in marks]
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()
