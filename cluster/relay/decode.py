"""The decoder's process, a child of the harness in the clients' network namespace.

`python -m ebbtide.command cluster.relay.decode`. It reads the relay's spool while it is written, writes the table
`wire`, and frees what it read. Until it is far behind, it runs only where nothing else wants a core. When the relay has
ended it reads what is left of the topics, and then says what the table rests on. The key of the digests is in its
memory only.

A partition is read from its log start to its HW, from its leader, and without regard to transactions: a record of an
aborted one is there as well. The HW must have reached the log end before: that of a new leader may lag.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from cluster.kafka_api.connection import EARLIEST, LATEST, BrokerConnection, Refused, WireError, check
from cluster.kafka_api.group_offsets import committed_offsets
from cluster.kafka_api.replica_log import read_replica
from cluster.relay.decoding import Decoder, WireRow, sequence_of
from cluster.relay.spool import SpoolReader
from ebbtide import run_clock
from ebbtide.logs.batches import Batch, ends_with_commit, record_digests, whole_batches
from ebbtide.logs.codecs import UndecodableError
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.files import new_file, write_atomically
from ebbtide.record.own_producers import WireFacts
from ebbtide.record.tables import WIRE
from ebbtide.scenario.api_keys import API_NAMES
from ebbtide.waiting import WaitExpired, wait_until

READ_TIMEOUT_S = 60.0
_CONNECT_TIMEOUT_S, _REQUEST_TIMEOUT_S = 3.0, 10.0
_Answer = TypeVar("_Answer")
_CONSUMER, _DEBUGGING_CONSUMER = -1, -2


class FinalLogs:
    """Reads topics; `unread` says afterwards why a partition, or a topic, was not read."""

    def __init__(self, bootstrap: Sequence[str], key: bytes, timeout_s: float = READ_TIMEOUT_S) -> None:
        self._bootstrap = bootstrap
        self._key = key
        self._deadline = time.monotonic() + timeout_s
        self.unread: dict[str, str] = {}

    def read(self, topics: Collection[str]) -> Iterator[WireRow]:
        """Yield a row for each record, and then one for its partition: a partition without it was not read whole."""
        for topic in sorted(topics):
            leaders = self._answer(topic, f"a leader of each partition of {topic}", partial(_leaders, topic=topic))
            for partition, leader in sorted((leaders or {}).items()):
                yield from self._read_partition(topic, partition, leader)

    def read_commits(self, groups: Collection[str]) -> Iterator[WireRow]:
        """Yield a row for each offset that a group has committed, and then one for the group."""
        for group in sorted(groups):
            name = f"group {group}"
            offsets = self._answer(name, f"the coordinator of the {name}", partial(committed_offsets, group=group))
            if offsets is None:
                continue
            for at, committed in sorted(offsets.items()):
                place = {"topic": at.topic, "partition": at.partition}
                yield {"kind": "final-commit", "group": group, **place, "offset": committed.offset}
            yield {"kind": "final-group", "group": group}

    def _answer(self, name: str, awaited: str, ask: Callable[[BrokerConnection], _Answer | None]) -> _Answer | None:
        """Return the first answer of a broker, which may be empty; None: none came in time, and `unread` says so."""

        def look() -> tuple[_Answer] | None:
            for address in self._bootstrap:
                with contextlib.suppress(WireError), _connection(address) as broker:
                    if (found := ask(broker)) is not None:
                        return (found,)
            return None

        try:
            return wait_until(look, awaited=awaited, timeout_s=self._left_s(), poll_s=0.1)[0]
        except WaitExpired as error:
            self.unread[name] = error.as_clause()
            return None

    def _read_partition(self, topic: str, partition: int, leader: str) -> Iterator[WireRow]:
        place = {"topic": topic, "partition": partition}
        try:
            with _connection(leader) as broker:
                start, end = self._ends(broker, topic, partition)
                offset = start
                while offset < end:
                    for batch in _fetch(broker, topic, partition, offset):
                        yield from rows_of_batch(batch, self._key, place, start, end)
                        offset = batch.next_offset
        except (WireError, Refused, WaitExpired, UndecodableError) as error:
            self.unread[f"{topic}-{partition}"] = " ".join(str(error).split())
            return
        yield {"kind": "final-log", **place, "offset": start, "high_watermark": end}

    def _ends(self, broker: BrokerConnection, topic: str, partition: int) -> tuple[int, int]:
        """Return log start and HW, once the HW has reached the log end."""

        def ask(timestamp: int, replica: int = _CONSUMER) -> int:
            (answer,) = broker.list_offsets([(topic, partition)], timestamp, replica=replica)
            check(answer.error)
            return answer.offset

        def reached() -> tuple[int, int] | None:
            start, end = ask(EARLIEST), ask(LATEST)
            return (start, end) if ask(LATEST, _DEBUGGING_CONSUMER) == end else None

        awaited = f"the HW of {topic}-{partition} to reach its log end"
        return wait_until(reached, awaited=awaited, timeout_s=self._left_s(), poll_s=0.1)

    def _left_s(self) -> float:
        return max(0.0, self._deadline - time.monotonic())


def rows_of_batch(batch: Batch, key: bytes, place: WireRow, start: int, end: int) -> Iterator[WireRow]:
    """Yield a row for each record of a batch between log start and HW, or one for its marker; `key`: of the digests."""
    if batch.control:
        if (commits := ends_with_commit(batch)) is not None:
            producer = {"producer_id": batch.producer_id, "producer_epoch": batch.producer_epoch}
            yield {"kind": "final-marker", **place, "offset": batch.base_offset, "commits": commits, **producer}
        return
    for offset, digest in record_digests(batch, key):
        if start <= offset < end:
            yield {
                "kind": "final",
                **place,
                "offset": offset,
                "digest": digest,
                "leader_epoch": batch.leader_epoch,
                "producer_id": batch.producer_id if batch.producer_id >= 0 else None,
                "producer_epoch": batch.producer_epoch if batch.producer_id >= 0 else None,
                "sequence": sequence_of(batch, offset),
                "transactional": batch.transactional,
            }


def _leaders(broker: BrokerConnection, topic: str) -> Mapping[int, str] | None:
    """Return the address of each partition's leader; None: one has none, or there is no partition."""
    found = broker.metadata([topic])
    leaders = {at[1]: found.brokers.get(row.leader) for at, row in found.partitions.items()}
    known = {partition: leader for partition, leader in leaders.items() if leader is not None}
    return known if known and len(known) == len(leaders) else None


def _connection(address: str) -> BrokerConnection:
    return BrokerConnection(address, connect_timeout_s=_CONNECT_TIMEOUT_S, request_timeout_s=_REQUEST_TIMEOUT_S)


def _fetch(broker: BrokerConnection, topic: str, partition: int, offset: int) -> Sequence[Batch]:
    found = read_replica(broker, TopicPartition(topic, partition), offset, _CONSUMER).batches
    batches = [batch for batch in whole_batches(found) if batch.next_offset > offset]
    if not batches:
        raise WireError(f"{broker.address}: no whole batch at offset {offset} of {topic}-{partition}, below the HW")
    return batches


_ROWS_A_GROUP = 50_000
_NICE = 10


class WireTable:
    """Writes rows to a table, a row group at a time."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._columns: dict[str, list[object]] = {name: [] for name in WIRE.names}
        self._size = 0

    def add(self, rows: Iterable[WireRow]) -> None:
        """Add rows; a column that a row lacks is null."""
        for row in rows:
            for name, column in self._columns.items():
                column.append(row.get(name))
            self._size += 1
            if self._size >= _ROWS_A_GROUP:
                self.flush()

    def flush(self) -> None:
        """Write the rows that are not written yet."""
        if self._size:
            self._writer.write_table(pa.table(self._columns, schema=WIRE))
            self._columns, self._size = {name: [] for name in WIRE.names}, 0


def decode(spool: SpoolReader, table: Path, bootstrap: list[str]) -> WireFacts:
    """Decode a spool to its end into the file `table`, read the topics, and return what the table rests on."""
    key = secrets.token_bytes(32)
    decoder = Decoder(key)
    with new_file(table) as file, pq.ParquetWriter(file, WIRE, compression="zstd") as writer:
        rows = WireTable(writer)
        entries = spool.entries()

        def feed_while(is_behind: bool) -> bool:
            """Return at the first entry after which it is otherwise; false: there are no more entries."""
            for entry in entries:
                rows.add(decoder.feed(entry))
                if spool.is_behind is not is_behind:
                    return True
            return False

        with ThreadPoolExecutor(1, initializer=_run_when_idle) as idle:
            while idle.submit(feed_while, False).result() and feed_while(True):
                pass
        rows.add(decoder.finish())
        final = FinalLogs(bootstrap, key)
        rows.add(final.read(decoder.topics))
        rows.add(final.read_commits(decoder.groups))
        rows.flush()
    end = spool.end
    unread = dict(decoder.undecoded) | ({"connections that are not Kafka's protocol": end.unread} if end.unread else {})
    return WireFacts(
        unrecorded={API_NAMES.get(api, f"API {api}"): count for api, count in sorted(end.unrecorded.items())},
        unread=unread,
        no_final_read=final.unread,
        waited_s=end.waited_s,
    )


def _run_when_idle() -> None:
    """Let this thread run only where nothing else wants the core, if the kernel permits it."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> None:
    """Decode, and write what the table rests on as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spool", nargs=2, type=int, required=True, metavar="FD", help="the relay's spool")
    parser.add_argument("--table", type=Path, required=True, metavar="FILE", help="the Parquet file to write")
    parser.add_argument("--facts", type=Path, required=True, metavar="FILE", help="the JSON file to write at the end")
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,...", help="the brokers to read from")
    parser.add_argument("--clock-base", type=int, required=True, help="the base of the run's clock, in nanoseconds")
    args = parser.parse_args()
    run_clock.use_base(args.clock_base)
    os.nice(_NICE)  # clients and brokers come first; the spool has room meanwhile
    args.table.parent.mkdir(parents=True, exist_ok=True)
    facts = decode(SpoolReader(tuple(args.spool)), args.table, args.bootstrap.split(","))
    write_atomically(args.facts, msgspec.json.encode(facts))


if __name__ == "__main__":
    main()
