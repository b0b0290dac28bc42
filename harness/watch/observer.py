"""Reads the metadata log of a quorum and the replicas' logs over the network, as segments in the record.

A thread asks the controllers in turn until the active one answers, and stays with it. Only what is committed is
written: batches below the quorum's HW, redacted (`ebbtide.kraft.redaction`). So the files look like a controller's own,
and `ebbtide.kraft` reads them.

Following ends for good where the log has no continuation: the quorum lost what was committed, or the controllers
deleted what was not read yet. Then `problem` says so, and the timeline ends there.

The log of each replica comes in the end, also as segments in the record's raw/. Kafka gives a replica's log up to its
end to a Fetch with the replica id of a log copy (`cluster.kafka_api.replica_log`). The HW of each answer goes to a file
in the form of a broker's own checkpoint.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cluster.kafka_api.connection import BrokerConnection, Refused, WireError
from cluster.kafka_api.metadata_log import (
    MetadataAnswer,
    SnapshotId,
    fetch_metadata,
    fetch_snapshot,
)
from cluster.kafka_api.replica_log import read_replica
from ebbtide.kraft.redaction import Redaction
from ebbtide.logs.batches import whole_batches
from ebbtide.logs.checkpoint_file import HIGH_WATERMARKS, checkpoint_text
from ebbtide.logs.scan import Damage, scan
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.files import write_atomically
from ebbtide.waiting import WaitExpired, wait_until

Connect = Callable[[str], BrokerConnection]
"""Makes a connection to `host:port`, which is not open yet."""

_LONG_POLL_MS = 500
_AGAIN_S = 0.2
_SOON_S = 0.01
"""Between two answers without anything new that is committed, which come at once: at most 100 a second."""
_CLOCK_SAMPLES_MIN = 3


class ReceivedBytes:
    """Bytes in memory, for `scan`."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self.size = len(data)

    def data_from(self, position: int) -> int:
        """Return `position`: what a cluster sent has no holes."""
        return position

    def view(self, position: int, size: int) -> memoryview:
        """Return the bytes from `position` on; see `ebbtide.logs.scan.Source`."""
        return self._data[position : position + size]


class MetadataObserver:
    """Follows the metadata log until `finish`, in a thread of its own.

    `folder` gets the segments and snapshots. `topics` are the topics of the run.
    """

    def __init__(self, controllers: Sequence[str], folder: Path, topics: Sequence[str], connect: Connect) -> None:
        self._connections = [connect(address) for address in controllers]
        self._folder = folder
        self._redaction = Redaction(topics)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metadata-observer", daemon=True)
        self._at = 0
        self._leader_epoch = 0
        self._next_offset = 0
        self._last_epoch = 0
        self._segment: Path | None = None
        self._caught_up_s: float | None = None
        self._clock = ClockDistance()
        self.seen = "no controller was asked yet"
        """The last error of a controller, in words."""
        self.problem: str | None = None
        """Why nothing more can be followed; None while it can."""

    @property
    def clock_distance_ms(self) -> int | None:
        """How far a controller's clock is from this host's at most; None: not known."""
        return self._clock.distance_ms

    def start(self) -> None:
        """Begin to follow."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def await_caught_up(self, timeout_s: float) -> None:
        """Wait until everything is written that is committed by now.

        Raises `WaitExpired` with the last error seen, also where nothing more can be followed.
        """
        began_s = time.monotonic()

        def is_caught_up() -> bool:
            if self.problem is not None:
                raise WaitExpired("the metadata log", timeout_s, self.problem)
            return self._caught_up_s is not None and self._caught_up_s > began_s

        wait_until(is_caught_up, awaited="the metadata log", timeout_s=timeout_s, last_seen=lambda: self.seen)

    def finish(self, timeout_s: float) -> None:
        """Read what is committed by now, and end; `problem` says why that was not possible."""
        try:
            if self._thread.is_alive():
                self.await_caught_up(timeout_s)
        except WaitExpired as error:
            self.problem = self.problem or f"no controller gave the end of the metadata log: {error.last_seen}"
        self.close()

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        for connection in self._connections:
            connection.close()

    def _run(self) -> None:
        while not self._stopping.is_set() and self.problem is None:
            connection, before = self._connections[self._at], self._next_offset
            try:
                is_leader = self._ask(connection)
            except (WireError, Refused) as error:
                text = str(error)
                self.seen = text if isinstance(error, WireError) else f"{connection.address} answers {text}"
                is_leader = False
            except OSError as error:
                self.problem = f"the metadata log could not be written: {error}"
                return
            except Exception as error:
                # A thread that ends without a reason would look as if the log had been read to its end.
                self.problem = f"{connection.address} sent metadata that cannot be read: {error!r}"
                return
            if not is_leader:
                self._at = (self._at + 1) % len(self._connections)
                self._stopping.wait(_AGAIN_S)
            elif self._next_offset == before:
                self._stopping.wait(_SOON_S)

    def _ask(self, connection: BrokerConnection) -> bool:
        """Ask a controller once; returns whether it leads, and gave what was asked."""
        asked_s, is_waiting = time.monotonic(), self._caught_up_s is not None
        answer = fetch_metadata(
            connection,
            offset=self._next_offset,
            last_epoch=self._last_epoch,
            leader_epoch=self._leader_epoch,
            max_wait_ms=_LONG_POLL_MS if is_waiting else 0,
        )
        at_ns = time.time_ns()
        if answer.moved is not None:
            return self._follow_leader(connection, answer)
        if answer.diverges:
            self.problem = (
                f"the quorum lost committed metadata: its log does not continue what it had before "
                f"offset {self._next_offset}"
            )
        elif answer.snapshot is not None:
            return self._take_snapshot(connection, answer.snapshot)
        else:
            self._write(answer, at_ns, was_caught_up=is_waiting)
            # A new leader does not know the HW at first, and answers -1.
            if 0 <= answer.high_watermark <= self._next_offset:
                self._caught_up_s = asked_s
        return True

    def _follow_leader(self, connection: BrokerConnection, answer: MetadataAnswer) -> bool:
        """Take over the leader's epoch; returns whether this controller leads."""
        assert answer.moved is not None
        self.seen = f"{connection.address} is not the active controller; it knows leader {answer.moved.leader}"
        is_news = answer.moved.epoch > self._leader_epoch
        self._leader_epoch = max(self._leader_epoch, answer.moved.epoch)
        return is_news

    def _take_snapshot(self, connection: BrokerConnection, snapshot: SnapshotId) -> bool:
        """Write the snapshot with which the log begins; returns whether it could be read."""
        if self._segment is not None:
            self.problem = (
                f"the controllers deleted the metadata log from offset {self._next_offset} on before it was read"
            )
            return False
        data, size = bytearray(), 1
        while len(data) < size and not self._stopping.is_set():
            part = fetch_snapshot(connection, snapshot, position=len(data), leader_epoch=self._leader_epoch)
            if part.moved is not None or not part.data:
                return False
            data += part.data
            size = part.size
        if len(data) < size:
            return False
        redacted = bytearray()
        for batch in scan(ReceivedBytes(bytes(data))):
            if isinstance(batch, Damage):
                self.seen = f"{connection.address} sent a snapshot that cannot be read: {batch.detail}"
                return False
            redacted += self._redaction.apply(batch)
        name = f"{snapshot.end_offset:020}-{snapshot.epoch:010}.checkpoint"
        write_atomically(self._folder / name, bytes(redacted))
        self._next_offset, self._last_epoch = snapshot.end_offset, snapshot.epoch
        self._open_segment()
        return True

    def _open_segment(self) -> Path:
        if self._segment is None:
            self._segment = self._folder / f"{self._next_offset:020}.log"
            self._segment.touch()
        return self._segment

    def _write(self, answer: MetadataAnswer, at_ns: int, *, was_caught_up: bool) -> None:
        """Append the committed batches, each with one write."""
        for batch in whole_batches(answer.batches):
            if batch.next_offset > answer.high_watermark:
                return
            if batch.base_offset < self._next_offset:
                continue
            with self._open_segment().open("ab") as file:
                file.write(self._redaction.apply(batch))
            self._next_offset, self._last_epoch = batch.next_offset, batch.leader_epoch
            if was_caught_up:
                self._clock.add(batch.leader_epoch, at_ns // 1_000_000 - batch.max_timestamp_ms)


class ClockDistance:
    """How far the clocks of the controllers are from this host's.

    A batch is read at most a long poll after it was written, and mostly at once. So the shortest time between its
    timestamp and its arrival is the distance of the clocks and one way through the network. Each epoch has its own
    controller.
    """

    def __init__(self) -> None:
        self._least_ms: dict[int, int] = {}
        self._samples: dict[int, int] = {}

    def add(self, epoch: int, ms: int) -> None:
        """Add the time between a batch's timestamp and its arrival."""
        self._least_ms[epoch] = min(ms, self._least_ms.get(epoch, ms))
        self._samples[epoch] = self._samples.get(epoch, 0) + 1

    @property
    def distance_ms(self) -> int | None:
        """The largest distance of a controller; None if no controller has enough batches.

        A controller with few batches counts too. Its distance may look too long, which leaves a cause unknown; left
        out, a wrong clock would count as right.
        """
        if all(count < _CLOCK_SAMPLES_MIN for count in self._samples.values()):
            return None
        return max(map(abs, self._least_ms.values()))


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
