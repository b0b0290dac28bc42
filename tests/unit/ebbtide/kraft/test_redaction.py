"""What a record of somebody else's cluster keeps of the metadata log, and what it must not hold."""

from __future__ import annotations

import evidence_builders as build
from checkout import DATA

from ebbtide.kraft.image import MetadataImage
from ebbtide.kraft.records import MetadataRecord, decode_batch
from ebbtide.kraft.redaction import Redaction
from ebbtide.logs.batches import Batch
from ebbtide.logs.scan import Damage, scan, scan_file
from ebbtide.logs.segments import METADATA_FOLDER, segment_files

SCRAM = build.message(11, build.text("alice") + b"\0" + b"\x05salt" + b"\x07secret" + b"\x07hidden" + b"\0\0\x10\0")


def batches_of(data: bytes) -> list[Batch]:
    found = list(scan(build.BytesSource(data)))
    assert not [one for one in found if isinstance(one, Damage)], found
    return [one for one in found if not isinstance(one, Damage)]


def redacted(*batches: bytes, topics: tuple[str, ...] = ("mine",)) -> bytes:
    redaction = Redaction(topics)
    return b"".join(redaction.apply(one) for one in batches_of(b"".join(batches)))


def names_in(data: bytes) -> list[str]:
    return [record.name for batch in batches_of(data) for record in decode_batch(batch)]


def test_credentials_of_the_cluster_are_not_in_the_record() -> None:
    out = redacted(build.metadata_batch(5, SCRAM, build.feature("metadata.version", 30)))
    assert b"alice" not in out
    assert b"secret" not in out
    assert b"hidden" not in out
    assert names_in(out) == ["NoOpRecord", "FeatureLevelRecord"]


def test_topics_of_others_are_not_in_the_record_and_those_of_the_run_are() -> None:
    log = build.metadata_batch(
        0,
        build.topic("theirs", "B"),
        build.partition("B", 0, (1, 2), 1),
        build.config(2, "theirs", "retention.ms", "1"),
        build.topic("mine", "A"),
        build.partition("A", 0, (1, 2), 1),
        build.change("A", 0, leader=2),
        build.change("B", 0, leader=2),
        build.config(2, "mine", "min.insync.replicas", "2"),
        build.remove_topic("B"),
        build.remove_topic("A"),
    )
    out = redacted(log)
    assert b"theirs" not in out
    assert names_in(out) == [
        *["NoOpRecord"] * 3,
        "TopicRecord",
        "PartitionRecord",
        "PartitionChangeRecord",
        "NoOpRecord",
        "ConfigRecord",
        "NoOpRecord",
        "RemoveTopicRecord",
    ]


def test_of_dynamic_configs_only_those_that_decide_elections_stay() -> None:
    log = build.metadata_batch(
        0,
        build.config(4, "1", "listener.name.x.ssl.keystore.password", "hush"),
        build.config(4, "", "unclean.leader.election.enable", "true"),
        build.config(4, "", "min.insync.replicas", "2"),
    )
    out = redacted(log)
    assert b"hush" not in out
    assert names_in(out) == ["NoOpRecord", "ConfigRecord", "ConfigRecord"]


def test_offsets_epochs_and_times_stay_those_of_the_cluster() -> None:
    (before,) = batches_of(build.metadata_batch(7, SCRAM, build.topic("theirs", "B"), epoch=4))
    (after,) = batches_of(Redaction(()).apply(before))
    kept = [(one.offset, one.epoch, one.timestamp_ms) for one in decode_batch(after)]
    assert kept == [(one.offset, one.epoch, one.timestamp_ms) for one in decode_batch(before)]
    assert (after.base_offset, after.next_offset, after.leader_epoch) == (7, 9, 4)


def test_a_batch_with_nothing_to_hide_keeps_its_bytes() -> None:
    log = build.metadata_batch(0, build.feature("metadata.version", 30), build.unregister(1, 5))
    control = build.leader_change(2, leader=100)
    assert redacted(log, control) == log + control


def test_a_record_of_an_unknown_type_keeps_its_type_and_loses_its_content() -> None:
    out = redacted(build.metadata_batch(0, build.message(999, b"private")))
    assert b"private" not in out
    (record,) = records_of(out)
    assert record.undecoded == "unknown type"
    assert "999" in record.name


def test_a_batch_that_cannot_be_split_says_that_something_is_unknown() -> None:
    broken = build.batch(3, [(None, b"", ())])
    cut = bytearray(broken)
    cut[57:61] = (9).to_bytes(4, "big")
    (batch,) = [one for one in scan(build.BytesSource(bytes(cut)), verify=False) if not isinstance(one, Damage)]
    (record,) = records_of(Redaction(()).apply(batch))
    assert record.offset == 3
    assert record.undecoded is not None


def records_of(data: bytes) -> list[MetadataRecord]:
    return [record for batch in batches_of(data) for record in decode_batch(batch)]


def test_the_timeline_of_a_real_log_is_the_same_after_redaction_but_for_a_brokers_own_config() -> None:
    for release in ("3.4.1", "3.9.1", "4.3.1"):
        (folder,) = (DATA / "logs" / release).rglob(METADATA_FOLDER)
        data = b"".join(
            bytes(one.data)
            for path in segment_files(folder).values()
            for one in scan_file(path)
            if isinstance(one, Batch)
        )
        whole, kept = MetadataImage(), MetadataImage()
        rows = [one for one in whole.apply(records_of(data)) if getattr(one, "name", "") != "max.connections"]
        topics = {str(one.fields["name"]) for one in records_of(data) if one.name == "TopicRecord"}
        assert kept.apply(records_of(redacted(data, topics=tuple(topics)))) == rows
        assert dict(kept.skipped) == dict(whole.skipped)


def test_a_snapshot_is_redacted_as_the_log_is() -> None:
    out = redacted(build.snapshot(SCRAM, build.register(1, 3, "inc", fenced=False), timestamp_ms=5))
    assert b"alice" not in out
    assert names_in(out) == ["SnapshotHeaderRecord", "NoOpRecord", "RegisterBrokerRecord", "SnapshotFooterRecord"]
