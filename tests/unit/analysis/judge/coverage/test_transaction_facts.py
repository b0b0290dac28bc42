"""Coverage facts of transaction versions: the epoch of a commit's marker, against that of its records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from records import RecordBuilder, as_record

from analysis.judge.coverage.transaction_facts import LATER, SAME, MarkerEpochs

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
