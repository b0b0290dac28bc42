"""The observer of the metadata log, against answers that a controller may give."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import evidence_builders as build
import pytest
from made_cluster import METADATA, MadeCluster, served_cluster

from cluster.kafka_api.connection import BrokerConnection, Refused, WireError
from cluster.kafka_api.metadata_log import MetadataAnswer, QuorumLeader, SnapshotId, SnapshotPart
from cluster.snapshot import secure_connection
from ebbtide.errors import UsageError
from ebbtide.kraft.follower import MetadataFollower
from ebbtide.kraft.records import MetadataRecord
from ebbtide.waiting import WaitExpired, wait_until
from harness.watch import observer as module
from harness.watch import probing
from harness.watch.observer import ClockDistance, MetadataObserver
from harness.watch.probing import probe_cluster

EPOCH = 3
LEVEL = build.feature("metadata.version", 30)


class Controllers:
    """A quorum whose log is `log`; `leader` is the address that answers."""

    def __init__(self, *batches: bytes) -> None:
        self.log = list(batches)
        self.high_watermark = len(batches)
        self.leader = "a:1"
        self.snapshot: tuple[SnapshotId, bytes] | None = None
        self.diverges = False
        self.refusal: Exception | None = None
        self.asked: list[tuple[str, int, int]] = []

    def fetch(
        self, connection: BrokerConnection, *, offset: int, last_epoch: int, leader_epoch: int, max_wait_ms: int
    ) -> MetadataAnswer:
        self.asked.append((connection.address, offset, leader_epoch))
        if self.refusal is not None:
            raise self.refusal
        if connection.address != self.leader or leader_epoch != EPOCH:
            return MetadataAnswer(moved=QuorumLeader(leader=101, epoch=EPOCH))
        if self.diverges:
            return MetadataAnswer(diverges=True)
        if self.snapshot is not None and offset < self.snapshot[0].end_offset:
            return MetadataAnswer(snapshot=self.snapshot[0], high_watermark=self.high_watermark)
        return MetadataAnswer(high_watermark=self.high_watermark, batches=b"".join(self.log[offset:]))

    def fetch_snapshot(
        self, connection: BrokerConnection, snapshot: SnapshotId, *, position: int, leader_epoch: int
    ) -> SnapshotPart:
        assert self.snapshot is not None
        return SnapshotPart(size=len(self.snapshot[1]), data=self.snapshot[1][position : position + 40])


@pytest.fixture
def quorum(monkeypatch: pytest.MonkeyPatch) -> Controllers:
    made = Controllers(*(build.metadata_batch(offset, LEVEL, epoch=EPOCH) for offset in range(4)))
    monkeypatch.setattr(module, "fetch_metadata", made.fetch)
    monkeypatch.setattr(module, "fetch_snapshot", made.fetch_snapshot)
    monkeypatch.setattr(module, "_AGAIN_S", 0.001)
    return made


@pytest.fixture
def observer(quorum: Controllers, tmp_path: Path) -> Iterator[MetadataObserver]:
    made = MetadataObserver(["b:1", "a:1"], tmp_path / "log", ["mine"], _unopened)
    yield made
    made.close()


def _unopened(address: str) -> BrokerConnection:
    return BrokerConnection(address, connect_timeout_s=1, request_timeout_s=1)


def offsets(folder: Path) -> list[int]:
    follower = MetadataFollower(folder)
    return [one.offset for one in follower.poll() if isinstance(one, MetadataRecord)]


def test_it_finds_the_active_controller_and_its_epoch(observer: MetadataObserver, tmp_path: Path) -> None:
    observer.start()
    observer.finish(5)
    assert observer.problem is None
    assert offsets(tmp_path / "log") == [0, 1, 2, 3]


def test_what_is_not_committed_is_not_written(observer: MetadataObserver, quorum: Controllers, tmp_path: Path) -> None:
    quorum.high_watermark = 2
    observer.start()
    observer.finish(5)
    assert offsets(tmp_path / "log") == [0, 1]


def test_it_follows_what_comes_later_and_another_leader(
    observer: MetadataObserver, quorum: Controllers, tmp_path: Path
) -> None:
    quorum.high_watermark = 2
    observer.start()
    observer.await_caught_up(5)
    quorum.leader, quorum.high_watermark = "b:1", 4
    observer.finish(5)
    assert observer.problem is None
    assert offsets(tmp_path / "log") == [0, 1, 2, 3]


def test_a_log_that_begins_with_a_snapshot_is_read_from_it_on(
    observer: MetadataObserver, quorum: Controllers, tmp_path: Path
) -> None:
    data = build.snapshot(build.register(1, 1, "one", fenced=False), timestamp_ms=9)
    quorum.snapshot = (SnapshotId(end_offset=2, epoch=EPOCH), data)
    observer.start()
    observer.finish(5)
    assert (tmp_path / "log" / f"{2:020}-{EPOCH:010}.checkpoint").exists()
    assert offsets(tmp_path / "log")[-2:] == [2, 3]


def test_a_snapshot_later_on_ends_the_log_with_the_reason(observer: MetadataObserver, quorum: Controllers) -> None:
    observer.start()
    observer.await_caught_up(5)
    quorum.snapshot = (SnapshotId(end_offset=9, epoch=EPOCH), b"")
    wait_until(lambda: observer.problem, awaited="the problem", timeout_s=5)
    observer.finish(1)
    assert "deleted the metadata log from offset 4 on" in str(observer.problem)


def test_a_quorum_that_lost_committed_metadata_ends_the_log(observer: MetadataObserver, quorum: Controllers) -> None:
    observer.start()
    observer.await_caught_up(5)
    quorum.diverges = True
    wait_until(lambda: observer.problem, awaited="the problem", timeout_s=5)
    assert "lost committed metadata" in str(observer.problem)


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (Refused(31), "CLUSTER_AUTHORIZATION_FAILED"),
        (WireError("a:1: [Errno 111] Connection refused"), "Connection refused"),
    ],
)
def test_a_wait_for_the_log_says_what_the_controllers_answered(
    observer: MetadataObserver, quorum: Controllers, refusal: Exception, said: str
) -> None:
    quorum.refusal = refusal
    observer.start()
    with pytest.raises(WaitExpired, match=said):
        observer.await_caught_up(0.2)


def test_a_log_whose_end_nobody_gave_says_so(observer: MetadataObserver, quorum: Controllers) -> None:
    observer.start()
    observer.await_caught_up(5)
    quorum.refusal = WireError("a:1: gone")
    observer.finish(0.1)
    assert "no controller gave the end of the metadata log" in str(observer.problem)


def test_metadata_that_cannot_be_read_ends_the_log_with_the_reason(
    observer: MetadataObserver, quorum: Controllers
) -> None:
    quorum.refusal = IndexError("list index out of range")
    observer.start()
    wait_until(lambda: observer.problem, awaited="the problem", timeout_s=5)
    observer.finish(1)
    assert "sent metadata that cannot be read: IndexError" in str(observer.problem)


def test_a_snapshot_that_cannot_be_read_is_asked_of_the_other_controllers_too(
    observer: MetadataObserver, quorum: Controllers
) -> None:
    quorum.snapshot = (SnapshotId(end_offset=2, epoch=EPOCH), b"x" * 100)
    observer.start()
    observer.finish(0.2)
    assert "sent a snapshot that cannot be read" in str(observer.problem) or "not the active" in str(observer.problem)
    assert "b:1" in [address for address, *_ in quorum.asked[2:]]


def test_a_snapshot_without_end_is_given_up_when_the_watch_ends(
    observer: MetadataObserver, quorum: Controllers, monkeypatch: pytest.MonkeyPatch
) -> None:
    quorum.snapshot = (SnapshotId(end_offset=2, epoch=EPOCH), b"")
    monkeypatch.setattr(module, "fetch_snapshot", lambda *_, **__: SnapshotPart(size=1 << 60, data=b"x"))
    observer.start()
    observer.finish(0.1)
    assert "no controller gave the end of the metadata log" in str(observer.problem)


def test_the_distance_of_the_clocks_is_the_shortest_time_to_arrive_in_each_epoch() -> None:
    clock = ClockDistance()
    for epoch, ms in ((1, 40), (1, 7), (1, 300), (2, -900), (2, -850), (2, -860)):
        clock.add(epoch, ms)
    assert clock.distance_ms == 900
    assert ClockDistance().distance_ms is None


def test_an_answer_with_half_a_batch_is_asked_again(
    observer: MetadataObserver, quorum: Controllers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = quorum.fetch

    def cut(*args: Any, **settings: Any) -> MetadataAnswer:
        answer = whole(*args, **settings)
        size = len(quorum.log[0])
        return MetadataAnswer(
            high_watermark=answer.high_watermark, batches=answer.batches[: size + 20], moved=answer.moved
        )

    monkeypatch.setattr(module, "fetch_metadata", cut)
    observer.start()
    observer.finish(5)
    assert offsets(tmp_path / "log") == [0, 1, 2, 3]


# A cluster that cannot be watched is refused with one clear error, soon.


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of something that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_port_at_which_nothing_listens_is_named(closed: str) -> None:
    with pytest.raises(UsageError, match="no broker answers") as caught:
        probe_cluster([closed], None, None)
    assert "refused" in str(caught.value)
    assert closed in str(caught.value)


def test_an_address_that_hangs_is_given_up_soon(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure_connection, "FIRST_ANSWER_S", 0.2)
    began = time.monotonic()
    with pytest.raises(UsageError, match="no answer within"):
        probe_cluster([silent, silent], None, None)
    assert time.monotonic() - began < 2


def test_a_broker_that_stops_answering_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = MadeCluster()
    cluster.silent = frozenset({METADATA})
    monkeypatch.setattr(probing, "_ANSWER_S", 0.2)
    with served_cluster(cluster) as address, pytest.raises(UsageError, match="the broker stopped answering"):
        probe_cluster([address], None, None)


def test_a_cluster_in_zookeeper_mode_is_named_as_advise_names_it() -> None:
    cluster = MadeCluster()
    cluster.keys = (0, 1, 3, 4, 5, 6, 7, 18, 32)
    with served_cluster(cluster) as address, pytest.raises(UsageError, match="runs with ZooKeeper"):
        probe_cluster([address], None, None)


def test_a_listener_that_wants_tls_is_named_as_advise_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"\x15\x03\x03\x00\x02\x02\x50")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(UsageError, match=r"security\.protocol=SSL"):
            probe_cluster([f"127.0.0.1:{server.getsockname()[1]}"], None, None)
        thread.join(2.0)


def test_a_host_that_nobody_knows_is_named() -> None:
    with pytest.raises(UsageError, match=r"nowhere\.invalid"):
        probe_cluster(["nowhere.invalid:9092"], None, None)
