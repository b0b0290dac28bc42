"""librdkafka's producer: each record's own answer is journalled, also where answers repeat or change their order.

The broker is librdkafka's own mock, in the process of the test.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, Message

from ebbtide.journal.convert import convert_journals
from ebbtide.journal.file import JournalHeader, JournalReader, JournalWriter
from ebbtide.journal.frames import ANSWERED
from ebbtide.record.files import JOURNAL_DIR
from ebbtide.waiting import pause, wait_until
from workloads.config import Endpoints, ProducerConfig
from workloads.librdkafka_producer import LibrdkafkaSender, open_producer
from workloads.send_account import COUNTERS
from workloads.single_sends import SingleSends
from workloads.status import StatusFile

PARTITIONS = 2
TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)


class Sent:
    """A sender on a temporary record, and the rows of its journal."""

    def __init__(self, record: Path) -> None:
        (record / JOURNAL_DIR).mkdir()
        self._record = record
        self.journal = record / JOURNAL_DIR / "producer-1.journal"
        config = ProducerConfig(
            endpoints=Endpoints(status=str(record / "status"), stop=""),
            journal=str(self.journal),
            run_id="r",
            bootstrap=(),
            id=1,
            topic="t",
            partitions=PARTITIONS,
            properties={"test.mock.num.brokers": "1", "allow.auto.create.topics": "true", "log_level": "3"},
        )
        status = StatusFile.create(record / "status", PARTITIONS * len(COUNTERS))
        header = JournalHeader(table="sends", id=1, topics=("t",), acks=-1)
        self.sends = SingleSends(JournalWriter(self.journal, header), status, PARTITIONS)
        self.producer = open_producer(config, ["localhost:1"])
        self.sender = LibrdkafkaSender(config, self.producer, self.sends)

    def answer(self, sequence: int, offset: int, error: KafkaError | None = None) -> None:
        """Let librdkafka answer a record of partition 0."""
        message = Message(topic="t", partition=0, offset=offset, value=b"")
        self.sender._note_answer(self.sends.lanes[0], sequence, error, message)

    def rows(self) -> list[dict[str, Any]]:
        self.sends.abandon()
        convert_journals(self._record)
        rows: list[dict[str, Any]] = pq.read_table(self._record / "sends").to_pylist()
        return sorted(rows, key=lambda row: (row["partition"], row["sequence"]))

    def outcomes(self) -> list[tuple[str, int | None]]:
        return [(row["status"], row["offset"]) for row in self.rows() if row["partition"] == 0]


@pytest.fixture
def sent(tmp_path: Path) -> Sent:
    return Sent(tmp_path)


def hand_over(sent: Sent, count: int) -> None:
    """Hand over records of partition 0 whose answers the test makes up."""
    for value in range(count):
        sent.sends.hand_over(sent.sends.lanes[0], value, 1)


def test_every_record_is_acked_with_its_own_offset_and_times(sent: Sent) -> None:
    begun_ns = time.time_ns()
    assert sent.sender.send_burst(100)
    assert sent.sender.send_burst(100)
    handed_ns = time.time_ns()

    def is_answered() -> bool:
        sent.sender.serve(0.01)
        sent.sends.flush()
        return not sent.sends.outstanding_count

    wait_until(is_answered, awaited="answers of the mock broker", timeout_s=30)
    rows = sent.rows()
    for partition in range(PARTITIONS):
        own = [row for row in rows if row["partition"] == partition]
        assert [row["sequence"] for row in own] == list(range(100))
        assert [row["offset"] for row in own] == list(range(100))
        assert {row["status"] for row in own} == {"acked"}
        assert [row["sent_ns"] for row in own] == sorted(row["sent_ns"] for row in own)
    assert all(begun_ns <= row["sent_ns"] <= handed_ns for row in rows)
    assert len({row["sent_ns"] for row in rows}) > PARTITIONS * 10


def test_no_answer_is_older_than_the_call_that_brought_it(sent: Sent) -> None:
    hand_over(sent, 3)
    sent.answer(0, 70)
    sent.sender.serve(0)
    first_ns = time.time_ns()
    pause(0.002)
    sent.answer(1, 71)
    second_ns = time.time_ns()
    sent.answer(2, 72)
    sent.sender.serve(0)
    done_ns = [row["done_ns"] for row in sent.rows()]
    assert done_ns[0] <= first_ns <= done_ns[1]
    assert second_ns <= done_ns[2]


def test_answers_in_order_share_a_frame(sent: Sent) -> None:
    hand_over(sent, 50)
    for sequence in range(50):
        sent.answer(sequence, 70 + sequence)
    sent.sends.flush()
    assert sum(kind == ANSWERED for kind, _ in JournalReader(sent.journal).frames()) == 1
    assert sent.outcomes() == [("acked", 70 + sequence) for sequence in range(50)]


def test_an_answer_out_of_turn_keeps_its_offset(sent: Sent) -> None:
    hand_over(sent, 6)
    for sequence, offset in ((0, 10), (1, 11), (4, 12), (2, 13), (3, 14), (5, 15)):
        sent.answer(sequence, offset)
    assert [offset for _, offset in sent.outcomes()] == [10, 11, 13, 14, 12, 15]


def test_a_gap_in_the_offsets_is_kept(sent: Sent) -> None:
    hand_over(sent, 4)
    for sequence, offset in ((0, 10), (1, 11), (2, 20), (3, 21)):
        sent.answer(sequence, offset)
    assert [offset for _, offset in sent.outcomes()] == [10, 11, 20, 21]


def test_a_timeout_between_acks_is_unknown_and_the_others_keep_their_offsets(sent: Sent) -> None:
    hand_over(sent, 4)
    sent.answer(0, 10)
    sent.answer(1, 11)
    sent.answer(2, -1001, TIMED_OUT)
    sent.answer(3, 12)
    assert sent.outcomes() == [("acked", 10), ("acked", 11), ("unknown", None), ("acked", 12)]


def test_a_second_answer_changes_nothing(sent: Sent) -> None:
    hand_over(sent, 5)
    for sequence in range(3):
        sent.answer(sequence, 10 + sequence)
    sent.answer(1, -1001, TIMED_OUT)
    sent.answer(2, 13)
    sent.answer(3, 13)
    assert sent.outcomes() == [*(("acked", 10 + sequence) for sequence in range(4)), ("unknown", None)]


def test_a_second_answer_that_would_continue_the_last_answers_changes_nothing(sent: Sent) -> None:
    hand_over(sent, 5)
    sent.answer(2, 20)
    sent.answer(0, 18)
    sent.answer(1, 19)
    sent.answer(2, 20)
    sent.answer(3, 21)
    assert sent.outcomes() == [("acked", 18), ("acked", 19), ("acked", 20), ("acked", 21), ("unknown", None)]


def test_a_record_without_an_answer_is_unknown_also_before_answered_ones(sent: Sent) -> None:
    hand_over(sent, 4)
    sent.answer(1, 10)
    sent.answer(2, 11)
    assert [status for status, _ in sent.outcomes()] == ["unknown", "acked", "acked", "unknown"]


def test_answers_of_records_that_nobody_handed_over_are_ignored(sent: Sent) -> None:
    hand_over(sent, 1)
    sent.answer(7, 10)
    sent.answer(0, 3)
    sent.sends.flush()
    assert sent.sends.acked_count == 1
    assert sent.outcomes() == [("acked", 3)]


def test_an_error_with_the_next_offset_is_no_ack(sent: Sent) -> None:
    hand_over(sent, 2)
    sent.answer(0, 10)
    sent.answer(1, 11, TIMED_OUT)
    assert sent.outcomes() == [("acked", 10), ("unknown", None)]


def test_the_account_ends_once(sent: Sent) -> None:
    hand_over(sent, 3)
    sent.answer(1, 10)
    sent.sends.abandon()
    assert sent.sends.outstanding_count == 0
    sent.sends.abandon()
    assert sent.sends.outstanding_count == 0


def test_a_refused_record_is_failed_and_the_next_burst_goes_on_after_it(sent: Sent) -> None:
    sent.sender._encode = lambda sequence, value: b"x" * (50_000_000 if value & 1 else 10)
    assert not sent.sender.send_burst(10)
    assert sent.sender.number == 2
    rows = sent.rows()
    assert [(row["partition"], row["status"], row["error"]) for row in rows] == [
        (0, "unknown", "UNRESOLVED"),
        (1, "failed", "MESSAGE_TOO_LARGE"),
    ]
