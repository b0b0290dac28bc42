"""Commits and the answers of coordinators become rows; errors have outcomes, as the documentation says."""

from __future__ import annotations

import inspect
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
from ebbtide.record.files import JOURNAL_DIR
from ebbtide.record.folder import RecordFolder

DOCS = ROOT / "docs" / "groups.md"
CERTAIN = {
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


def _errors() -> list[type[Exception]]:
    found = [item for _, item in inspect.getmembers(kafka.errors, inspect.isclass)]
    return sorted({item for item in found if issubclass(item, kafka.errors.KafkaError)}, key=lambda item: item.__name__)


@pytest.mark.parametrize("kind", _errors(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_client_has_an_outcome(kind: type[Exception]) -> None:
    row = outcome_of_commit(kind({}) if kind is kafka.errors.LogTruncationError else kind())
    assert (row.outcome == "acked") == (kind is kafka.errors.NoError)
    assert (row.outcome == "failed") == (row.name in CERTAIN)


def test_what_a_coordinator_renames_after_the_append_is_unknown() -> None:
    assert outcome_of_commit(kafka.errors.CoordinatorNotAvailableError()).outcome == "unknown"
    assert outcome_of_commit(kafka.errors.NotCoordinatorError()).outcome == "unknown"
    assert outcome_of_commit(None).outcome == "acked"


def test_the_documentation_has_the_same_table() -> None:
    rows = [
        f"| {row.name} | {'' if row.code is None else row.code} | {row.outcome} | {row.why} |" for row in COMMIT_TABLE
    ]
    text = DOCS.read_text()
    assert [row for row in rows if row not in text] == []


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
