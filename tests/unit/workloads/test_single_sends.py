"""The account of a client that answers each record: every record has one row, with its own offset and outcome."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ebbtide.journal.convert import convert_journals
from ebbtide.journal.file import JournalHeader, JournalReader, JournalWriter
from ebbtide.journal.frames import ANSWERED
from ebbtide.record.files import JOURNAL_DIR
from ebbtide.record.folder import RecordFolder
from workloads.send_account import COUNTERS
from workloads.single_sends import SingleSends
from workloads.status import StatusFile


class Account:
    """A producer's account of one partition, on a temporary record."""

    def __init__(self, record: Path) -> None:
        (record / JOURNAL_DIR).mkdir()
        self._record = record
        self._journal = record / JOURNAL_DIR / "producer-1.journal"
        status = StatusFile.create(record / "status", len(COUNTERS))
        header = JournalHeader(table="sends", id=1, topics=("t",), acks=-1)
        self.sends = SingleSends(JournalWriter(self._journal, header), status, 1)
        self.lane = self.sends.lanes[0]

    def hand_over(self, count: int) -> None:
        for _ in range(count):
            self.sends.hand_over(self.lane, self.lane.next_sequence, 1)

    def ack(self, sequence: int, offset: int | None, done_ns: int = 10) -> None:
        self.sends.answer(self.lane, sequence, "acked", offset, "", done_ns)

    def answer_frames(self) -> int:
        self.sends.flush()
        return sum(kind == ANSWERED for kind, _ in JournalReader(self._journal).frames())

    def rows(self) -> list[tuple[int, str, int | None, str | None]]:
        self.sends.abandon()
        convert_journals(RecordFolder(self._record))
        table = pq.read_table(self._record / "sends").to_pylist()
        return [(row["sequence"], row["status"], row["offset"], row["error"]) for row in table]


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return Account(tmp_path)


def test_runs_of_acks_that_continue_each_other_share_a_frame(account: Account) -> None:
    account.hand_over(9)
    account.sends.ack_run(account.lane, 0, 3, 70, 10)
    account.sends.ack_run(account.lane, 3, 4, 73, 10)
    assert account.answer_frames() == 1
    assert account.rows() == [
        *((sequence, "acked", 70 + sequence, None) for sequence in range(7)),
        *((sequence, "unknown", None, "UNRESOLVED") for sequence in (7, 8)),
    ]


def test_a_run_of_acks_beyond_a_gap_or_of_answered_records_changes_no_other_record(account: Account) -> None:
    account.hand_over(6)
    account.sends.ack_run(account.lane, 2, 2, 70, 10)
    account.sends.ack_run(account.lane, 1, 2, 80, 10)
    account.sends.ack_run(account.lane, 5, 4, 90, 10)
    offsets = [(row[1], row[2]) for row in account.rows()]
    assert offsets == [
        ("unknown", None),
        ("acked", 80),
        ("acked", 70),
        ("acked", 71),
        ("unknown", None),
        ("acked", 90),
    ]


def test_acked_records_without_an_offset_share_a_frame(account: Account) -> None:
    account.hand_over(2)
    account.ack(0, None)
    account.ack(1, None)
    assert account.answer_frames() == 1
    assert account.rows() == [(0, "acked", None, None), (1, "acked", None, None)]


def test_answers_that_came_at_different_times_are_apart(account: Account) -> None:
    account.hand_over(2)
    account.ack(0, 0, done_ns=0)
    account.ack(1, 1, done_ns=6_000_000)
    assert account.answer_frames() == 2
