"""Following a metadata log on disk through everything that happens to it, and mirroring what was read."""

from __future__ import annotations

import os
from pathlib import Path

import evidence_builders as build
import pytest
from checkout import DATA

from ebbtide.kraft.follower import FollowedItem, LogGap, LogTruncated, MetadataFollower, SnapshotStarted
from ebbtide.kraft.image import MetadataImage
from ebbtide.kraft.records import MetadataRecord
from ebbtide.logs.segments import METADATA_FOLDER, TopicPartition
from ebbtide.record.rows import BrokerEvent, ConfigChange, PartitionState

GOLDEN = DATA / "logs" / "4.3.1" / METADATA_FOLDER
T0 = TopicPartition("t", 0)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / METADATA_FOLDER


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return tmp_path / "mirror"


def append(folder: Path, *batches: bytes, base: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    with (folder / build.segment_name(base)).open("ab") as file:
        file.write(b"".join(batches))


def feature(offset: int, level: int, epoch: int = 1) -> bytes:
    return build.metadata_batch(offset, build.feature("metadata.version", level), epoch=epoch)


def outline(items: list[FollowedItem]) -> list[object]:
    """Records by offset and level, events as they are."""
    return [
        (item.offset, item.fields.get("featureLevel")) if isinstance(item, MetadataRecord) else item for item in items
    ]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}


def test_a_log_that_grows_byte_by_byte_delivers_every_record_once_and_in_order(log: Path, mirror: Path) -> None:
    whole = (GOLDEN / build.segment_name(0)).read_bytes()[:2000]
    follower, delivered = MetadataFollower(log, mirror), []
    log.mkdir()
    with (log / build.segment_name(0)).open("wb", buffering=0) as file:
        for position in range(len(whole)):
            file.write(whole[position : position + 1])
            delivered += follower.poll()
            read = follower.batches[-1].position + follower.batches[-1].size if follower.batches else 0
            assert (follower.tail is None) == (read == position + 1)
            assert content(mirror).get(build.segment_name(0), b"") == whole[:read]
    assert delivered == MetadataFollower(log).poll()
    assert [item.offset for item in delivered if isinstance(item, MetadataRecord)] == list(range(len(delivered)))
    assert len(delivered) == 15


def test_a_log_at_rest_is_read_by_one_poll_and_a_second_finds_nothing(mirror: Path) -> None:
    follower = MetadataFollower(GOLDEN, mirror)
    assert len(follower.poll()) == 195
    assert follower.poll() == []
    assert content(mirror) == {build.segment_name(0): (GOLDEN / build.segment_name(0)).read_bytes()}


def test_a_rolled_segment_is_followed(log: Path, mirror: Path) -> None:
    follower = MetadataFollower(log, mirror)
    append(log, feature(0, 10), feature(1, 11))
    assert outline(follower.poll()) == [(0, 10), (1, 11)]
    append(log, feature(2, 12))
    append(log, feature(3, 13), base=3)
    assert outline(follower.poll()) == [(2, 12), (3, 13)]
    append(log, feature(4, 14), base=3)
    assert outline(follower.poll()) == [(4, 14)]
    assert content(mirror) == content(log)


def test_segments_deleted_after_they_were_read_are_not_missed_and_stay_in_the_mirror(log: Path, mirror: Path) -> None:
    follower = MetadataFollower(log, mirror)
    append(log, feature(0, 10))
    append(log, feature(1, 11), base=1)
    follower.poll()
    (log / build.segment_name(0)).unlink()
    append(log, feature(2, 12), base=1)
    assert outline(follower.poll()) == [(2, 12)]
    assert sorted(content(mirror)) == [build.segment_name(0), build.segment_name(1)]


def test_a_log_cut_short_is_reported_and_read_on_from_there(log: Path, mirror: Path) -> None:
    follower = MetadataFollower(log, mirror)
    append(log, feature(0, 10), feature(1, 11), feature(2, 12))
    follower.poll()
    os.truncate(log / build.segment_name(0), len(feature(0, 10)) + 5)
    assert outline(follower.poll()) == [LogTruncated(end_offset=1)]
    assert follower.tail is not None
    assert content(mirror) == {build.segment_name(0): feature(0, 10)}
    os.truncate(log / build.segment_name(0), len(feature(0, 10)))
    append(log, feature(1, 21, epoch=2))
    assert outline(follower.poll()) == [(1, 21)]
    assert content(mirror) == content(log)


def test_a_tail_replaced_by_another_of_the_same_length_between_two_polls_is_reported(log: Path, mirror: Path) -> None:
    follower = MetadataFollower(log, mirror)
    append(log, feature(0, 10), feature(1, 11), feature(2, 12))
    follower.poll()
    path = build.write_log(log, feature(0, 10), feature(1, 21, epoch=2), feature(2, 22, epoch=2))
    os.utime(path, ns=(1, 1))
    assert outline(follower.poll()) == [LogTruncated(end_offset=1), (1, 21), (2, 22)]
    assert content(mirror) == content(log)


def test_a_tail_replaced_by_a_longer_one_is_reported(log: Path) -> None:
    follower = MetadataFollower(log)
    append(log, feature(0, 10), feature(1, 11))
    follower.poll()
    build.write_log(log, feature(0, 10), feature(1, 21, epoch=2), feature(2, 22, epoch=2), feature(3, 23, epoch=2))
    assert outline(follower.poll()) == [LogTruncated(end_offset=1), (1, 21), (2, 22), (3, 23)]


def test_a_truncation_that_removes_whole_segments_is_reported(log: Path, mirror: Path) -> None:
    follower = MetadataFollower(log, mirror)
    append(log, feature(0, 10), feature(1, 11))
    append(log, feature(2, 12), base=2)
    follower.poll()
    (log / build.segment_name(2)).unlink()
    os.truncate(log / build.segment_name(0), len(feature(0, 10)))
    append(log, feature(1, 21, epoch=2))
    assert outline(follower.poll()) == [LogTruncated(end_offset=1), (1, 21)]
    assert content(mirror) == content(log)


def test_a_folder_that_vanishes_for_a_while_is_waited_for(log: Path) -> None:
    follower = MetadataFollower(log)
    assert follower.poll() == []
    assert follower.unreadable is not None
    append(log, feature(0, 10), feature(1, 11))
    assert outline(follower.poll()) == [(0, 10), (1, 11)]
    assert follower.unreadable is None
    log.rename(log.with_name("unmounted"))
    assert follower.poll() == []
    log.mkdir()
    assert follower.poll() == []
    log.rmdir()
    log.with_name("unmounted").rename(log)
    append(log, feature(2, 12))
    assert outline(follower.poll()) == [(2, 12)]


def test_no_file_stays_open_between_polls(log: Path) -> None:
    append(log, feature(0, 10))
    before = os.listdir("/proc/self/fd")
    MetadataFollower(log).poll()
    assert os.listdir("/proc/self/fd") == before


def test_a_log_that_begins_later_is_entered_by_the_oldest_snapshot_that_reaches_it(log: Path, mirror: Path) -> None:
    append(log, feature(10, 3), feature(11, 4), feature(12, 5), base=10)
    for end in (4, 11, 12):
        (log / f"{end:020}-0000000007.checkpoint").write_bytes(
            build.snapshot(build.feature("metadata.version", end), timestamp_ms=77)
        )
    follower = MetadataFollower(log, mirror)
    started, *records = follower.poll()
    assert started == SnapshotStarted(end_offset=11, epoch=7, file=f"{11:020}-0000000007.checkpoint")
    assert outline(records) == [(10, None), (10, 11), (10, None), (11, 4), (12, 5)]
    assert {(item.epoch, item.timestamp_ms) for item in records[:3] if isinstance(item, MetadataRecord)} == {(7, 77)}
    assert content(mirror)[started.file] == (log / started.file).read_bytes()
    assert MetadataFollower(mirror).poll() == [started, *records]


def test_a_snapshot_installed_over_the_log_replaces_the_state(log: Path, mirror: Path) -> None:
    follower, image = MetadataFollower(log, mirror), MetadataImage()
    append(
        log,
        build.metadata_batch(
            0,
            build.topic("gone", "G"),
            build.partition("G", 0, (1,), leader=1),
            build.topic("t", "T"),
            build.partition("T", 0, (1, 2), leader=1),
            build.register(1, 4, "one"),
            build.register(2, 5, "two"),
            build.config(2, "t", "a", "1"),
            build.config(2, "t", "b", "1"),
        ),
    )
    image.apply(follower.poll())
    (log / build.segment_name(0)).unlink()
    (log / f"{50:020}-0000000003.checkpoint").write_bytes(
        build.snapshot(
            build.topic("t", "T"),
            build.partition("T", 0, (1, 2), leader=2),
            build.register(1, 4, "one"),
            build.config(2, "t", "a", "1"),
            timestamp_ms=9,
        )
    )
    append(log, feature(50, 5), base=50)
    rows = image.apply(follower.poll())
    assert [(row.topic, row.leader, row.metadata_offset) for row in rows if isinstance(row, PartitionState)] == [
        ("t", 2, 49)
    ]
    assert [(row.broker, row.event) for row in rows if isinstance(row, BrokerEvent)] == [(2, "unregistered")]
    assert [(row.name, row.value) for row in rows if isinstance(row, ConfigChange)] == [("b", None), ("level", "5")]
    assert list(image.partitions) == [T0]
    replayed = MetadataImage()
    replayed.apply(MetadataFollower(mirror).poll())
    assert replayed.partitions == image.partitions


def test_a_snapshot_that_is_not_whole_is_not_believed(log: Path) -> None:
    append(log, feature(10, 3), base=10)
    whole = build.snapshot(build.feature("metadata.version", 1), timestamp_ms=77)
    for cut in (len(whole) - 1, len(whole) - len(build.plain_batch(0, b"")), 0):
        (log / f"{10:020}-0000000001.checkpoint").write_bytes(whole[:cut])
        assert outline(MetadataFollower(log).poll()) == [LogGap(start=0, end=10), (10, 3)]


def test_offsets_that_are_nowhere_are_reported_and_counted(log: Path) -> None:
    append(log, feature(0, 10))
    append(log, feature(5, 15), feature(8, 18), base=5)
    items = MetadataFollower(log).poll()
    assert outline(items) == [(0, 10), LogGap(start=1, end=5), (5, 15), LogGap(start=6, end=8), (8, 18)]
    image = MetadataImage()
    image.apply(items)
    assert image.skipped == {"missing offset": 6}


def test_damage_in_the_middle_stops_the_follower_and_is_reported(log: Path) -> None:
    damaged = bytearray(feature(1, 11))
    damaged[-1] ^= 1
    append(log, feature(0, 10), bytes(damaged), feature(2, 12))
    follower = MetadataFollower(log)
    assert outline(follower.poll()) == [(0, 10)]
    assert follower.tail is not None
    assert (follower.tail.kind, follower.tail.base_offset, follower.tail.tail) == ("checksum", 1, False)
    build.write_log(log, feature(0, 10), feature(1, 11), feature(2, 12))
    assert outline(follower.poll()) == [(1, 11), (2, 12)]


def test_an_image_takes_back_what_a_truncation_cut_off(log: Path) -> None:
    follower, image = MetadataFollower(log), MetadataImage()
    start = build.metadata_batch(0, build.topic("t", "T"), build.partition("T", 0, (1, 2), leader=1))
    append(log, start)
    image.apply(follower.poll())
    before = image.partitions[T0]
    append(log, build.metadata_batch(2, build.change("T", 0, leader=2, isr=(2,))), build.leader_change(3, 9))
    image.apply(follower.poll())
    assert (image.partitions[T0].leader, image.controller) == (2, 9)
    build.write_log(log, start)
    assert image.apply(follower.poll()) == []
    assert (image.partitions[T0], image.controller, image.next_offset) == (before, None, 2)
    append(log, build.metadata_batch(2, build.change("T", 0, isr=(1,)), epoch=2))
    (row,) = image.apply(follower.poll())
    assert isinstance(row, PartitionState)
    assert (row.isr, row.partition_epoch, row.metadata_epoch) == ((1,), 1, 2)
