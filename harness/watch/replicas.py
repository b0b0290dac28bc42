"""Reads the log of each replica over the network, as segments in the record's raw/.

Kafka gives a replica's log up to its end to a Fetch with the replica id of a log copy
(`cluster.kafka_api.replica_log`).
The HW of each answer goes to a file in the form of a broker's own checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.kafka_api.connection import Refused, WireError
from cluster.kafka_api.replica_log import read_replica
from ebbtide.logs.batches import whole_batches
from ebbtide.logs.checkpoint_file import HIGH_WATERMARKS, checkpoint_text
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.files import write_atomically
from harness.watch.observer import Connect

_NO_REPLICA = ("UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER", "NOT_LEADER_FOR_PARTITION")


def read_replicas(
    brokers: Mapping[int, str],
    replicas: Mapping[TopicPartition, Sequence[int] | None],
    raw: Path,
    connect: Connect,
    *,
    limit_bytes: int,
    timeout_s: float,
) -> dict[str, str]:
    """Read every replica; returns why for each `broker-N/topic-P` that is not in raw/ as a whole.

    `replicas` has the brokers that each partition is assigned to; None: not known. A broker that answers that it has
    no replica leaves nothing, unless the partition is, or may be, assigned to it.
    """
    missing: dict[str, str] = {}
    deadline = time.monotonic() + timeout_s
    for broker, address in brokers.items():
        folder = raw / f"broker-{broker}"
        marks: dict[TopicPartition, int] = {}
        for at, assigned in replicas.items():
            name = f"{folder.name}/{at}"
            try:
                mark = _read_one(address, at, folder / str(at), connect, limit_bytes, deadline)
            except Refused as error:
                if str(error) not in _NO_REPLICA or assigned is None or broker in assigned:
                    missing[name] = f"{address} answers {error}"
                continue
            except WireError as error:
                missing[name] = str(error)
                continue
            if mark is None:
                missing[name] = f"its log is longer than {limit_bytes:,} bytes, or took longer than {timeout_s:g} s"
            else:
                marks[at] = mark
        if marks or not any(name.startswith(f"{folder.name}/") for name in missing):
            # Without any replica the file says that the broker was asked, and has none.
            write_atomically(folder / HIGH_WATERMARKS, checkpoint_text(marks).encode())
    for at, assigned in replicas.items():
        for broker in sorted(set(assigned or ()) - brokers.keys()):
            missing[f"broker-{broker}/{at}"] = "nobody asked this broker: it registered after the watch began"
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
