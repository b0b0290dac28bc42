"""Facts of topics, deletions, transactions and rare states."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest
from judge_records import ELR_ON, Story
from records import RecordBuilder, as_record

from analysis.judge.coverage.deletion_facts import count_expired_records, deletion_facts
from analysis.judge.coverage.topic_facts import topic_facts
from analysis.judge.coverage.transaction_facts import LATER, SAME, MarkerEpochs
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import FinalOffsets, Manifest, Topology, write_manifest
from ebbtide.record.steps import StepEntry

MADE, READ, REVIVED = "topics-recreated", "records-of-deleted-topics-read", "replicas-of-deleted-topics-made"
PROOF = {"answer": "NONE", "since": 1, "asked_ns": 1, "known_ns": 2, "unaware": [], "record": {"topic_id": "B"}}
STEP = StepEntry(index=0, step="create-topic", parameters={"topic": "t"}, proof=PROOF)


def written(folder: Path) -> RecordBuilder:
    """Records 0 to 2 of the deleted topic, and record 3 of the new one."""
    return RecordBuilder().on("t@1").acked(0, 1, 2, at=0).not_in_final_read().on("t").acked(3, at=0)


def test_no_record_of_the_deleted_topic_is_in_the_new_one(tmp_path: Path) -> None:
    record = written(tmp_path).final(3).write(tmp_path / "run")
    assert topic_facts(as_record(record), [STEP]) == {MADE: 1, READ: 0, REVIVED: 0}


def test_records_of_the_deleted_topic_that_the_final_read_returned_are_counted(tmp_path: Path) -> None:
    record = as_record(written(tmp_path).final(3, 1, 2).write(tmp_path / "run"))
    record.split_steps = [STEP]
    assert topic_facts(record, record.split_steps) == {MADE: 1, READ: 2, REVIVED: 0}


def test_without_a_final_read_nobody_knows_what_the_new_topic_has(tmp_path: Path) -> None:
    record = written(tmp_path).not_in_final_read().write(tmp_path / "run")
    assert topic_facts(as_record(record), [STEP]) == {MADE: 1, REVIVED: 0}


def test_a_run_that_made_no_topic_again_says_so(tmp_path: Path) -> None:
    record = RecordBuilder().acked(0, at=0).final(0).write(tmp_path / "run")
    assert topic_facts(as_record(record), []) == {MADE: 0, READ: 0, REVIVED: 0}
    assert topic_facts(as_record(record), None) == {}


DELETION = StepEntry(
    index=0, step="delete-topic", parameters={"topic": "t"}, effect_ns=10**18, proof={"record": {"topic_id": "A-_9"}}
)
LOADER = "[kafka-3-metadata-loader-event-handler] INFO state.change.logger - [Broker id=3]"
BEFORE, AFTER = "2001-09-09T01:46:39.999Z", "2001-09-09T01:46:40.001Z"


@pytest.mark.parametrize(
    ("line", "revived"),
    [
        (f"{BEFORE} {LOADER} Creating new partition t-0 with topic id A-_9.", 0),
        (f"{AFTER} {LOADER} Creating new partition t-0 with topic id A-_9.", 1),
        (f"{AFTER} {LOADER} Creating new partition t-0 with topic id B.", 0),
        (f"{AFTER} {LOADER} Expected partition t-0 with topic id A-_9 to exist, but it was missing. Creating...", 1),
    ],
)
def test_a_replica_of_the_deleted_topic_that_a_broker_made_later_is_counted(
    tmp_path: Path, line: str, revived: int
) -> None:
    builder = written(tmp_path).final(3)
    record = builder.write(tmp_path / "run")
    write_manifest(RecordFolder(record), msgspec.structs.replace(builder.manifest(), topology=Topology(brokers=(3,))))
    assert REVIVED not in topic_facts(as_record(record), [DELETION, STEP])
    (record / "logs").mkdir()
    # A release that logs other words would otherwise never have made one.
    (record / "logs" / "broker-3.log").write_text(f"{AFTER} {LOADER} Made t-0 of A-_9.\n", "utf-8")
    assert REVIVED not in topic_facts(as_record(record), [DELETION, STEP])
    (record / "logs" / "broker-3.log").write_text(line + "\n", "utf-8")
    assert topic_facts(as_record(record), [DELETION, STEP])[REVIVED] == revived


# Coverage facts of deleted records: how many were deleted, and how many came back.


DELETED, CAME_BACK = "deleted-records", "deleted-records-that-came-back"


def deletion(old: int, new: int) -> StepEntry:
    move = {"old": old, "new": new, "leader_epoch": 0, "asked_ns": 1, "answered_ns": 2}
    return StepEntry(index=0, step="delete-records", parameters={"partition": "t-0"}, proof={"log_start": move})


def facts_of(record: Path, *steps: StepEntry, log_start: int | None = 0, hw: int = 1000) -> dict[str, int]:
    ends = {} if log_start is None else {"t-0": FinalOffsets(log_start=log_start, high_watermark=hw)}
    write_manifest(RecordFolder(record), Manifest(run_id="r", final_offsets=ends))
    return dict(deletion_facts(as_record(record), list(steps)))


@pytest.mark.parametrize(("log_start", "came_back"), [(500, 0), (700, 0), (100, 400), (0, 500)])
def test_offsets_below_the_deleted_log_start_that_the_final_log_has_came_back(
    tmp_path: Path, log_start: int, came_back: int
) -> None:
    facts = facts_of(tmp_path, deletion(0, 200), deletion(200, 500), log_start=log_start)
    assert facts == {DELETED: 500, CAME_BACK: came_back}


@pytest.mark.parametrize(("hw", "came_back"), [(300, 200), (100, 0)])
def test_deleted_offsets_above_the_final_hw_did_not_come_back(tmp_path: Path, hw: int, came_back: int) -> None:
    assert facts_of(tmp_path, deletion(0, 500), log_start=100, hw=hw) == {DELETED: 500, CAME_BACK: came_back}


def test_without_a_final_read_of_the_partition_nobody_knows_what_came_back(tmp_path: Path) -> None:
    assert facts_of(tmp_path, deletion(0, 500), log_start=None) == {DELETED: 500}


def test_the_log_of_a_topic_made_anew_brings_no_deleted_record_back(tmp_path: Path) -> None:
    topic = StepEntry(index=1, step="delete-topic", parameters={"topic": "t"}, effect_ns=3)
    assert facts_of(tmp_path, deletion(0, 500), topic, log_start=0) == {DELETED: 500}


def test_a_run_that_deleted_nothing_says_so(tmp_path: Path) -> None:
    assert facts_of(tmp_path) == {DELETED: 0, CAME_BACK: 0}
    assert deletion_facts(as_record(tmp_path), None) == {}


def test_offsets_below_a_log_start_that_no_step_moved_expired(tmp_path: Path) -> None:
    facts_of(tmp_path, log_start=300)
    assert count_expired_records(as_record(tmp_path), []) == 300
    assert count_expired_records(as_record(tmp_path), [deletion(0, 300)]) == 0


# The coverage facts that guide the random schedules.


def facts(story: Story) -> dict[str, int]:
    return story.judge().coverage


def test_an_elr_of_two_is_counted_when_it_comes_about(tmp_path: Path) -> None:
    story = Story(tmp_path, kafka="4.1.0", features=ELR_ON)
    story.state(1)
    story.state(5, isr=[1], elr=[2])
    assert facts(story)["elr-of-two"] == 0
    story.state(6, leader=-1, isr=[], elr=[1, 2])
    story.state(7, leader=2, isr=[2], elr=[1])
    assert facts(story)["elr-of-two"] == 1


def test_only_a_fault_that_falls_on_a_recovering_partition_counts_as_one(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.step(2, "kill", 1)
    story.state(5, leader=-1)
    story.state(6, leader=2, isr=[2], leader_recovery_state=1)
    story.step(7, "kill", 2)
    story.step(7, "start", 1)
    story.state(9, isr=[1, 2], leader_recovery_state=0)
    story.step(10, "kill", 3)
    assert facts(story)["faults-while-recovering"] == 1


def test_rejected_alter_partitions_are_counted_in_the_logs_of_the_controllers(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    assert "alter-partitions-rejected" not in facts(story)
    line = b"INFO [QuorumController id=100] Rejecting AlterPartition request from node 1 for t-0 because ...\n"
    (tmp_path / "logs").mkdir(exist_ok=True)
    (tmp_path / "logs" / "broker-1.log.gz").write_bytes(gzip.compress(line))
    (tmp_path / "logs" / "controller-100.log.gz").write_bytes(gzip.compress(line + b"INFO else\n" + line))
    assert facts(story)["alter-partitions-rejected"] == 2
    story.change(topology=Topology(controllers=(100, 101), brokers=(1, 2, 3)))
    assert "alter-partitions-rejected" not in facts(story)
    (tmp_path / "logs" / "controller-101.log").write_bytes(line)
    assert facts(story)["alter-partitions-rejected"] == 3


# Coverage facts of transaction versions: the epoch of a commit's marker, against that of its records.


RECORD_EPOCH = 5


def _committed(*values: int, txn: int, at: int, **columns: Any) -> RecordBuilder:
    """A record whose transaction `txn` committed these values at adjacent offsets from `at` on."""
    record = RecordBuilder()
    for offset, value in enumerate(values, at):
        record.send(value, at=offset, txn=txn, txn_outcome="committed", **columns)
    return record


def _log(
    record: RecordBuilder, *values: int, at: int, marker_epoch: int | None, broker: int = 1, **columns: Any
) -> None:
    """A replica's log with these values, and the marker that follows them."""
    of_producer = {"producer_id": 7, "producer_epoch": RECORD_EPOCH, **columns}
    record.replica(broker, *values, at=at, **of_producer)
    if marker_epoch is not None:
        of_marker = {**of_producer, "producer_epoch": marker_epoch, "control": True}
        record.replica(broker, None, at=at + len(values), **of_marker)


def _facts(record: RecordBuilder, folder: Path) -> tuple[int | None, int | None]:
    record.write(folder)
    facts = as_record(folder).seen(MarkerEpochs)
    return facts.get(LATER), facts.get(SAME)


def test_a_commit_whose_marker_has_a_later_epoch_is_of_transaction_version_2(tmp_path: Path) -> None:
    record = _committed(1, 2, txn=1, at=0)
    _log(record, 1, 2, at=0, marker_epoch=RECORD_EPOCH + 1)
    assert _facts(record, tmp_path) == (1, 0)


def test_a_commit_whose_marker_has_the_epoch_of_its_records_is_of_an_earlier_version(tmp_path: Path) -> None:
    record = _committed(1, 2, txn=1, at=0)
    _log(record, 1, 2, at=0, marker_epoch=RECORD_EPOCH)
    assert _facts(record, tmp_path) == (0, 1)


def test_a_transaction_counts_once_whatever_its_partitions_and_replicas(tmp_path: Path) -> None:
    record = _committed(1, txn=1, at=0)
    record.send(2, at=0, partition=1, txn=1, txn_outcome="committed")
    for broker in (1, 2):
        _log(record, 1, at=0, marker_epoch=RECORD_EPOCH, broker=broker)
        _log(record, 2, at=0, marker_epoch=RECORD_EPOCH, broker=broker, partition=1)
    assert _facts(record, tmp_path) == (0, 1)


def test_the_first_marker_of_the_same_producer_after_the_last_record_counts(tmp_path: Path) -> None:
    record = _committed(1, 2, txn=1, at=1)
    _log(record, at=0, marker_epoch=RECORD_EPOCH + 3)
    _log(record, 1, 2, at=1, marker_epoch=None)
    _log(record, at=3, marker_epoch=RECORD_EPOCH + 3, producer_id=8)
    _log(record, at=4, marker_epoch=RECORD_EPOCH)
    _log(record, at=5, marker_epoch=RECORD_EPOCH + 1)
    assert _facts(record, tmp_path) == (0, 1)


def test_another_record_at_the_offset_proves_nothing(tmp_path: Path) -> None:
    record = _committed(1, txn=1, at=0)
    _log(record, 9, at=0, marker_epoch=RECORD_EPOCH + 1)
    assert _facts(record, tmp_path) == (None, None)


def test_a_record_at_another_offset_proves_nothing(tmp_path: Path) -> None:
    record = _committed(1, txn=1, at=0)
    _log(record, 1, at=3, marker_epoch=RECORD_EPOCH + 1)
    assert _facts(record, tmp_path) == (None, None)


def test_a_transaction_without_a_marker_leaves_out_what_would_be_nought(tmp_path: Path) -> None:
    record = _committed(1, txn=1, at=0)
    _log(record, 1, at=0, marker_epoch=None)
    assert _facts(record, tmp_path) == (None, None)


def test_a_transaction_that_does_not_count_leaves_the_other_count_out(tmp_path: Path) -> None:
    record = _committed(1, txn=1, at=0)
    _log(record, 1, at=0, marker_epoch=RECORD_EPOCH + 1)
    record.send(2, at=5, txn=2, txn_outcome="committed")
    assert _facts(record, tmp_path) == (1, None)


def test_only_acked_records_of_committed_transactions_count(tmp_path: Path) -> None:
    record = RecordBuilder()
    record.send(1, at=0, txn=1, txn_outcome="aborted")
    record.send(2, at=1, txn=2, txn_outcome="unknown")
    record.send(3, at=2)
    _log(record, 1, 2, 3, at=0, marker_epoch=RECORD_EPOCH + 1)
    assert _facts(record, tmp_path) == (0, 0)


def test_without_the_replicas_logs_the_version_is_not_known(tmp_path: Path) -> None:
    assert _facts(_committed(1, txn=1, at=0), tmp_path) == (None, None)


def test_a_run_without_transactions_has_none_of_either_version(tmp_path: Path) -> None:
    assert _facts(RecordBuilder().send(1, at=0), tmp_path) == (0, 0)
