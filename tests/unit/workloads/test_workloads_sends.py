"""The account of one producer, with kafka-python's own futures and a sender that the test drives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from client_configs import producer_config
from kafka import TopicPartition
from kafka.errors import (
    IllegalStateError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NotEnoughReplicasError,
    RequestTimedOutError,
)
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.producer.sender import Sender

from ebbtide.errors import HarnessError
from ebbtide.journal.convert import JOURNAL_DIR, convert_journals
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.record.files import RecordFolder
from workloads import producer
from workloads.config import Endpoints
from workloads.process import StatusFile
from workloads.producer import AttemptWatch, RecordSender, Sends
from workloads.send_account import COUNTERS


class Batch:
    """What AttemptWatch reads of a ProducerBatch."""

    def __init__(self) -> None:
        self.produce_future = FutureProduceResult(TopicPartition("t", 0))
        self.drained: float | None = None
        self.final_state: int | None = None
        self.size = 0


class Client:
    """Stands for a KafkaProducer: `send` appends to the newest batch, the test answers batches."""

    def __init__(self) -> None:
        self.batches = [Batch()]
        self.refuse: Exception | None = None
        self.known: set[int] = set()
        self._clock = 0.0
        self._sender = SimpleNamespace(_dispatch_error=lambda *_: None, _can_split=lambda *_: True)

    def send(self, _topic: str, _value: bytes, _key: None, _headers: None, _partition: int) -> FutureRecordMetadata:
        if self.refuse is not None:
            raise self.refuse
        batch = self.batches[-1]
        batch.size += 1
        return FutureRecordMetadata(batch.produce_future, batch.size - 1, 0, None, -1, 0, -1)

    def partitions_for(self, _topic: str) -> set[int]:
        return self.known

    def roll(self) -> None:
        """The next record begins a batch."""
        self.batches.append(Batch())

    def attempt(self, batch: Batch, error: Exception) -> None:
        """The batch is sent, and the attempt ends in `error`."""
        self._clock += 1
        batch.drained = self._clock
        self._sender._dispatch_error(batch, error, None)

    def expire(self, batch: Batch) -> None:
        """The delivery timeout passes."""
        self._sender._dispatch_error(batch, KafkaTimeoutError("expired"), None)

    def acknowledge(self, batch: Batch, base_offset: int) -> None:
        """The broker said yes."""
        batch.produce_future.success((base_offset, -1, None))

    def give_up(self, batch: Batch, error: Exception) -> None:
        """The client reports its last error."""
        batch.produce_future.success((-1, -1, lambda _: error))


class Account:
    """A producer's account on a temporary record."""

    def __init__(self, record: Path, acks: int = -1, partitions: int = 1, **limits: Any) -> None:
        (record / JOURNAL_DIR).mkdir()
        self._record = record
        journal = record / JOURNAL_DIR / "producer-1.journal"
        config = producer_config(
            endpoints=Endpoints(status=str(record / "status"), stop=""),
            journal=str(journal),
            partitions=partitions,
            acks=acks,
            **limits,
        )
        self.status = StatusFile.create(record / "status", len(COUNTERS) * partitions)
        header = JournalHeader(table="sends", id=1, topics=("t",), acks=acks)
        self.sends = Sends(JournalWriter(journal, header), self.status, partitions, acks)
        self.client = Client()
        self.sends.watch(AttemptWatch(self.client))
        self.sending = RecordSender(config, self.client, self.sends)

    def rows(self) -> list[tuple[int, str, int | None, str | None]]:
        """sequence, status, offset and error of each row, after the producer's end."""
        self.sends.abandon()
        convert_journals(RecordFolder(self._record))
        table = pq.read_table(self._record / "sends")
        return [(row["sequence"], row["status"], row["offset"], row["error"]) for row in table.to_pylist()]

    def counts(self) -> dict[str, int]:
        """The status file's counters of partition 0."""
        return {name: self.status.get(slot) for slot, name in enumerate(COUNTERS)}


@pytest.fixture
def account(tmp_path: Path) -> Account:
    """One partition, acks=all."""
    return Account(tmp_path)


def test_records_of_a_batch_get_consecutive_offsets(account: Account) -> None:
    account.sending.send_burst(3)
    account.client.acknowledge(account.client.batches[0], 70)
    assert account.rows() == [(0, "acked", 70, None), (1, "acked", 71, None), (2, "acked", 72, None)]


def test_an_answer_covers_its_batch_and_not_the_next(account: Account) -> None:
    account.sending.send_burst(2)
    account.client.roll()
    account.sending.send_burst(2)
    account.client.acknowledge(account.client.batches[1], 9)
    assert account.rows() == [
        (0, "unknown", None, "UNRESOLVED"),
        (1, "unknown", None, "UNRESOLVED"),
        (2, "acked", 9, None),
        (3, "acked", 10, None),
    ]


def test_an_answer_that_comes_before_the_next_send_ends_the_run(account: Account) -> None:
    account.sending.send_burst(1)
    account.client.acknowledge(account.client.batches[0], 5)
    account.sends.flush()
    account.client.roll()
    account.sending.send_burst(1)
    account.client.acknowledge(account.client.batches[1], 6)
    assert account.rows() == [(0, "acked", 5, None), (1, "acked", 6, None)]


def test_counters_show_only_what_is_in_the_journal(account: Account) -> None:
    account.sending.send_burst(2)
    account.client.acknowledge(account.client.batches[0], 0)
    assert account.counts() == {"handed": 0, "acked": 0, "failed": 0, "unknown": 0}
    account.sends.flush()
    assert account.counts() == {"handed": 2, "acked": 2, "failed": 0, "unknown": 0}
    assert account.sends.outstanding_count == 0


def test_with_acks_0_acked_has_no_offset(tmp_path: Path) -> None:
    account = Account(tmp_path, acks=0)
    account.sending.send_burst(1)
    account.client.acknowledge(account.client.batches[0], -1)
    assert account.rows() == [(0, "acked", None, None)]


def test_a_yes_without_an_offset_is_unknown(account: Account) -> None:
    account.sending.send_burst(1)
    account.client.acknowledge(account.client.batches[0], -1)
    assert account.rows() == [(0, "unknown", None, "DUPLICATE_SEQUENCE_NUMBER")]


Story = Callable[[Client, Batch], Exception]


def _refused_twice(client: Client, batch: Batch) -> Exception:
    client.attempt(batch, NotEnoughReplicasError())
    client.attempt(batch, NotEnoughReplicasError())
    return NotEnoughReplicasError()


def _refused_after_a_timeout(client: Client, batch: Batch) -> Exception:
    client.attempt(batch, RequestTimedOutError())
    client.attempt(batch, NotEnoughReplicasError())
    return NotEnoughReplicasError()


def _refused_after_a_disconnect(client: Client, batch: Batch) -> Exception:
    client.attempt(batch, KafkaConnectionError())
    client.attempt(batch, NotEnoughReplicasError())
    return NotEnoughReplicasError()


def _never_sent(client: Client, batch: Batch) -> Exception:
    client.expire(batch)
    return KafkaTimeoutError("expired")


def _refused_then_expired_in_the_buffer(client: Client, batch: Batch) -> Exception:
    client.attempt(batch, NotEnoughReplicasError())
    client.expire(batch)
    return KafkaTimeoutError("expired")


def _expired_in_flight(client: Client, batch: Batch) -> Exception:
    batch.drained = 1.0
    client.expire(batch)
    return KafkaTimeoutError("expired")


def _timed_out_then_expired_in_the_buffer(client: Client, batch: Batch) -> Exception:
    client.attempt(batch, RequestTimedOutError())
    client.expire(batch)
    return KafkaTimeoutError("expired")


def _abort_error(_client: Client, _batch: Batch) -> Exception:
    return IllegalStateError("closed forcefully")


@pytest.mark.parametrize(
    ("story", "status", "error"),
    [
        (_refused_twice, "failed", "NOT_ENOUGH_REPLICAS"),
        (_refused_after_a_timeout, "unknown", "NOT_ENOUGH_REPLICAS"),
        (_refused_after_a_disconnect, "unknown", "NOT_ENOUGH_REPLICAS"),
        (_never_sent, "failed", "EXPIRED_UNSENT"),
        (_refused_then_expired_in_the_buffer, "failed", "EXPIRED_UNSENT"),
        (_expired_in_flight, "unknown", "KafkaTimeoutError"),
        (_timed_out_then_expired_in_the_buffer, "unknown", "KafkaTimeoutError"),
        (_abort_error, "unknown", "IllegalStateError"),
    ],
)
def test_all_attempts_together_decide(account: Account, story: Story, status: str, error: str) -> None:
    account.sending.send_burst(1)
    batch = account.client.batches[0]
    account.client.give_up(batch, story(account.client, batch))
    assert account.rows() == [(0, status, None, error)]


def test_a_record_that_send_refuses_keeps_its_row_and_the_others_their_offsets(account: Account) -> None:
    account.sending.send_burst(1)
    account.client.refuse = KafkaTimeoutError("no metadata")
    assert not account.sending.send_burst(3)
    account.client.refuse = None
    assert account.sending.send_burst(1)
    account.client.acknowledge(account.client.batches[0], 30)
    assert account.rows() == [
        (0, "acked", 30, None),
        (1, "unknown", None, "KafkaTimeoutError"),
        (2, "acked", 31, None),
    ]


def test_no_more_than_the_limit_is_outstanding(tmp_path: Path) -> None:
    account = Account(tmp_path, max_outstanding=150)
    handed = 0
    for _ in range(5):
        handed += account.sending.due_records()
        account.sending.send_burst(account.sending.due_records())
    assert handed == 150
    account.client.acknowledge(account.client.batches[0], 0)
    account.sends.flush()
    assert account.sending.due_records() == 100


def test_count_counts_hand_overs(tmp_path: Path) -> None:
    account = Account(tmp_path, count=120)
    account.sending.send_burst(account.sending.due_records())
    account.client.refuse = KafkaTimeoutError("no metadata")
    account.sending.send_burst(account.sending.due_records())
    assert account.sending.due_records() == 19
    account.client.refuse = None
    account.sending.send_burst(19)
    assert account.sending.is_exhausted


def test_a_client_that_is_built_differently_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sender, "_dispatch_error", lambda self, batch: None)
    with pytest.raises(HarnessError, match="cannot be watched"):
        AttemptWatch(Client())


def handed(account: Account) -> list[int]:
    """How many records went to each partition."""
    account.sends.flush()
    return [lane.counts["handed"] for lane in account.sends.lanes]


def test_a_producer_writes_to_added_partitions_once_its_client_knows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "_LOOK_S", 0.0)
    account = Account(tmp_path, partitions=3, first_partitions=1)
    account.client.known = {0}
    account.sending.send_burst(6)
    assert handed(account) == [6, 0, 0]
    account.client.known = {0, 1, 2}
    account.sending.send_burst(6)
    assert handed(account) == [8, 2, 2]


def test_a_producer_never_writes_to_more_partitions_than_the_scenario_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "_LOOK_S", 0.0)
    account = Account(tmp_path, partitions=2, first_partitions=1)
    account.client.known = {0, 1, 2, 3}
    account.sending.send_burst(4)
    assert handed(account) == [2, 2]
