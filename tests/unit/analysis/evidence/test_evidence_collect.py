"""A record's raw folder becomes tables, also where parts of it are missing, damaged or in disagreement."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import evidence_builders as build
import msgspec
import pyarrow.parquet as pq
import pytest

from analysis.evidence import table_file
from analysis.evidence.collect import write_checkpoints, write_replicas, write_timeline
from ebbtide.logs.segments import METADATA_FOLDER, leo_of, partition_folders
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import Manifest, Topology, write_manifest
from ebbtide.record.steps import StepEntry, write_steps
from ebbtide.record.tables import TABLES

Rows = list[dict[str, object]]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path


def manifest(record: Path, *, controllers: int = 1, brokers: int = 0, **more: object) -> None:
    nodes = Topology(controllers=tuple(range(100, 100 + controllers)), brokers=tuple(range(1, brokers + 1)))
    write_manifest(RecordFolder(record), msgspec.structs.replace(Manifest(run_id="r", topology=nodes), **more))


def metadata_log(record: Path, controller: int, *batches: bytes, base: int = 0) -> Path:
    return build.write_log(record / "raw" / f"controller-{controller}" / METADATA_FOLDER, *batches, base=base)


def replica(record: Path, broker: int, name: str, *batches: bytes, base: int = 0) -> Path:
    return build.write_log(record / "raw" / f"broker-{broker}" / name, *batches, base=base)


def rows(record: Path, table: str) -> Rows:
    found: Rows = []
    for path in RecordFolder(record).files(table):
        read = pq.read_table(path)
        assert read.schema.equals(TABLES[table])
        found += read.to_pylist()
    return found


def evidence(record: Path) -> dict[str, dict[str, object]]:
    decoded: dict[str, dict[str, object]] = msgspec.json.decode((record / "evidence.json").read_bytes())
    return decoded


def number(value: bytes | None) -> int | None:
    return int(value) if value is not None and value.isdigit() else None


START = build.metadata_batch(0, build.topic("t", "T"), build.partition("T", 0, (1, 2), leader=1))


def election_batch(offset: int, leader: int, epoch: int = 1) -> bytes:
    return build.metadata_batch(offset, build.change("T", 0, leader=leader), epoch=epoch)


def test_the_timeline_of_one_controller_fills_the_three_tables(record: Path) -> None:
    manifest(record)
    more = build.metadata_batch(2, build.register(1, 2, "x"), build.config(2, "t", "a", "b"), epoch=3)
    metadata_log(record, 100, START, more)
    report = write_timeline(RecordFolder(record))
    assert report.rows == {"partitions": 1, "brokers": 1, "configs": 1}
    assert (report.controller, report.end_offset, report.missing, report.skipped) == (100, 4, (), {})
    (partition,) = rows(record, "partitions")
    assert partition["replicas"] == [1, 2]
    assert (partition["metadata_offset"], partition["at_ns"]) == (1, 1_001_000_000)
    assert [row["event"] for row in rows(record, "brokers")] == ["registered"]
    assert [row["value"] for row in rows(record, "configs")] == ["b"]
    assert evidence(record)["timeline"]["how"] == report.how


def test_what_no_majority_holds_is_left_out_where_every_log_is_there(record: Path) -> None:
    manifest(record, controllers=3)
    metadata_log(record, 100, START, election_batch(2, 2), election_batch(3, 7), election_batch(4, 8))
    metadata_log(record, 101, START, election_batch(2, 2), election_batch(3, 1, epoch=2))
    metadata_log(record, 102, START, election_batch(2, 2), election_batch(3, 1, epoch=2), election_batch(4, 2, epoch=2))
    report = write_timeline(RecordFolder(record))
    assert [row["leader"] for row in rows(record, "partitions")] == [1, 2, 1]
    assert (report.controller, report.end_offset) == (102, 4)
    assert [log.agreed_end_offset for log in report.logs] == [3, 4, 4]
    assert "offsets 4 to 4 are on no majority and left out" in report.how
    assert "controller 100 alone has offsets from 3 on" in report.how


@pytest.mark.parametrize(
    ("voters", "agreed"),
    [
        ({100: "D100", 101: "D101", 102: "D102"}, 4),
        ({100: "D100", 101: "D101"}, 3),  # controller 102 only observes
        ({100: "D100", 101: "D101", 102: "other"}, 3),  # with this disk it only observes
        ({100: "D100"}, 4),
    ],
)
def test_in_a_dynamic_quorum_a_majority_is_one_of_the_disks_that_vote(
    record: Path, voters: dict[int, str], agreed: int
) -> None:
    manifest(record, controllers=3)
    start = [build.voters(0, voters), build.metadata_batch(1, build.topic("t", "T"), build.feature("x", 1))]
    tail = build.metadata_batch(3, build.feature("x", 2))
    for controller, batches in {100: [*start, tail], 101: start, 102: [*start, tail]}.items():
        metadata_log(record, controller, *batches)
        _give_disk(record, controller, f"D{controller}")
    report = write_timeline(RecordFolder(record))
    assert report.end_offset == agreed, report.how


def test_what_voters_agreed_on_stays_agreed_when_most_of_their_disks_were_replaced_since(record: Path) -> None:
    manifest(record, controllers=3)
    first, last = {100: "D100", 101: "D101", 102: "D102"}, {100: "D100", 101: "new", 102: "new"}
    sets = [first, {100: "D100", 102: "D102"}, {**first, 101: "new"}, {100: "D100", 101: "new"}, last]
    batches = [build.voters(at, voters) for at, voters in enumerate(sets)]
    for controller, disk in last.items():
        metadata_log(record, controller, *batches)
        _give_disk(record, controller, disk)
    report = write_timeline(RecordFolder(record))
    assert report.end_offset == len(batches), report.how


def _give_disk(record: Path, controller: int, disk: str) -> None:
    identity = f"directory.id={disk.ljust(22, 'A')}\n"
    (record / "raw" / f"controller-{controller}" / "meta.properties").write_text(identity)


def test_a_whole_log_is_used_where_a_majority_cannot_be_known(record: Path) -> None:
    manifest(record, controllers=3)
    metadata_log(record, 100, START, election_batch(2, 2), election_batch(3, 1))
    metadata_log(record, 101, START)
    report = write_timeline(RecordFolder(record))
    assert [row["leader"] for row in rows(record, "partitions")] == [1, 2, 1]
    assert report.missing == (f"raw/controller-102/{METADATA_FOLDER}",)
    assert "only 2 of 3 logs are there and whole, 2 offsets are agreed" in report.how


def test_the_log_that_starts_earliest_is_used_where_several_agree(record: Path) -> None:
    manifest(record, controllers=3)
    for controller in (100, 102):
        folder = metadata_log(record, controller, election_batch(3, 1), base=3).parent
        state = build.snapshot(build.topic("t", "T"), build.partition("T", 0, (1, 2), leader=2), timestamp_ms=5)
        (folder / f"{3:020}-0000000001.checkpoint").write_bytes(state)
    metadata_log(record, 101, START, election_batch(2, 2), election_batch(3, 1))
    report = write_timeline(RecordFolder(record))
    assert (report.controller, report.end_offset) == (101, 4)
    assert [row["leader"] for row in rows(record, "partitions")] == [1, 2, 1]


def test_a_torn_metadata_log_is_used_as_far_as_it_goes_and_said(record: Path) -> None:
    manifest(record)
    metadata_log(record, 100, START, election_batch(2, 2)[:-1])
    report = write_timeline(RecordFolder(record))
    assert len(rows(record, "partitions")) == 1
    assert report.logs[0].damage is not None
    assert (report.logs[0].damage.kind, report.logs[0].damage.position) == ("torn", len(START))


def test_a_record_without_metadata_logs_gets_no_tables_and_a_report(record: Path) -> None:
    report = write_timeline(RecordFolder(record))
    assert (report.controller, report.rows, RecordFolder(record).files("partitions")) == (None, None, [])
    manifest(record, controllers=1)
    (record / "raw" / "controller-100" / METADATA_FOLDER).mkdir(parents=True)
    assert write_timeline(RecordFolder(record)).missing == (f"raw/controller-100/{METADATA_FOLDER}",)


def test_every_record_of_every_replica_becomes_a_row(record: Path) -> None:
    manifest(record, brokers=2)
    marker = build.batch(2, [(b"\0\0\0\1", b"5", ())], epoch=4, flags=0x30, producer=(9, 2, -1))
    replica(record, 1, "t-0", build.batch(0, [(None, b"7", ()), (None, b"?", ())], producer=(9, 2, 5), codec=4), marker)
    replica(record, 1, "t-0", build.plain_batch(3, b"8", epoch=4), base=3)
    replica(record, 2, "a-b-1", build.plain_batch(0, b"9"))
    replica(record, 2, "__consumer_offsets-3", build.plain_batch(0, b"1"))
    replica(record, 2, "t-0.0123-delete", build.plain_batch(0, b"1"))
    report = write_replicas(RecordFolder(record), number)
    found = rows(record, "replicas")
    keys = ("broker", "topic", "partition", "offset", "leader_epoch", "value", "sequence", "control")
    assert [tuple(row[key] for key in keys) for row in found] == [
        (1, "t", 0, 0, 0, 7, 5, False),
        (1, "t", 0, 1, 0, None, 6, False),
        (1, "t", 0, 2, 4, None, -1, True),
        (1, "t", 0, 3, 4, 8, -1, False),
        (2, "a-b", 1, 0, 0, 9, -1, False),
    ]
    assert [(row["producer_id"], row["producer_epoch"]) for row in found[:3]] == [(9, 2)] * 3
    assert [(log.broker, log.records, log.log_start_offset, log.log_end_offset) for log in report.logs] == [
        (1, 4, 0, 4),
        (2, 1, 0, 1),
    ]
    assert report.missing == ()


def test_damaged_replicas_give_the_rows_that_are_whole_and_every_damage_by_file(record: Path) -> None:
    manifest(record, brokers=3, raw_omitted=("broker-3/big-0",))
    damaged = bytearray(build.plain_batch(1, b"2"))
    damaged[-1] ^= 1
    undecodable = build.batch(3, [(None, b"4", ())])[:61]
    undecodable = _with_valid_checksum(undecodable + b"\x7f")
    path = replica(
        record, 1, "t-0", build.plain_batch(0, b"1"), bytes(damaged), build.plain_batch(2, b"3"), undecodable, bytes(20)
    )
    report = write_replicas(RecordFolder(record), number)
    assert [row["value"] for row in rows(record, "replicas")] == [1, 3]
    (log,) = report.logs
    assert [(item.file, item.damage.kind) for item in log.damages] == [
        (str(path.relative_to(record)), kind) for kind in ("checksum", "records", "zeros")
    ]
    assert log.log_end_offset == 1
    assert report.missing == ("raw/broker-2", "raw/broker-3", "raw/broker-3/big-0")
    (told,) = evidence(record)["replicas"]["logs"]  # type: ignore[misc]
    assert [item["damage"]["tail"] for item in told["damages"]] == [False, False, True]


def test_a_segment_that_is_missing_is_a_hole_and_does_not_end_the_log(record: Path) -> None:
    manifest(record, brokers=1)
    for base in (0, 5, 9):
        replica(record, 1, "t-0", build.plain_batch(base, b"1"), base=base)
    (log,) = write_replicas(RecordFolder(record), number).logs
    assert [(one.damage.kind, one.from_offset) for one in log.damages] == [("hole", 1), ("hole", 6)]
    assert log.log_end_offset == leo_of(record / "raw" / "broker-1" / "t-0") == 10


def _with_valid_checksum(data: bytes) -> bytes:
    checked = bytearray(data)
    checked[8:12] = (len(data) - 12).to_bytes(4, "big")
    checked[17:21] = build.crc32c(bytes(checked[21:])).to_bytes(4, "big")
    return bytes(checked)


def test_replicas_are_written_in_row_groups_of_a_bounded_size(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_file, "ROW_GROUP_ROWS", 10)
    replica(record, 1, "t-0", *(build.plain_batch(offset, b"%d" % offset) for offset in range(25)))
    write_replicas(RecordFolder(record), number)
    (path,) = RecordFolder(record).files("replicas")
    meta = pq.ParquetFile(path).metadata
    assert [meta.row_group(index).num_rows for index in range(meta.num_row_groups)] == [10, 10, 5]
    assert meta.row_group(0).column(0).compression == "ZSTD"


def test_a_table_that_failed_half_way_leaves_no_file(record: Path) -> None:
    replica(record, 1, "t-0", build.plain_batch(0, b"1"))

    def fails(value: bytes | None) -> int | None:
        raise KeyError(value)

    with pytest.raises(KeyError):
        write_replicas(RecordFolder(record), fails)
    assert not list(record.rglob("*replicas*"))


def test_replicas_that_are_interrupted_after_the_first_broker_leave_the_table_as_it_was(record: Path) -> None:
    replica(record, 1, "t-0", build.plain_batch(0, b"1"))
    replica(record, 2, "t-0", build.plain_batch(0, b"2"))

    def raise_at_second(value: bytes | None) -> int | None:
        if value == b"2":
            raise KeyboardInterrupt
        return 1

    with pytest.raises(KeyboardInterrupt):
        write_replicas(RecordFolder(record), raise_at_second)
    assert RecordFolder(record).files("replicas") == []
    write_replicas(RecordFolder(record), number)
    before = [path.read_bytes() for path in RecordFolder(record).files("replicas")]
    with pytest.raises(KeyboardInterrupt):
        write_replicas(RecordFolder(record), raise_at_second)
    assert [path.read_bytes() for path in RecordFolder(record).files("replicas")] == before
    assert len(before) == 2


def test_a_checkpoint_becomes_a_watermark_of_each_replica(record: Path) -> None:
    manifest(record, brokers=2, start_ns=1, end_ns=1_000)
    replica(record, 1, "t-0", build.plain_batch(0, b"1", b"2", b"3"))
    path = record / "raw" / "broker-1" / "replication-offset-checkpoint"
    path.write_text("0\n3\nt 0 2\nomitted 4 7\n__consumer_offsets 1 5\n")
    os.utime(path, ns=(500, 500))
    report = write_checkpoints(RecordFolder(record))
    keys = ("topic", "partition", "broker", "high_watermark", "log_end_offset", "source", "at_ns")
    assert [tuple(row[key] for key in keys) for row in rows(record, "watermarks")] == [
        ("t", 0, 1, 2, 3, "checkpoint", 500),
        ("omitted", 4, 1, 7, None, "checkpoint", 500),
    ]
    assert report.missing == ("raw/broker-2/replication-offset-checkpoint",)
    os.utime(path, ns=(5_000, 5_000))
    write_checkpoints(RecordFolder(record))
    assert {row["at_ns"] for row in rows(record, "watermarks")} == {1_000}


@pytest.mark.parametrize(("text", "problems"), [("1\n0\n", 1), ("\xff", 1), ("", 0)])
def test_a_damaged_checkpoint_is_a_problem_in_the_report(record: Path, text: str, problems: int) -> None:
    """A broker makes an empty one as it starts."""
    path = record / "raw" / "broker-1" / "replication-offset-checkpoint"
    path.parent.mkdir(parents=True)
    path.write_text(text, "latin-1")
    report = write_checkpoints(RecordFolder(record))
    assert (report.rows, len(report.problems)) == (0, problems)


def test_each_part_keeps_the_others_report(record: Path) -> None:
    write_replicas(RecordFolder(record), number)
    write_timeline(RecordFolder(record))
    write_checkpoints(RecordFolder(record))
    assert sorted(evidence(record)) == ["checkpoints", "replicas", "timeline"]


def test_the_leo_is_the_end_of_what_is_whole(tmp_path: Path) -> None:
    pieces = [build.plain_batch(0, b"a", b"b"), build.plain_batch(2, b"c"), build.plain_batch(3, b"d")]
    whole = b"".join(pieces)
    folder = tmp_path / "t-0"
    seen = []
    for cut in range(len(whole) + 1):
        build.write_log(folder, whole[:cut])
        seen.append(leo_of(folder))
    first, second = len(pieces[0]), len(pieces[0]) + len(pieces[1])
    assert seen == [0] * first + [2] * (second - first) + [3] * (len(whole) - second) + [4]


def test_the_leo_counts_segments_and_stops_where_recovery_would_truncate(tmp_path: Path) -> None:
    data = tmp_path / "data"
    build.write_log(data / "t-0", build.plain_batch(0, b"a"))
    build.write_log(data / "t-0", build.plain_batch(1, b"b"), base=1)
    build.write_log(data / "t-1", base=40)
    build.write_log(data / "t-2", build.plain_batch(0, b"a"), b"torn")
    build.write_log(data / "t-2", build.plain_batch(1, b"b"), base=1)
    build.write_log(data / "t-3.0f-delete", build.plain_batch(0, b"a"))
    (data / "t-4").mkdir()
    (data / "meta.properties").write_text("")
    ends = {str(partition): leo_of(folder) for partition, folder in partition_folders(data).items()}
    assert ends == {"t-0": 2, "t-1": 40, "t-2": 1, "t-4": 0}
    assert partition_folders(tmp_path / "missing") == {}


def test_following_the_log_needs_neither_arrow_nor_spark() -> None:
    code = (
        "import sys, ebbtide.kraft.follower, ebbtide.kraft.image, ebbtide.logs.segments\n"
        "print(sorted({'pyarrow', 'pyspark', 'kafka'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def recreated(record: Path, *, since: int, topic_id: str) -> None:
    """Note that a step made the topic t again."""
    proof = {
        "answer": "NONE",
        "since": since,
        "asked_ns": 1,
        "known_ns": 2,
        "unaware": [],
        "record": {"topic_id": topic_id},
    }
    write_steps(RecordFolder(record), [StepEntry(index=0, step="create-topic", parameters={"topic": "t"}, proof=proof)])


def test_the_timeline_names_each_topic_that_had_the_same_name(record: Path) -> None:
    manifest(record)
    again = (build.remove_topic("T"), build.topic("t", "V"), build.partition("V", 0, (2, 1), leader=2))
    metadata_log(
        record,
        100,
        START,
        build.metadata_batch(2, build.config(2, "t", "a", "b"), *again, build.config(2, "t", "a", "c")),
    )
    recreated(record, since=4, topic_id="V")
    write_timeline(RecordFolder(record))
    assert [(row["topic"], row["leader"]) for row in rows(record, "partitions")] == [("t@1", 1), ("t", 2)]
    changes = [(row["resource"], row["value"]) for row in rows(record, "configs")]
    assert changes == [("topic:t@1", "b"), ("topic:t@1", None), ("topic:t", "c")]


def test_a_replica_of_the_deleted_topic_is_not_one_of_the_new(record: Path) -> None:
    manifest(record, brokers=2)
    for broker, topic_id in ((1, "V"), (2, "T")):
        folder = replica(record, broker, "t-0", build.plain_batch(0, b"7")).parent
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}", "utf-8")
        (record / "raw" / f"broker-{broker}" / "replication-offset-checkpoint").write_text("0\n1\nt 0 1\n", "utf-8")
    recreated(record, since=4, topic_id="V")
    report = write_replicas(RecordFolder(record), number)
    assert [(log.broker, log.topic) for log in report.logs] == [(1, "t"), (2, "t@1")]
    write_checkpoints(RecordFolder(record))
    assert [(row["broker"], row["topic"]) for row in rows(record, "watermarks")] == [(1, "t"), (2, "t@1")]
