"""The transactions of one producer, one after the other, each with an outcome that can be relied on.

kafka-python's transactional producer alone would not give that (3.0.12, `transaction_manager.py`, `sender.py`):

- `commit_transaction` returns success although nothing was committed, when a batch that is sent meanwhile makes
  the client bump its producer epoch: the end of a transaction that "has not started" counts as done;
- a batch whose delivery timeout passes does not fail its transaction, which then commits without it; and an abort
  after that keeps the producer epoch, so that a late batch may still land in the next transaction (KAFKA-14402);
- a request of the coordinator's that times out is fatal, and the call that waits for it has no timeout.

So a commit is asked for only when every record of the transaction has been acked, with nothing under way. After
anything else, and when an answer does not come, the producer is not used again: a new one with the same transactional
id takes over, whose start ends what was open and raises the epoch. Calls that wait run on a thread of their own.
`txn_outcomes` says what is concluded.

In a transaction that is to be *fenced*, a successor is started when half of the records are handed over; the first
incarnation sends the other half and asks for the commit as if nothing had happened.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from kafka import KafkaProducer
from kafka.errors import InvalidProducerEpochError, KafkaError, KafkaTimeoutError, ProducerFencedError
from kafka.producer.transaction_manager import EndTxnHandler

from ebbtide.errors import HarnessError
from ebbtide.journal.payload import value_at
from ebbtide.record.clients import ClientEvent, Event
from ebbtide.waiting import WaitExpired, pause
from workloads.attempts import AttemptWatch
from workloads.config import ProducerConfig
from workloads.sends import Sends
from workloads.txn_outcomes import (
    ABORTED,
    COMMITTED,
    EPOCH_MOVED,
    FENCED,
    IN_DOUBT,
    REFUSED,
    REPLACED,
    UNRESOLVED,
    TxnRow,
)

_AGAIN_S = 0.2
"""Between two attempts to start an incarnation."""
_ANSWER_S = 20.0
"""For the answer to a commit or an abort: longer than the coordinator takes to move, a session and the loading."""

_FENCINGS = (ProducerFencedError, InvalidProducerEpochError)


class Call:
    """A call that may wait long, on a thread of its own; `error` is what it raised, once it is `done`.

    One that has not come back after `answer_s` counts as done, with an error.
    """

    def __init__(self, what: Callable[[], object], answer_s: float = math.inf) -> None:
        self.error: BaseException | None = None
        self._answer_s = answer_s
        self._until = time.monotonic() + answer_s
        self._thread = threading.Thread(target=self._run, args=(what,), daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether it has returned or raised, or is not waited for any more."""
        if not self._thread.is_alive():
            return True
        if time.monotonic() < self._until:
            return False
        self.error = KafkaTimeoutError(f"no answer in {self._answer_s:.0f} s")
        return True

    def _run(self, what: Callable[[], object]) -> None:
        try:
            what()
        except Exception as error:
            self.error = error


class Incarnation:
    """One KafkaProducer with the transactional id, and what of it a later one must know."""

    def __init__(self, producer: KafkaProducer) -> None:
        self.producer = producer
        self._manager = producer._transaction_manager
        self.commits_sent = 0
        enqueue = self._manager._enqueue_request

        def counted(handler: Any) -> None:
            self.commits_sent += isinstance(handler, EndTxnHandler) and handler.request.committed
            enqueue(handler)

        self._manager._enqueue_request = counted

    @property
    def epoch(self) -> tuple[int, int]:
        """Producer id and epoch."""
        now = self._manager.producer_id_and_epoch
        return now.producer_id, now.epoch

    @property
    def fenced(self) -> bool:
        """Whether Kafka told it that a newer one is there."""
        return isinstance(self._manager.last_error, _FENCINGS)

    @property
    def last_error(self) -> str:
        """What put it out of use, in the client's words; empty for nothing."""
        return str(self._manager.last_error or "")

    def discard(self) -> None:
        """End it without waiting for anybody."""
        with contextlib.suppress(KafkaError):
            self.producer.close(timeout=0)
        self.producer._sender.force_close()


class _Phase(Enum):
    STARTING = auto()
    IDLE = auto()
    OPEN = auto()
    FENCING = auto()
    AWAITING = auto()
    COMMITTING = auto()
    ABORTING = auto()


class Transactions:
    """Begins, fills and ends transactions; the producer's one thread calls `room`, `handed` and `advance`.

    `open_` makes a KafkaProducer with the transactional id, `use` is told of each that is to send from now on.
    """

    def __init__(
        self,
        config: ProducerConfig,
        sends: Sends,
        open_: Callable[[], KafkaProducer],
        use: Callable[[KafkaProducer], None],
    ) -> None:
        self._config = config
        self._sends = sends
        self._open = open_
        self._use = use
        self._number = 0
        self._records = 0
        self._acked_before = 0
        self._epoch = (-1, -1)
        self._incarnation: Incarnation | None = None
        self._successor: Incarnation | None = None
        self._after: tuple[TxnRow, str] | None = None
        self._fenced = False
        self._state = _Phase.STARTING
        self._call = Call(self._start_successor)

    @property
    def idle(self) -> bool:
        """Whether no transaction is open."""
        return self._state is _Phase.IDLE or (self._state is _Phase.STARTING and self._after is None)

    def room(self) -> int:
        """How many records may be handed over now; more than 0 only while a transaction can take some."""
        if self._state is _Phase.IDLE:
            return self._until_fencing()
        return self._until_fencing() - self._records if self._state is _Phase.OPEN else 0

    def begin(self) -> bool:
        """Begin a transaction unless one is open; False when the client refuses, and nothing may be sent."""
        if self._state is not _Phase.IDLE:
            return self._state is _Phase.OPEN
        assert self._incarnation is not None
        try:
            self._incarnation.producer.begin_transaction()
        except KafkaError as error:
            self._replace(None, str(error))
            return False
        self._number += 1
        self._records = 0
        self._acked_before = self._sends.acked
        self._epoch = self._incarnation.epoch
        self._sends.begin_txn(self._txn)
        self._state = _Phase.OPEN
        return True

    def handed(self, count: int, *, whole: bool) -> None:
        """So many records went into the open transaction; not `whole`: the client refused one of them."""
        self._records += count
        if not whole:
            self._state = _Phase.AWAITING

    def advance(self, *, finish: bool) -> None:
        """Go on as far as is possible without waiting; `finish`: no more records will come."""
        match self._state:
            case _Phase.STARTING if self._call.done:
                self._started(self._call.error)
            case _Phase.OPEN if self._to_fence and self._successor is None and self._records >= self._until_fencing():
                self._state = _Phase.FENCING
                self._call = Call(self._start_successor)
            case _Phase.OPEN if finish or self._records >= self._config.txn_records:
                self._state = _Phase.AWAITING
            case _Phase.FENCING if self._call.done:
                # Without a successor the transaction goes on as any other.
                self._state = _Phase.OPEN if self._call.error is None else _Phase.AWAITING
            case _Phase.AWAITING if not self._sends.outstanding:
                self._end()
            case _Phase.COMMITTING if self._call.done:
                self._committed(self._call.error)
            case _Phase.ABORTING if self._call.done:
                if self._call.error is None:
                    self._ended(ABORTED, "")
                else:
                    self._replace(REPLACED, f"abort: {self._call.error}")

    def abandon(self) -> None:
        """The producer's life ends here."""
        if self._after is not None:
            self._tell(UNRESOLVED, self._after[1])
        elif not self.idle:
            self._tell(UNRESOLVED, f"while {self._state.name.lower()}")

    @property
    def _txn(self) -> int:
        return value_at(self._config.id, self._number)

    @property
    def _to_fence(self) -> bool:
        return _each(self._config.fence_every, self._next)

    @property
    def _next(self) -> int:
        return self._number + (self._state is _Phase.IDLE)

    def _until_fencing(self) -> int:
        whole = self._config.txn_records
        return max(1, whole // 2) if self._to_fence and self._successor is None else whole

    def _start_successor(self) -> None:
        """Open a producer and start its transactions. Raises `KafkaError`; on another thread."""
        one = Incarnation(self._open())
        try:
            one.producer.init_transactions()
        except KafkaError:
            one.discard()
            pause(_AGAIN_S)
            raise
        self._successor = one

    def _started(self, error: BaseException | None) -> None:
        if isinstance(error, HarnessError) and self._incarnation is None and not isinstance(error, WaitExpired):
            raise error
        if error is not None:
            self._call = Call(self._start_successor)
            return
        if self._after is not None:
            row, why = self._after
            self._after = None
            self._tell(row, why)
        self._take_over()

    def _take_over(self) -> None:
        old, self._incarnation, self._successor = self._incarnation, self._successor, None
        assert self._incarnation is not None
        if old is not None:
            event: Event = "fenced" if self._fenced else "replaced"
            self._sends.tell(ClientEvent(event=event, at_ns=time.time_ns(), txn=self._txn, why=old.last_error))
            Call(old.discard)
            self._fenced = False
        self._sends.watch(AttemptWatch(self._incarnation.producer))
        self._use(self._incarnation.producer)
        self._state = _Phase.IDLE

    def _end(self) -> None:
        """Every record of the transaction has its answer."""
        assert self._incarnation is not None
        producer = self._incarnation.producer
        whole = self._sends.acked - self._acked_before == self._records
        if self._successor is not None or (whole and not _each(self._config.abort_every, self._number)):
            self._state = _Phase.COMMITTING
            self._call = Call(producer.commit_transaction, _ANSWER_S)
        elif whole:
            self._state = _Phase.ABORTING
            self._call = Call(producer.abort_transaction, _ANSWER_S)
        else:
            self._replace(REPLACED, "not every record was acked")

    def _committed(self, error: BaseException | None) -> None:
        assert self._incarnation is not None
        if error is None and self._incarnation.epoch == self._epoch:
            self._ended(COMMITTED, "")
        elif error is None:
            self._replace(EPOCH_MOVED, "commit returned")
        elif self._successor is not None:
            self._ended(FENCED, f"commit: {error}")
        elif self._incarnation.fenced and self._incarnation.commits_sent == 1:
            self._replace(REFUSED, f"commit: {error}")
        else:
            self._replace(IN_DOUBT, f"commit: {error}")

    def _ended(self, row: TxnRow, why: str) -> None:
        self._tell(row, why)
        if self._successor is not None:
            self._fenced = row is FENCED
            self._take_over()
            return
        assert self._incarnation is not None
        self._incarnation.commits_sent = 0
        self._state = _Phase.IDLE

    def _replace(self, row: TxnRow | None, why: str) -> None:
        """Let a new incarnation take over; `row` holds once it has started. None: no transaction was open."""
        self._after = None if row is None else (row, why)
        # Told now: what goes on in the old one may still be fenced by the start of the next, which shows nothing.
        self._fenced = row is REFUSED or (self._incarnation is not None and self._incarnation.fenced)
        if self._successor is not None:
            self._started(None)
            return
        self._state = _Phase.STARTING
        self._call = Call(self._start_successor)

    def _tell(self, row: TxnRow, why: str) -> None:
        self._sends.end_txn(self._txn, row.outcome)
        event = ClientEvent(
            event="transaction",
            at_ns=time.time_ns(),
            txn=self._txn,
            outcome=row.outcome,
            records=self._records,
            why=f"{row.name} {why}".strip(),
        )
        self._sends.tell(event)


def _each(every: int | None, number: int) -> bool:
    """Whether it is the turn of `number`, counted from 1."""
    return every is not None and number % every == 0
