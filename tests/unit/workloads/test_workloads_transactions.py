"""Transactions: what is asked of the client, when, and what each ending is concluded to be.

The client is a stand-in that the test drives; test_kafka_python_transactions.py holds it to kafka-python's own
transaction manager.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from checkout import ROOT
from client_configs import producer_config
from kafka import TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError, ProducerFencedError
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.producer.transaction_manager import (
    EndTxnHandler,
    ProducerIdAndEpoch,
    TransactionManager,
)

from ebbtide.errors import HarnessError
from ebbtide.journal.convert import convert_journals
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.record.clients import ClientEvent, read_client_events
from ebbtide.record.files import JOURNAL_DIR, RecordFolder
from ebbtide.waiting import wait_until
from workloads import transactions
from workloads.incarnations import KafkaPythonIncarnation
from workloads.process import StatusFile
from workloads.producer import AttemptWatch, RecordSender, Sends
from workloads.send_account import COUNTERS
from workloads.transactions import TXN_TABLE, Transactions

DOCUMENTATION = ROOT / "docs" / "clients.md"


class Producer:
    """Stands for a transactional KafkaProducer; every batch is one record, and is answered at once."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.asked: list[str] = []
        self.error: dict[str, Exception] = {}
        self.held: dict[str, threading.Event] = {}
        self.answer: Exception | None = None
        self._transaction_manager = SimpleNamespace(
            producer_id_and_epoch=ProducerIdAndEpoch(7, epoch), last_error=None, _enqueue_request=lambda _: None
        )
        self._sender = SimpleNamespace(_dispatch_error=lambda *_: None, _can_split=None, force_close=lambda: None)

    def moves_to(self, epoch: int) -> None:
        self._transaction_manager.producer_id_and_epoch = ProducerIdAndEpoch(7, epoch)

    def sends_commit(self, times: int) -> None:
        """The client writes its EndTxn so often."""
        for _ in range(times):
            manager = TransactionManager("id", 1_000)
            self._transaction_manager._enqueue_request(EndTxnHandler(manager, True))

    def init_transactions(self) -> None:
        self._ask("init")

    def begin_transaction(self) -> None:
        self._ask("begin")

    def commit_transaction(self) -> None:
        self._ask("commit")

    def abort_transaction(self) -> None:
        self._ask("abort")

    def close(self, timeout: float) -> None:
        self.asked.append("close")

    def send(self, _topic: str, _value: bytes, _key: None, _headers: None, partition: int) -> FutureRecordMetadata:
        result = FutureProduceResult(TopicPartition("t", partition))
        future = FutureRecordMetadata(result, 0, 0, None, -1, 0, -1)
        if self.answer is None:
            result.success((1_000 * self.epoch + len(self.asked), -1, None))
        else:
            error = self.answer
            result.success((-1, -1, lambda _: error))
        return future

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what in self.held:
            self.held[what].wait()
        if what in self.error:
            raise self.error[what]


class Run:
    """One transactional producer on a temporary record; `producers` are its incarnations, oldest first."""

    def __init__(self, record: Path, **settings: Any) -> None:
        (record / JOURNAL_DIR).mkdir()
        self._record = record
        journal = record / JOURNAL_DIR / "producer-1.journal"
        self.config = producer_config(
            journal=str(journal), partitions=2, transactional_id="ebbtide-1", **{"txn_records": 4, **settings}
        )
        status = StatusFile.create(record / "status", len(COUNTERS) * 2)
        header = JournalHeader(table="sends", id=1, topics=("t",), acks=-1)
        self.sends = Sends(JournalWriter(journal, header), status, 2, -1)
        self.sending = RecordSender(self.config, None, self.sends)
        self.producers: list[Producer] = []
        self.prepare: Callable[[Producer], None] = lambda _: None
        self.transactions = Transactions(self.config, self.sends, self._open, self._use)
        self.go(lambda: self.transactions.room() > 0)

    def go(self, until: Callable[[], bool], *, finish: bool = False) -> None:
        """Advance until it is so."""

        def has_reached() -> bool:
            self.sends.flush()
            self.transactions.advance(finish=finish)
            return until()

        wait_until(has_reached, awaited="the transactions", timeout_s=60)

    def fill(self, count: int = 4) -> int:
        """Hand over at most so many records to the transaction; how many went."""
        count = min(count, self.transactions.room())
        if not count or not self.transactions.begin():
            return 0
        before = self.sending.number
        whole = self.sending.send_burst(count)
        self.transactions.count_handed(self.sending.number - before, whole=whole)
        return count

    def run_transaction(self) -> None:
        """One transaction from its begin to whatever follows it."""
        self.fill()
        self.go(lambda: self.transactions.is_idle and self.transactions.room() > 0)

    def outcomes(self) -> list[tuple[str | None, str]]:
        """Outcome and reason of each transaction, after the producer's end."""
        self.transactions.abandon()
        self.sends.abandon()
        convert_journals(RecordFolder(self._record))
        return [(one.outcome, one.why.split()[0]) for one in self.events() if one.event == "transaction"]

    def events(self) -> list[ClientEvent]:
        return (read_client_events(RecordFolder(self._record)) or {})["producer-1"]

    def rows(self) -> list[tuple[int, str, int | None, str | None]]:
        """Value's number, status, transaction's number and outcome of each send."""
        rows = pq.read_table(RecordFolder(self._record).files("sends")[0]).to_pylist()
        first = 1 << 40
        found = [
            (row["value"] - first, row["status"], row["txn"] and row["txn"] - first, row["txn_outcome"]) for row in rows
        ]
        return sorted(found)

    def _open(self) -> KafkaPythonIncarnation:
        producer = Producer(len(self.producers))
        self.prepare(producer)
        self.producers.append(producer)
        return KafkaPythonIncarnation(producer)

    def _use(self, incarnation: KafkaPythonIncarnation) -> None:
        self.sends.watch(AttemptWatch(incarnation.producer))
        self.sending.producer = incarnation.producer


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_a_transaction_whose_records_are_all_acked_is_committed(run: Run) -> None:
    run.run_transaction()
    assert run.producers[0].asked == ["init", "begin", "commit"]
    assert run.outcomes() == [("committed", "COMMITTED")]
    assert run.rows() == [(number, "acked", 1, "committed") for number in range(4)]


def test_the_second_transaction_begins_where_the_first_ended_on_every_partition(run: Run) -> None:
    run.run_transaction()
    run.run_transaction()
    run.outcomes()
    assert [row[2] for row in run.rows()] == [1] * 4 + [2] * 4


def test_a_commit_is_not_asked_for_before_every_record_has_its_answer(run: Run) -> None:
    held: list[FutureProduceResult] = []
    send = run.producers[0].send

    def hold_send(*arguments: Any) -> FutureRecordMetadata:
        future = send(*arguments)
        waiting = FutureProduceResult(TopicPartition("t", arguments[-1]))
        held.append(waiting)
        return FutureRecordMetadata(waiting, 0, 0, None, -1, len(arguments[1]), future.args[0])

    run.producers[0].send = hold_send  # type: ignore[method-assign,assignment]
    run.fill()
    for _ in range(20):
        run.sends.flush()
        run.transactions.advance(finish=False)
    assert "commit" not in run.producers[0].asked
    for at, result in enumerate(held):
        result.success((at, -1, None))
    run.go(lambda: run.transactions.is_idle)
    assert run.producers[0].asked[-1] == "commit"


def test_every_nth_is_aborted_on_purpose(tmp_path: Path) -> None:
    run = Run(tmp_path, abort_every=2)
    for _ in range(4):
        run.run_transaction()
    assert [outcome for outcome, _ in run.outcomes()] == ["committed", "aborted", "committed", "aborted"]
    assert len(run.producers) == 1


def test_a_record_that_is_not_acked_ends_the_incarnation_and_its_transaction_uncommitted(run: Run) -> None:
    run.producers[0].answer = KafkaTimeoutError("late")
    run.run_transaction()
    assert "commit" not in run.producers[0].asked
    assert len(run.producers) == 2
    assert run.outcomes() == [("aborted", "REPLACED")]
    assert {row[1:] for row in run.rows()} == {("unknown", 1, "aborted")}


def test_until_the_next_incarnation_has_started_a_broken_transaction_is_unknown(run: Run) -> None:
    def never_starts(producer: Producer) -> None:
        producer.error["init"] = KafkaTimeoutError("no coordinator")

    run.prepare = never_starts
    run.producers[0].answer = KafkaTimeoutError("late")
    run.fill()
    run.go(lambda: len(run.producers) > 1)
    assert run.outcomes() == [("unknown", "UNRESOLVED")]


def test_a_producer_may_abort_what_was_not_acked_itself_and_go_on(tmp_path: Path) -> None:
    run = Run(tmp_path, abort_unacked=True)
    run.producers[0].answer = KafkaTimeoutError("too late")
    run.run_transaction()
    run.producers[0].answer = None
    run.run_transaction()
    assert len(run.producers) == 1
    assert run.producers[0].asked == ["init", "begin", "abort", "begin", "commit"]
    assert run.outcomes() == [("aborted", "ABORTED"), ("committed", "COMMITTED")]


def test_a_commit_that_was_asked_for_and_failed_is_unknown(run: Run) -> None:
    run.producers[0].error["commit"] = KafkaError("the connection broke")
    run.run_transaction()
    assert len(run.producers) == 2
    assert run.outcomes() == [("unknown", "IN_DOUBT")]


@pytest.mark.parametrize(
    ("asked", "settings", "end"),
    [
        ("commit", {}, ("unknown", "IN_DOUBT")),
        ("abort", {"abort_every": 1}, ("aborted", "REPLACED")),
        ("commit", {"fence_every": 1}, ("aborted", "FENCED")),
    ],
)
def test_a_coordinator_that_does_not_answer_is_not_waited_for_without_end(
    asked: str, settings: Any, end: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_ANSWER_S", 0.1)
    run = Run(tmp_path, **settings)
    old = run.producers[0]
    answered = old.held[asked] = threading.Event()
    on_purpose = "fence_every" in settings
    run.fill()
    if on_purpose:
        run.go(lambda: run.transactions.room() == 2)
        run.fill()
    else:
        # The next one's start fences what the old one still asks for, which nobody asked it to show.
        run.prepare = lambda _: setattr(old._transaction_manager, "last_error", ProducerFencedError())
    run.go(lambda: run.transactions.is_idle and run.transactions.room() > 0)
    assert len(run.producers) == 2
    answered.set()
    old.moves_to(9)
    assert run.fill() > 0
    assert run.outcomes() == [end, ("unknown", "UNRESOLVED")]
    assert [one.event for one in run.events()] == ["transaction", "fenced" if on_purpose else "replaced", "transaction"]


@pytest.mark.parametrize(
    ("times", "end"), [(1, ("aborted", "REFUSED")), (2, ("unknown", "IN_DOUBT"))], ids=["once", "sent again"]
)
def test_a_commit_refused_as_fenced_is_aborted_only_if_it_was_sent_once(run: Run, times: int, end: Any) -> None:
    fenced = ProducerFencedError()
    producer = run.producers[0]
    producer.error["commit"] = fenced
    producer._transaction_manager.last_error = fenced
    run.fill()
    producer.sends_commit(times)
    run.go(lambda: run.transactions.is_idle and run.transactions.room() > 0)
    assert run.outcomes() == [end]
    assert run.events()[1].event == "fenced"


def test_a_commit_that_returns_although_the_producer_epoch_moved_is_unknown(run: Run) -> None:
    run.fill()
    run.producers[0].moves_to(5)
    run.go(lambda: run.transactions.is_idle and len(run.producers) == 2)
    assert run.outcomes() == [("unknown", "EPOCH_MOVED")]


def test_a_fenced_incarnation_goes_on_to_its_commit_and_is_refused(tmp_path: Path) -> None:
    run = Run(tmp_path, fence_every=2)
    run.run_transaction()
    assert run.fill() == 2
    run.go(lambda: run.transactions.room() == 2)
    assert len(run.producers) == 2
    run.producers[0].answer = ProducerFencedError()
    run.producers[0].error["commit"] = ProducerFencedError()
    run.fill()
    run.go(lambda: run.transactions.is_idle and run.transactions.room() > 0)
    run.run_transaction()
    assert run.outcomes() == [("committed", "COMMITTED"), ("aborted", "FENCED"), ("committed", "COMMITTED")]
    assert [one.event for one in run.events()] == ["transaction", "transaction", "fenced", "transaction"]
    assert run.producers[1].asked == ["init", "begin", "commit"]


def test_a_stop_ends_the_open_transaction_with_the_records_that_it_has(run: Run) -> None:
    run.fill(1)
    run.go(lambda: run.transactions.is_idle, finish=True)
    assert run.outcomes() == [("committed", "COMMITTED")]


def test_a_client_that_refuses_a_record_ends_its_incarnation(run: Run) -> None:
    def refuse(*_: Any) -> Any:
        raise KafkaError("Cannot perform send")

    run.producers[0].send = refuse  # type: ignore[method-assign,assignment]
    run.run_transaction()
    assert run.outcomes() == [("aborted", "REPLACED")]


def test_a_transaction_without_an_end_is_unknown_after_a_kill(run: Run) -> None:
    run.fill(2)
    run.sends.flush()
    convert_journals(RecordFolder(run._record))
    assert {row[2:] for row in run.rows()} == {(1, "unknown")}


class Unwatchable(Run):
    """A producer that cannot even be made."""

    def _open(self) -> KafkaPythonIncarnation:
        raise HarnessError("this kafka-python cannot be watched")


def test_an_error_of_the_harness_at_the_first_start_ends_the_producer(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="cannot be watched"):
        Unwatchable(tmp_path)


def test_the_documentation_shows_the_table() -> None:
    lines = ["| end | outcome | why |", "|---|---|---|"]
    lines += [f"| {row.name} | {row.outcome} | {row.why} |" for row in TXN_TABLE]
    assert "\n".join(lines) in DOCUMENTATION.read_text()
    assert {row.outcome for row in TXN_TABLE} == {"committed", "aborted", "unknown"}


def test_starting_again_is_not_tried_at_full_speed(run: Run) -> None:
    def never_starts(producer: Producer) -> None:
        producer.error["init"] = KafkaTimeoutError("no coordinator")

    run.prepare = never_starts
    run.producers[0].answer = KafkaTimeoutError("late")
    run.fill()
    began = time.monotonic()
    run.go(lambda: len(run.producers) == 3)
    assert time.monotonic() - began > 0.15
