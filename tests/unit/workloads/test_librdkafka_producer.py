"""librdkafka's producer: each record's own answer is journalled, also where answers repeat or change their order.

The broker is librdkafka's own mock, in the process of the test.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from client_configs import producer_config
from confluent_kafka import KafkaError, Message

from ebbtide.journal.convert import convert_journals
from ebbtide.journal.file import JournalHeader, JournalReader, JournalWriter
from ebbtide.journal.frames import ANSWERED
from ebbtide.journal.payload import value_at
from ebbtide.record.files import JOURNAL_DIR, RecordFolder
from ebbtide.waiting import pause, wait_until
from workloads.config import Endpoints
from workloads.librdkafka_producer import LibrdkafkaSender, LibrdkafkaSends, SendTurns, open_producer
from workloads.process import StatusFile
from workloads.send_account import COUNTERS
from workloads.sending import partition_of_key

PARTITIONS = 2
TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)


class Sent:
    """A sender on a temporary record, and the rows of its journal."""

    def __init__(self, record: Path, *, notes_each: bool = False, **settings: Any) -> None:
        (record / JOURNAL_DIR).mkdir()
        self._record = record
        self._notes_each = notes_each
        self.journal = record / JOURNAL_DIR / "producer-1.journal"
        config = producer_config(
            endpoints=Endpoints(status=str(record / "status"), stop=""),
            journal=str(self.journal),
            partitions=PARTITIONS,
            properties={"test.mock.num.brokers": "1", "allow.auto.create.topics": "true", "log_level": "3"},
            **settings,
        )
        status = StatusFile.create(record / "status", PARTITIONS * len(COUNTERS))
        header = JournalHeader(table="sends", id=1, topics=("t",), acks=config.acks)
        self.sends = LibrdkafkaSends(config, JournalWriter(self.journal, header), status)
        self.producer = open_producer(config, ["localhost:1"])
        self.sender = LibrdkafkaSender(config, self.producer, self.sends)

    def hand_over(self, count: int) -> None:
        """Hand over records of each partition whose answers the test makes up."""
        self.sends.hand_over_below(PARTITIONS * count, 1)

    def answer(self, sequence: int, offset: int, error: KafkaError | None = None, *, partition: int = 0) -> None:
        """Let librdkafka answer a record."""
        [payload] = self.sends.payloads(PARTITIONS * sequence + partition, 1)
        message = Message(topic="t", partition=partition, offset=offset, value=payload, error=error)
        self.sends.note_answer(error, message)
        if self._notes_each:
            self.sends.close_runs()

    def await_answers(self) -> None:
        def are_answered() -> bool:
            self.sender.serve(0.01)
            self.sends.flush()
            return not self.sends.outstanding_count

        wait_until(are_answered, awaited="answers of the mock broker", timeout_s=30)

    def converted(self) -> list[dict[str, Any]]:
        """Return the rows of what the journal has now."""
        convert_journals(RecordFolder(self._record))
        rows: list[dict[str, Any]] = pq.read_table(self._record / "sends").to_pylist()
        return sorted(rows, key=lambda row: (row["partition"], row["sequence"]))

    def rows(self) -> list[dict[str, Any]]:
        self.sends.abandon()
        return self.converted()

    def outcomes(self) -> list[tuple[str, int | None]]:
        return [(row["status"], row["offset"]) for row in self.rows() if row["partition"] == 0]


Make = Callable[..., Sent]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda **settings: Sent(tmp_path, **settings)


@pytest.fixture(params=[False, True], ids=["answers are noted together", "each answer is noted alone"])
def sent(request: pytest.FixtureRequest, make: Make) -> Sent:
    return make(notes_each=request.param)


@pytest.mark.parametrize("keys", [None, 5])
def test_every_record_is_acked_with_its_own_value_offset_and_times(make: Make, keys: int | None) -> None:
    sent = make(keys=keys)
    bounds_ns = [time.time_ns()]
    for _ in range(2):
        assert sent.sender.send_burst(101)
        bounds_ns.append(time.time_ns())
    sent.await_answers()
    rows = sent.rows()
    assert sorted(row["value"] for row in rows) == [value_at(1, number) for number in range(202)]
    for partition in range(PARTITIONS):
        own = [row for row in rows if row["partition"] == partition]
        assert [row["sequence"] for row in own] == list(range(len(own)))
        assert [row["offset"] for row in own] == list(range(len(own)))
        assert [row["value"] for row in own] == sorted(row["value"] for row in own)
    assert {row["status"] for row in rows} == {"acked"}
    for row in rows:
        burst = (row["value"] - value_at(1, 0)) // 101
        assert bounds_ns[burst] <= row["sent_ns"] <= bounds_ns[burst + 1]
        assert row["sent_ns"] <= row["done_ns"]


def test_no_record_is_handed_over_before_the_time_of_its_row(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, produced_ns = make(), list[int]()

    class Library:
        def produce(self, *_: object) -> None:
            produced_ns.append(time.time_ns())

    monkeypatch.setattr(sent.sender, "_producer", Library())
    assert sent.sender.send_burst(2)
    assert all(row["sent_ns"] <= produced_ns[0] for row in sent.rows())


def test_a_record_goes_to_the_partition_of_its_key(make: Make) -> None:
    sent = make(keys=5)
    assert sent.sender.send_burst(20)
    sent.await_answers()
    places = {row["value"] - value_at(1, 0): row["partition"] for row in sent.rows()}
    expected = [partition_of_key(b"key-%d" % number, PARTITIONS) for number in range(5)]
    assert [places[number] for number in range(20)] == expected * 4


def test_acks_of_nobody_have_no_offset(make: Make) -> None:
    sent = make(acks=0)
    assert sent.sender.send_burst(10)
    sent.await_answers()
    assert {(row["status"], row["offset"]) for row in sent.rows()} == {("acked", None)}


def test_the_journal_of_a_killed_producer_has_all_until_its_last_flush(make: Make) -> None:
    sent = make()
    assert sent.sender.send_burst(100)
    sent.await_answers()
    assert sent.sender.send_burst(50)
    sent.sends.flush()
    assert sent.sender.send_burst(7)
    rows = sent.converted()
    assert len(rows) == 150
    assert [row["status"] for row in sorted(rows, key=lambda row: row["value"])] == ["acked"] * 100 + ["unknown"] * 50


def test_no_answer_is_older_than_the_call_that_brought_it(make: Make) -> None:
    sent = make()
    sent.hand_over(3)
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


def test_answers_in_order_share_a_frame(make: Make) -> None:
    sent = make()
    sent.hand_over(50)
    for sequence in range(50):
        sent.answer(sequence, 70 + sequence)
    sent.sends.flush()
    assert sum(kind == ANSWERED for kind, _ in JournalReader(sent.journal).frames()) == 1
    assert sent.outcomes() == [("acked", 70 + sequence) for sequence in range(50)]


def test_an_answer_of_another_partition_does_not_continue_those_of_this_one(sent: Sent) -> None:
    sent.hand_over(3)
    sent.answer(0, 10)
    sent.answer(1, 11)
    sent.answer(2, 12, partition=1)
    rows = sent.rows()
    assert [(row["partition"], row["offset"]) for row in rows] == [
        *((0, offset) for offset in (10, 11, None)),
        *((1, offset) for offset in (None, None, 12)),
    ]


LATE = (-1001, TIMED_OUT)
"""No offset, and librdkafka's own error."""


@pytest.mark.parametrize(
    ("answers", "outcomes"),
    [
        pytest.param(
            [(0, 10), (1, 11), (4, 12), (2, 13), (3, 14), (5, 15)], [10, 11, 13, 14, 12, 15], id="out of turn"
        ),
        pytest.param([(0, 10), (1, 11), (2, 20), (3, 21)], [10, 11, 20, 21], id="a gap in the offsets"),
        pytest.param([(0, 10), (1, 11), (2, *LATE), (3, 12)], [10, 11, None, 12], id="a timeout between acks"),
        pytest.param(
            [(0, 10), (1, 11), (2, 12), (1, *LATE), (2, 13), (3, 13)], [10, 11, 12, 13, None], id="second answers"
        ),
        pytest.param(
            [(2, 20), (0, 18), (1, 19), (2, 20), (3, 21)], [18, 19, 20, 21, None], id="a second that would continue"
        ),
        pytest.param([(1, 10), (2, 11)], [None, 10, 11, None], id="none before and behind answered ones"),
        pytest.param([(7, 10), (0, 3)], [3], id="of a record that nobody handed over"),
        pytest.param([(0, 10), (1, 11, TIMED_OUT)], [10, None], id="an error with the next offset"),
    ],
)
def test_each_record_has_the_outcome_of_its_own_first_answer(
    sent: Sent, answers: list[tuple[Any, ...]], outcomes: list[int | None]
) -> None:
    sent.hand_over(len(outcomes))
    for answer in answers:
        sent.answer(*answer)
    assert sent.outcomes() == [("unknown" if offset is None else "acked", offset) for offset in outcomes]


def test_the_account_ends_once(sent: Sent) -> None:
    sent.hand_over(3)
    sent.answer(1, 10)
    sent.sends.abandon()
    assert sent.sends.outstanding_count == 0
    sent.sends.abandon()
    assert sent.sends.outstanding_count == 0


def test_a_refused_record_is_failed_and_the_next_burst_goes_on_after_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = make()
    payloads = sent.sends.payloads(0, 2_000)
    payloads[3] = b"x" * 50_000_000
    monkeypatch.setattr(sent.sends, "payloads", lambda first, count: payloads[first : first + count])
    assert not sent.sender.send_burst(10)
    assert sent.sender.number == 4
    assert sent.sender.send_burst(10)
    sent.await_answers()
    rows = sorted(sent.rows(), key=lambda row: row["value"])
    assert [row["value"] for row in rows] == [value_at(1, number) for number in range(14)]
    errors = [(row["status"], row["error"]) for row in rows]
    assert errors == [("acked", None)] * 3 + [("failed", "MESSAGE_TOO_LARGE")] + [("acked", None)] * 10


def test_each_record_without_an_ack_keeps_its_own_error(sent: Sent) -> None:
    sent.hand_over(4)
    sent.answer(0, 10)
    for sequence, code in ((1, KafkaError._MSG_TIMED_OUT), (2, KafkaError.NOT_ENOUGH_REPLICAS)):
        sent.answer(sequence, -1001, KafkaError(code))
    sent.answer(3, 11)
    own = [row for row in sent.rows() if row["partition"] == 0]
    assert [row["error"] for row in own] == [None, "_MSG_TIMED_OUT", "NOT_ENOUGH_REPLICAS", None]
    assert sent.sends._answers == sent.sends._errors == []


@pytest.mark.parametrize("order", [[0], [2], [0, 1, 2], [1, 0, 1, 1, 2]], ids=["one", "one key", "in turn", "by keys"])
def test_records_of_a_partition_are_counted_from_0_in_the_order_of_their_numbers(order: list[int]) -> None:
    counts: dict[int, int] = {}
    expected = []
    for number in range(40):
        partition = order[number % len(order)]
        expected.append((partition, counts.get(partition, 0)))
        counts[partition] = counts.get(partition, 0) + 1
    turns, numbers = SendTurns(order), np.arange(40)
    found = zip(turns.partitions(numbers).tolist(), turns.sequences(numbers).tolist(), strict=True)
    assert list(found) == expected
    assert turns.sequences(numbers[17:]).tolist() == [sequence for _, sequence in expected[17:]]
