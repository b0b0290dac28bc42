"""The tables of outcomes of sends and commits: complete, strict about `failed`, and equal to their documentation."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import kafka.errors
import pyarrow.parquet as pq
import pytest
from checkout import ROOT

from ebbtide.journal.commits import (
    COMMIT_TABLE,
    Commit,
    CommitAnswer,
    Entry,
    ServedOffset,
    outcome_of_commit,
    pack_commits,
)
from ebbtide.journal.convert import convert_journals
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.outcomes import EXPIRED_UNSENT, TABLE, Attempts, Row, outcome_of, resolve
from ebbtide.record.files import JOURNAL_DIR, RecordFolder

CERTAIN = {
    "NOT_ENOUGH_REPLICAS",
    "MESSAGE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "CORRUPT_MESSAGE",
    "INVALID_RECORD",
    "INVALID_TIMESTAMP",
    "INVALID_REQUIRED_ACKS",
    "INVALID_TOPIC_EXCEPTION",
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "UNSUPPORTED_COMPRESSION_TYPE",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "UNKNOWN_PRODUCER_ID",
    "INVALID_PRODUCER_EPOCH",
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_ID_MAPPING",
    "INVALID_TXN_STATE",
    "EXPIRED_UNSENT",
    "NodeNotReadyError",
}
"""Written out a second time on purpose: whoever calls another error certain has to say so twice."""


def _errors() -> list[type[Exception]]:
    found = [item for _, item in inspect.getmembers(kafka.errors, inspect.isclass)]
    return sorted({item for item in found if issubclass(item, kafka.errors.KafkaError)}, key=lambda item: item.__name__)


def _instance(kind: type[Exception]) -> Exception:
    return kind({}) if kind is kafka.errors.LogTruncationError else kind()


def test_only_the_listed_answers_are_certain_failures() -> None:
    assert {row.name for row in TABLE if row.outcome == "failed"} == CERTAIN


@pytest.mark.parametrize("kind", _errors(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_client_has_an_outcome_and_a_reason(kind: type[Exception]) -> None:
    row = outcome_of(_instance(kind))
    assert row.why.endswith(".")
    assert (row.outcome == "acked") == (kind is kafka.errors.NoError)
    assert (row.outcome == "failed") <= (row.name in CERTAIN)


def test_every_code_of_the_table_is_an_error_that_the_client_knows() -> None:
    unknown = [row.name for row in TABLE if row.code not in (None, -1) and row.code not in kafka.errors.kafka_errors]
    assert not unknown


def test_every_client_error_of_the_table_exists() -> None:
    names = {row.name for row in TABLE if row.code is None} - {"EXPIRED_UNSENT", "UNRESOLVED"}
    assert names == {name for name in names if hasattr(kafka.errors, name)}


def test_no_answer_is_listed_twice() -> None:
    counts = Counter(row.name for row in TABLE) + Counter(row.code for row in TABLE if row.code is not None)
    assert max(counts.values()) == 1


def test_an_unlisted_error_is_unknown() -> None:
    assert outcome_of(kafka.errors.OffsetOutOfRangeError()).outcome == "unknown"
    assert outcome_of(ConnectionResetError(104, "reset")).outcome == "unknown"
    assert outcome_of(OSError(19, "a host's errno is no Kafka code")).outcome == "unknown"


def test_after_append_and_timeouts_are_unknown() -> None:
    for error in (
        kafka.errors.NotEnoughReplicasAfterAppendError(),
        kafka.errors.RequestTimedOutError(),
        kafka.errors.KafkaTimeoutError(),
        kafka.errors.KafkaConnectionError(),
        kafka.errors.NotLeaderForPartitionError(),
    ):
        assert outcome_of(error).outcome == "unknown"


def test_a_refusal_is_failed_only_if_no_attempt_before_it_may_have_been_appended() -> None:
    refused = kafka.errors.NotEnoughReplicasError()
    assert resolve(refused, Attempts(last_ended=1.0)) == ("failed", "NOT_ENOUGH_REPLICAS")
    assert resolve(refused, Attempts(last_ended=1.0, maybe_appended=True)) == ("unknown", "NOT_ENOUGH_REPLICAS")


def test_an_abort_whose_attempts_nobody_saw_is_unknown() -> None:
    assert resolve(kafka.errors.ClusterAuthorizationFailedError(), None)[0] == "unknown"


def test_expiry_in_the_buffer_is_failed_and_expiry_in_flight_is_not() -> None:
    expired = kafka.errors.KafkaTimeoutError()
    assert resolve(expired, Attempts(expired_unsent=True)) == ("failed", EXPIRED_UNSENT)
    assert resolve(expired, Attempts(expired_unsent=True, maybe_appended=True))[0] == "unknown"
    assert resolve(expired, Attempts(last_ended=1.0, maybe_appended=True))[0] == "unknown"


@pytest.mark.parametrize(("page", "table"), [("clients.md", TABLE), ("groups.md", COMMIT_TABLE)])
def test_the_documentation_shows_the_table(page: str, table: Sequence[Row]) -> None:
    rows = [f"| {row.name} | {'' if row.code is None else row.code} | {row.outcome} | {row.why} |" for row in table]
    assert "\n".join(rows) in (ROOT / "docs" / page).read_text()


CERTAIN_OF_COMMITS = {
    "ILLEGAL_GENERATION",
    "UNKNOWN_MEMBER_ID",
    "REBALANCE_IN_PROGRESS",
    "FENCED_INSTANCE_ID",
    "INVALID_GROUP_ID",
    "GROUP_AUTHORIZATION_FAILED",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "CommitFailedError",
    "NodeNotReadyError",
}
"""Written out a second time on purpose: whoever calls another error certain has to say so twice."""


@pytest.mark.parametrize("kind", _errors(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_client_has_an_outcome_for_a_commit(kind: type[Exception]) -> None:
    row = outcome_of_commit(_instance(kind))
    assert (row.outcome == "acked") == (kind is kafka.errors.NoError)
    assert (row.outcome == "failed") == (row.name in CERTAIN_OF_COMMITS)


def test_what_a_coordinator_renames_after_the_append_is_unknown() -> None:
    assert outcome_of_commit(kafka.errors.CoordinatorNotAvailableError()).outcome == "unknown"
    assert outcome_of_commit(kafka.errors.NotCoordinatorError()).outcome == "unknown"
    assert outcome_of_commit(None).outcome == "acked"


def _commit(number: int, partition: int = 0) -> Commit:
    return Commit(
        group="g", topic=0, partition=partition, commit=number, offset=9, consumer=1, offsets_partition=0, asked_ns=5
    )


def _convert(record: Path, *entries: Entry) -> list[dict[str, object]]:
    (record / JOURNAL_DIR).mkdir()
    journal = JournalWriter(
        record / JOURNAL_DIR / "commits-1.journal", JournalHeader(table="commits", id=1, topics=("t",))
    )
    for one in entries:
        journal.write([pack_commits([one])])
    journal.close()
    convert_journals(RecordFolder(record))
    rows: list[dict[str, object]] = pq.read_table(record / "commits" / "commits-1.parquet").to_pylist()
    return rows


def test_a_commit_has_a_row_for_each_partition_and_the_outcome_of_its_answer(tmp_path: Path) -> None:
    rows = _convert(
        tmp_path,
        _commit(1),
        _commit(1, partition=1),
        CommitAnswer(commit=1, status="acked", done_ns=8),
    )
    assert [(row["partition"], row["status"], row["done_ns"]) for row in rows] == [(0, "acked", 8), (1, "acked", 8)]
    assert rows[0]["topic"] == "t"


def test_a_commit_without_an_answer_is_unknown(tmp_path: Path) -> None:
    (row,) = _convert(tmp_path, _commit(1))
    assert (row["status"], row["error"], row["done_ns"]) == ("unknown", "UNRESOLVED", None)


def test_an_answer_of_a_coordinator_is_a_row_with_the_broker(tmp_path: Path) -> None:
    served = ServedOffset(
        group="g",
        topic=0,
        partition=0,
        commit=None,
        offset=None,
        broker=3,
        offsets_partition=0,
        asked_ns=5,
        done_ns=6,
    )
    (row,) = _convert(tmp_path, served)
    assert (row["status"], row["broker"], row["commit"], row["offset"]) == ("served", 3, None, None)
