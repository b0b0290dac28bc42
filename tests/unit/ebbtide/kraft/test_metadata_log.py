"""The metadata log decoded and replayed: real logs of three releases, and each rule by hand."""

from __future__ import annotations

import struct

import evidence_builders as build
import msgspec
import pytest
from checkout import DATA

from ebbtide.kraft.follower import MetadataFollower, read_snapshot, snapshot_files
from ebbtide.kraft.image import MetadataImage
from ebbtide.kraft.records import MetadataRecord, decode_batch
from ebbtide.kraft.schema import Cursor, load, messages, metadata_messages
from ebbtide.logs.scan import Damage, scan
from ebbtide.logs.segments import METADATA_FOLDER, TopicPartition
from ebbtide.record.rows import BrokerEvent, ConfigChange, PartitionState, Row
from ebbtide.record.tables import TABLES

LOGS = DATA / "logs"
T0 = TopicPartition("t", 0)


def decode_batches(*batches: bytes) -> list[MetadataRecord]:
    items = list(scan(build.BytesSource(b"".join(batches))))
    assert not [item for item in items if isinstance(item, Damage)]
    return [record for item in items if not isinstance(item, Damage) for record in decode_batch(item)]


def replay_records(*records: bytes) -> tuple[MetadataImage, list[Row]]:
    image = MetadataImage()
    return image, image.apply(decode_batches(build.metadata_batch(0, *records)))


def partition_rows(rows: list[Row]) -> list[PartitionState]:
    return [row for row in rows if isinstance(row, PartitionState)]


def broker_events(rows: list[Row]) -> list[tuple[int, int, str | None, str]]:
    return [(row.broker, row.broker_epoch, row.incarnation, row.event) for row in rows if isinstance(row, BrokerEvent)]


def config_values(rows: list[Row]) -> list[tuple[str, str, str | None]]:
    return [(row.resource, row.name, row.value) for row in rows if isinstance(row, ConfigChange)]


@pytest.mark.parametrize(
    ("name", "kind"), [("partitions", PartitionState), ("brokers", BrokerEvent), ("configs", ConfigChange)]
)
def test_rows_have_exactly_the_columns_of_their_table(name: str, kind: type[msgspec.Struct]) -> None:
    assert list(kind.__struct_fields__) == TABLES[name].names


@pytest.mark.parametrize(
    ("release", "level", "registered_at", "end"), [("3.4.1", 8, 2, 245), ("3.9.1", 21, 6, 187), ("4.3.1", 30, 11, 195)]
)
def test_the_log_of_a_real_controller_replays_without_a_record_skipped(
    release: str, level: int, registered_at: int, end: int
) -> None:
    follower, image = MetadataFollower(LOGS / release / METADATA_FOLDER), MetadataImage()
    rows = image.apply(follower.poll())
    assert follower.tail is None
    assert (follower.next_offset, image.next_offset, image.skipped) == (end, end, {})
    assert image.features["metadata.version"] == level
    assert image.controller == 1
    events = [(row.event, row.broker_epoch) for row in rows if isinstance(row, BrokerEvent)]
    assert events == [(event, registered_at) for event in ("registered", "unfenced", "shutting_down", "fenced")]
    assert image.configs["broker:1", "max.connections"] == "1000"
    assert ("topic:client-none", "retention.ms") not in image.configs
    assert ("topic:client-none", "retention.ms", "70000") in config_values(rows)
    assert "short-lived" in {row.topic for row in partition_rows(rows)}
    assert "short-lived" not in {partition.topic for partition in image.partitions}
    assert [partition.partition for partition in image.partitions if partition.topic == "__transaction_state"] == list(
        range(50)
    )


def test_the_last_replica_of_a_real_cluster_with_elr_goes_from_the_isr_to_the_elr() -> None:
    rows = MetadataImage().apply(MetadataFollower(LOGS / "4.3.1" / METADATA_FOLDER).poll())
    first, last = [row for row in partition_rows(rows) if row.topic == "client-lz4"]
    assert (first.leader, first.isr, first.elr, first.leader_epoch, first.partition_epoch) == (1, (1,), (), 0, 0)
    assert (last.leader, last.isr, last.elr, last.last_known_elr) == (-1, (), (1,), (1,))
    assert (last.leader_epoch, last.partition_epoch, last.metadata_offset) == (1, 1, 186)
    assert last.at_ns == 1_795_263_407_143_000_000


def test_replaying_a_log_gives_the_state_that_kafka_wrote_into_its_snapshot() -> None:
    folder = LOGS / "4.3.1" / METADATA_FOLDER
    (snapshot,) = snapshot_files(folder)
    by_log, by_snapshot = MetadataImage(), MetadataImage()
    by_log.apply(item for item in MetadataFollower(folder).poll() if item.offset < snapshot.end_offset)
    by_snapshot.apply(read_snapshot(snapshot))
    assert {key: _content(row) for key, row in by_log.partitions.items()} == {
        key: _content(row) for key, row in by_snapshot.partitions.items()
    }
    assert by_log.configs == by_snapshot.configs
    assert by_log.features == by_snapshot.features


def _content(row: PartitionState) -> PartitionState:
    return msgspec.structs.replace(row, metadata_offset=0, metadata_epoch=0, at_ns=0)


def test_a_partition_change_raises_the_partition_epoch_always_and_the_leader_epoch_with_a_leader() -> None:
    image, rows = replay_records(
        build.topic("t", "T"),
        build.partition("T", 0, (1, 2, 3), leader=1),
        build.change("T", 0, isr=(1, 2)),
        build.change("T", 0, leader=1),
        build.change("T", 0, leader=-1, isr=(), elr=(1,), last_known=(1,)),
        build.change("T", 0, leader=2, recovery=1, isr=(2,)),
        build.change("T", 0, replicas=(2, 4), adding=(4,), removing=(1, 3), recovery=0),
    )
    epochs = [(row.leader, row.leader_epoch, row.partition_epoch) for row in partition_rows(rows)]
    assert epochs == [(1, 0, 0), (1, 0, 1), (1, 1, 2), (-1, 2, 3), (2, 3, 4), (2, 3, 5)]
    offline, recovering, last = partition_rows(rows)[3:]
    assert (offline.isr, offline.elr, offline.last_known_elr) == ((), (1,), (1,))
    assert (recovering.isr, recovering.elr, recovering.leader_recovery_state) == ((2,), (1,), 1)
    assert (last.replicas, last.adding, last.removing, last.leader_recovery_state) == ((2, 4), (4,), (1, 3), 0)
    assert image.partitions[T0] == last
    assert [row.metadata_offset for row in partition_rows(rows)] == [1, 2, 3, 4, 5, 6]


def test_clearing_the_elr_touches_only_partitions_that_have_one() -> None:
    start = (
        build.topic("t", "T"),
        build.topic("u", "U"),
        build.partition("T", 0, (1,), leader=1, elr=(2,)),
        build.partition("T", 1, (1,), leader=1),
        build.partition("U", 0, (1,), leader=1, elr=(3,)),
    )
    one, rows = replay_records(*start, build.clear_elr("t"))
    assert [(row.topic, row.partition, row.elr, row.partition_epoch) for row in partition_rows(rows)[3:]] == [
        ("t", 0, (), 1)
    ]
    assert one.partitions[TopicPartition("u", 0)].elr == (3,)
    every, rows = replay_records(*start, build.clear_elr(""))
    assert [row.topic for row in partition_rows(rows)[3:]] == ["t", "u"]
    assert [row.leader_epoch for row in every.partitions.values()] == [0, 0, 0]


def test_broker_events_carry_the_registration_they_belong_to() -> None:
    image, rows = replay_records(
        build.register(1, 0, "first"),
        build.registration_change(1, 0, fenced=-1),
        build.registration_change(1, 0, stopping=1),
        build.registration_change(1, 0, fenced=1),
        build.registration_change(1, 0),
        build.register(1, 5, "second"),
        build.legacy_fence(build.UNFENCE, 1, 5),
        build.legacy_fence(build.FENCE, 1, 5),
        build.unregister(1, 5),
    )
    first, second = (text.ljust(22, "A") for text in ("first", "second"))
    assert [event for *_, event in broker_events(rows)] == [
        *("registered", "unfenced", "shutting_down", "fenced"),
        *("registered", "unfenced", "fenced", "unregistered"),
    ]
    assert [(epoch, incarnation[:5]) for _, epoch, incarnation, _ in broker_events(rows) if incarnation] == [
        (0, first[:5])
    ] * 4 + [(5, second[:5])] * 4
    assert image.brokers[1].event == "unregistered"


def test_a_registration_that_is_not_fenced_says_so() -> None:
    _, rows = replay_records(build.register(2, 0, "x", fenced=False, stopping=True))
    assert [event for *_, event in broker_events(rows)] == ["registered", "unfenced", "shutting_down"]


def test_a_registration_says_the_newest_metadata_version_that_the_broker_supports() -> None:
    supported = (("group.version", 1), ("metadata.version", 30))
    _, rows = replay_records(
        build.register(1, 0, "x", supported=supported),
        build.registration_change(1, 0, fenced=-1),
        build.register(1, 9, "y"),
    )
    assert [row.metadata_version for row in rows if isinstance(row, BrokerEvent)] == [30, None, None]


def test_an_event_of_another_registration_has_no_incarnation() -> None:
    _, rows = replay_records(build.register(1, 0, "x"), build.registration_change(1, 99, fenced=1))
    assert broker_events(rows)[1][1:3] == (99, None)


def test_configs_and_features_are_named_by_resource() -> None:
    image, rows = replay_records(
        build.config(2, "t", "min.insync.replicas", "2"),
        build.config(4, "3", "log.retention.ms", "5"),
        build.config(4, "", "min.insync.replicas", "1"),
        build.config(2, "t", "min.insync.replicas", None),
        build.config(16, "metrics", "interval.ms", "5"),
        build.feature("eligible.leader.replicas.version", 1),
    )
    assert config_values(rows) == [
        ("topic:t", "min.insync.replicas", "2"),
        ("broker:3", "log.retention.ms", "5"),
        ("cluster", "min.insync.replicas", "1"),
        ("topic:t", "min.insync.replicas", None),
        ("feature:eligible.leader.replicas.version", "level", "1"),
    ]
    assert image.configs == {("broker:3", "log.retention.ms"): "5", ("cluster", "min.insync.replicas"): "1"}
    assert image.features == {"eligible.leader.replicas.version": 1}
    assert image.skipped == {"ConfigRecord of resource type 16": 1}


def test_a_topic_made_and_deleted_in_one_batch_leaves_nothing_and_its_name_can_be_used_again() -> None:
    image, rows = replay_records(
        build.topic("t", "T"),
        build.partition("T", 0, (1,), leader=1),
        build.config(2, "t", "retention.ms", "5"),
        build.remove_topic("T"),
        build.topic("t", "U"),
        build.partition("U", 0, (2,), leader=2),
        build.change("T", 0, isr=()),
        build.change("U", 0, isr=(2, 3)),
    )
    assert [(row.replicas, row.partition_epoch) for row in partition_rows(rows)] == [((1,), 0), ((2,), 0), ((2,), 1)]
    assert config_values(rows)[-1] == ("topic:t", "retention.ms", None)
    assert image.configs == {}
    assert image.skipped == {"PartitionChangeRecord of an unknown partition": 1}


def test_records_of_a_transaction_count_when_it_ends() -> None:
    image = MetadataImage()
    start = [build.begin(), build.topic("t", "T"), build.partition("T", 0, (1,), leader=1)]
    assert image.apply(decode_batches(build.metadata_batch(0, *start))) == []
    assert image.partitions == {}
    (row,) = image.apply(decode_batches(build.metadata_batch(3, build.end())))
    assert (row.metadata_offset, image.partitions[T0]) == (2, row)


def test_records_of_an_aborted_transaction_never_were() -> None:
    image, rows = replay_records(
        build.begin(), build.topic("t", "T"), build.abort(), build.partition("T", 0, (1,), leader=1)
    )
    assert rows == []
    assert image.skipped == {"PartitionRecord of an unknown topic": 1}


def test_the_active_controller_is_that_of_the_newest_leader_change() -> None:
    image = MetadataImage()
    image.apply(decode_batches(build.leader_change(0, 100), build.metadata_batch(1, build.begin())))
    image.apply(decode_batches(build.leader_change(2, 101, epoch=2)))
    assert image.controller == 101


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (build.message(99, b""), "metadata record 99: unknown type"),
        (build.message(build.TOPIC, b"", version=7), "TopicRecord: version 7, known up to 0"),
        (build.uvarint(2) + b"rest", "an unknown record: frame version 2, known is 1"),
        (b"", "an unknown record: 1 bytes wanted at 0, 0 left"),
        (build.topic("t", "T")[:-3], "TopicRecord: 16 bytes wanted at 5, 14 left"),
        (build.topic("t", "T") + b"!", "TopicRecord: 1 bytes left over"),
    ],
)
def test_what_cannot_be_decoded_is_counted_by_reason_and_the_rest_is_replayed(record: bytes, reason: str) -> None:
    image, rows = replay_records(build.feature("before", 1), record, build.feature("after", 2))
    assert len(rows) == 2
    assert image.skipped == {reason: 1}


def test_an_unknown_control_record_is_counted() -> None:
    image = MetadataImage()
    image.apply(decode_batches(build.batch(0, [(struct.pack(">hh", 0, 9), b"\0\0", ())], flags=0x20)))
    assert image.skipped == {"control record 9: unknown type": 1}


def test_unknown_tagged_fields_are_passed_over() -> None:
    data = build.message(build.NO_OP, b"", tags={9: b"from the future"})
    ((only),) = decode_batches(build.metadata_batch(0, data))
    assert (only.name, only.undecoded) == ("NoOpRecord", None)


def test_fields_of_versions_that_a_record_has_not_read_as_their_default() -> None:
    (old,) = decode_batches(build.metadata_batch(0, build.message(0, _register_v0())))
    assert old.undecoded is None
    assert (old.fields["inControlledShutdown"], old.fields["isMigratingZkBroker"]) == (False, False)
    assert (old.fields["logDirs"], old.fields["cordonedLogDirs"]) == ([], None)


def _register_v0() -> bytes:
    return struct.pack(">i", 1) + bytes(16) + struct.pack(">q", 5) + b"\x01\x01\0\1"


def test_every_definition_is_bundled_and_can_be_compiled_at_every_version() -> None:
    assert sorted(metadata_messages()) == [0, 1, 2, 3, 4, 5, *range(7, 13), 14, 15, *range(17, 30)]
    for message in messages().values():
        for version in message.versions:
            with pytest.raises(ValueError, match=r"wanted|left|null"):
                message.decode(Cursor(b""), version)


def test_a_definition_that_is_not_flexible_is_refused() -> None:
    text = '{"name": "X", "validVersions": "0-1", "flexibleVersions": "1+", "fields": []}'
    with pytest.raises(ValueError, match="not flexible"):
        load(text)


@pytest.mark.parametrize("text", ["t-0", "a-b-12", "__cluster_metadata-0"])
def test_a_partition_is_written_as_it_is_read(text: str) -> None:
    assert str(TopicPartition.parse(text)) == text


@pytest.mark.parametrize("text", ["t", "t-", "-0", "t-x", "t-0.abc-delete"])
def test_what_names_no_partition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a topic-partition"):
        TopicPartition.parse(text)
