"""The account of a client that answers each record: a row each, also when steps kill the client and start it again."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from client_configs import producer_config

from ebbtide.journal.convert import convert_journals
from ebbtide.journal.file import NUMBERS_OF_A_LIFE, JournalHeader, JournalReader, JournalWriter, cut_torn_tail
from ebbtide.journal.frames import ANSWERED
from ebbtide.journal.payload import value_at
from ebbtide.record.files import JOURNAL_DIR, RecordFolder
from workloads.client import Client
from workloads.client_steps import ClientSteps
from workloads.process import StatusFile
from workloads.send_account import COUNTERS, SendCounts, counts_in
from workloads.single_sends import SingleSends

HEADER = JournalHeader(table="sends", id=1, topics=("t",), acks=-1)


class Process:
    """A process that ends by what is sent to it."""

    pid = 1

    def __init__(self) -> None:
        self.status: int | None = None

    def exit_status(self) -> int | None:
        return self.status

    def kill(self) -> int:
        self.status = -9
        return -9


def life(journal: Path, number: int, records: int, acked: int) -> SendCounts:
    """A process of producer 1 sends records; the first ones are acked. Returns what its status file counts."""
    status = StatusFile.create(journal.with_suffix(".status"), len(COUNTERS))
    sends = SingleSends(JournalWriter(journal, HEADER, number), status, 1)
    config = producer_config(life=number)
    (lane,) = sends.lanes
    for at in range(records):
        sends.hand_over(lane, config.value_at(at), 1)
        if at < acked:
            sends.answer(lane, at, "acked", 100 * number + at, "", 2)
    sends.flush()
    return counts_in(status, 1)


def test_a_producer_that_was_killed_goes_on_with_values_that_it_cannot_have_used(tmp_path: Path) -> None:
    journal = tmp_path / JOURNAL_DIR / "producer-1.journal"
    journal.parent.mkdir()
    life(journal, 0, records=3, acked=2)
    with journal.open("ab") as torn:
        torn.write(b"half a frame")
    cut_torn_tail(journal)
    life(journal, 1, records=2, acked=2)
    assert convert_journals(RecordFolder(tmp_path)) == 0
    rows = pq.read_table(tmp_path / "sends").to_pylist()
    assert [(row["sequence"], row["status"], row["error"], row["offset"]) for row in rows] == [
        (0, "acked", None, 0),
        (1, "acked", None, 1),
        (2, "unknown", "UNRESOLVED", None),
        (NUMBERS_OF_A_LIFE, "acked", None, 100),
        (NUMBERS_OF_A_LIFE + 1, "acked", None, 101),
    ]
    assert [row["value"] for row in rows[2:4]] == [value_at(1, 2), value_at(1, NUMBERS_OF_A_LIFE)]


def test_what_a_dead_producer_left_without_an_answer_is_unknown_and_counts_add_up(tmp_path: Path) -> None:
    journal = tmp_path / "producer-1.journal"
    first = life(journal, 0, records=3, acked=2)
    assert first == SendCounts(handed=3, acked=2)
    assert first.abandoned() + life(journal, 1, records=2, acked=1) == SendCounts(handed=5, acked=3, unknown=1)


def test_a_first_process_begins_a_journal_anew(tmp_path: Path) -> None:
    journal = tmp_path / "producer-1.journal"
    life(journal, 0, records=3, acked=0)
    life(journal, 0, records=1, acked=0)
    assert sum(1 for _ in JournalReader(journal).frames()) == 1


def test_a_killed_client_may_be_down_and_a_started_one_may_not(tmp_path: Path) -> None:
    client = Client("consumer-1", "workloads.consumer", tmp_path, tmp_path / "log")
    processes: list[Process] = []

    def start(_name: str, timeout_s: float) -> None:
        def process(*_: object, **__: object) -> Process:
            processes.append(Process())
            return processes[-1]

        client.start(HEADER, process)

    steps = ClientSteps(tmp_path, [client], start)
    start("consumer-1", 1.0)
    JournalWriter(tmp_path / "consumer-1.journal", HEADER)
    with (tmp_path / "consumer-1.journal").open("ab") as torn:
        torn.write(b"half a frame")
    assert steps.kill_client("consumer-1") == -9
    reader = JournalReader(tmp_path / "consumer-1.journal")
    assert (list(reader.frames()), reader.torn_bytes) == ([], 0)
    client.check()
    assert not steps.runs("consumer-1")
    steps.start_client("consumer-1", 1.0)
    assert (steps.runs("consumer-1"), steps.life_of("consumer-1")) == (True, 1)
    assert not steps.works("consumer-1")
    assert not client.is_down


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
