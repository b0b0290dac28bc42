"""The transactions of one producer, in sequence, each with a reliable outcome.

The same decisions serve every client library (`workloads.incarnations`). kafka-python's transactional producer alone
does not give a reliable outcome (3.0.12, `transaction_manager.py`, `sender.py`):

- `commit_transaction` returns success although nothing was committed, when a batch that is sent meanwhile makes the
  client bump its producer epoch: the end of a transaction that "has not started" counts as done.
- A batch whose delivery timeout passes does not fail its transaction, which then commits without it. An abort after
  that keeps the producer epoch, so that a late batch may still land in the next transaction (KAFKA-14402).
- A request to the coordinator that times out is fatal, and the call that waits for it has no timeout.

A commit is therefore requested only when every record of the transaction has been acked, with nothing in flight.
After anything else, and when an answer does not come, the producer is not used again. A new one with the same
transactional id takes over; its start aborts what was open and raises the epoch. Calls that wait run on a thread of
their own. The first table below has the conclusions.

With `abort_unacked` a transaction of which a record was not acked is aborted by the same producer, as applications do.
Its epoch stays, so that KAFKA-14402 can show.

In a transaction that is to be *fenced*, a successor is started when half of the records are handed over. The first
incarnation sends the other half and requests the commit as if nothing had happened.

The table of how a transaction ended, from the producer's requests and answers.

*Committed*: the coordinator said so. *Aborted*: it certainly will never be committed. *Unknown*: everything else.
Only the producer itself can request a commit. A transaction whose commit was never requested can therefore only end
aborted; one whose commit was requested and not answered may have ended either way.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Generic, TypeVar

import msgspec
from kafka.errors import KafkaError, KafkaTimeoutError

from ebbtide import run_clock
from ebbtide.errors import HarnessError
from ebbtide.record.clients import ClientEvent, Event, TxnOutcome
from ebbtide.waiting import WaitExpired, pause
from workloads.config import ProducerConfig
from workloads.incarnations import Incarnation
from workloads.send_account import SendAccount


class TxnRow(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a transaction ends."""

    name: str
    outcome: TxnOutcome
    why: str


COMMITTED = TxnRow(
    name="COMMITTED", outcome="committed", why="Every record was acked and the coordinator confirmed the commit."
)
ABORTED = TxnRow(name="ABORTED", outcome="aborted", why="The coordinator confirmed the abort that was asked for.")
FENCED = TxnRow(
    name="FENCED",
    outcome="aborted",
    why="Before the commit was asked for, the start of a newer incarnation was confirmed, which aborts what is open.",
)
REFUSED = TxnRow(
    name="REFUSED",
    outcome="aborted",
    why="The commit was sent once, and the coordinator refused it as that of an older producer epoch.",
)
REPLACED = TxnRow(
    name="REPLACED",
    outcome="aborted",
    why="No commit was asked for, and the start of the next incarnation was confirmed, which aborts what is open.",
)
IN_DOUBT = TxnRow(
    name="IN_DOUBT", outcome="unknown", why="The commit was asked for and not confirmed: it may have been decided."
)
EPOCH_MOVED = TxnRow(
    name="EPOCH_MOVED",
    outcome="unknown",
    why="The client reports a commit, but its producer epoch moved meanwhile: it may have asked for nothing.",
)
UNRESOLVED = TxnRow(
    name="UNRESOLVED", outcome="unknown", why="The producer stopped, or was killed, before the transaction's end."
)

TXN_TABLE = (COMMITTED, ABORTED, FENCED, REFUSED, REPLACED, IN_DOUBT, EPOCH_MOVED, UNRESOLVED)
"""Every row, in the order of the documentation."""


_AGAIN_S = 0.2
"""Seconds between two attempts to start an incarnation."""
_ANSWER_S = 20.0
"""For the answer to a commit or an abort: longer than a move of the coordinator, a session and the loading."""


class Call:
    """A call that may wait long, on a thread of its own.

    `error` is what it raised, once `is_done`. A call that has not returned after `answer_s` counts as done, with an
    error.
    """

    def __init__(self, what: Callable[[], object], answer_s: float = math.inf) -> None:
        self.error: BaseException | None = None
        self._answer_s = answer_s
        self._until = time.monotonic() + answer_s
        self._thread = threading.Thread(target=self._run, args=(what,), daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether the call has returned, raised, or timed out."""
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


OneIncarnation = TypeVar("OneIncarnation", bound=Incarnation)


class _Phase(Enum):
    STARTING = auto()
    IDLE = auto()
    OPEN = auto()
    FENCING = auto()
    AWAITING = auto()
    COMMITTING = auto()
    ABORTING = auto()


class Transactions(Generic[OneIncarnation]):
    """Begins, fills and ends transactions.

    The producer's one thread calls `room`, `count_handed` and `advance`. `open_` makes a client with the transactional
    id; `use` is called with each incarnation that sends from now on.
    """

    def __init__(
        self,
        config: ProducerConfig,
        sends: SendAccount[Any],
        open_: Callable[[], OneIncarnation],
        use: Callable[[OneIncarnation], None],
    ) -> None:
        self._config = config
        self._sends = sends
        self._open = open_
        self._use = use
        self._number = 0
        self._records = 0
        self._acked_before = 0
        self._epoch = (-1, -1)
        self._incarnation: OneIncarnation | None = None
        self._successor: OneIncarnation | None = None
        self._after: tuple[TxnRow, str] | None = None
        self._fenced = False
        self._state = _Phase.STARTING
        self._call = Call(self._start_successor)

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open."""
        return self._state is _Phase.IDLE or (self._state is _Phase.STARTING and self._after is None)

    def room(self) -> int:
        """Return how many records may be handed over now; 0 if no transaction accepts any."""
        if self._state is _Phase.IDLE:
            return self._records_before_fencing()
        return self._records_before_fencing() - self._records if self._state is _Phase.OPEN else 0

    def begin(self) -> bool:
        """Begin a transaction unless one is open.

        False when the client refuses, so that nothing may be sent.
        """
        if self._state is not _Phase.IDLE:
            return self._state is _Phase.OPEN
        assert self._incarnation is not None
        try:
            self._incarnation.begin_transaction()
        except KafkaError as error:
            self._replace(None, str(error))
            return False
        self._number += 1
        self._records = 0
        self._acked_before = self._sends.acked_count
        self._epoch = self._incarnation.epoch
        self._sends.begin_txn(self._txn)
        self._state = _Phase.OPEN
        return True

    def count_handed(self, count: int, *, whole: bool) -> None:
        """Count records that went into the open transaction.

        Not `whole`: the client refused one of them.
        """
        self._records += count
        if not whole:
            self._state = _Phase.AWAITING

    def advance(self, *, finish: bool) -> None:
        """Continue as far as possible without waiting; `finish`: no more records come."""
        match self._state:
            case _Phase.STARTING if self._call.is_done:
                self._on_started(self._call.error)
            case _Phase.OPEN if (
                self._is_next_fenced and self._successor is None and self._records >= self._records_before_fencing()
            ):
                self._state = _Phase.FENCING
                self._call = Call(self._start_successor)
            case _Phase.OPEN if finish or self._records >= self._config.txn_records:
                self._state = _Phase.AWAITING
            case _Phase.FENCING if self._call.is_done:
                # Without a successor the transaction continues as any other does.
                self._state = _Phase.OPEN if self._call.error is None else _Phase.AWAITING
            case _Phase.AWAITING if not self._sends.outstanding_count:
                self._request_end()
            case _Phase.COMMITTING if self._call.is_done:
                self._on_commit_answer(self._call.error)
            case _Phase.ABORTING if self._call.is_done:
                if self._call.error is None:
                    self._on_ended(ABORTED, "")
                else:
                    self._replace(REPLACED, f"abort: {self._call.error}")

    def abandon(self) -> None:
        """Journal the open transaction as unresolved; call it at the end."""
        if self._after is not None:
            self._journal_outcome(UNRESOLVED, self._after[1])
        elif not self.is_idle:
            self._journal_outcome(UNRESOLVED, f"while {self._state.name.lower()}")

    @property
    def _txn(self) -> int:
        return self._config.value_at(self._number)

    @property
    def _is_next_fenced(self) -> bool:
        return _is_turn_of(self._config.fence_every, self._next_number)

    @property
    def _next_number(self) -> int:
        return self._number + (self._state is _Phase.IDLE)

    def _records_before_fencing(self) -> int:
        whole = self._config.txn_records
        return max(1, whole // 2) if self._is_next_fenced and self._successor is None else whole

    def _start_successor(self) -> None:
        """Open a client and start its transactions, on another thread.

        Raises `KafkaError`.
        """
        try:
            one = self._open()
        except HarnessError:
            pause(_AGAIN_S)
            raise
        try:
            one.init_transactions()
        except KafkaError:
            one.discard()
            pause(_AGAIN_S)
            raise
        self._successor = one

    def _on_started(self, error: BaseException | None) -> None:
        if isinstance(error, HarnessError) and self._incarnation is None and not isinstance(error, WaitExpired):
            raise error
        if error is not None:
            self._call = Call(self._start_successor)
            return
        if self._after is not None:
            row, why = self._after
            self._after = None
            self._journal_outcome(row, why)
        self._take_over()

    def _take_over(self) -> None:
        old, self._incarnation, self._successor = self._incarnation, self._successor, None
        assert self._incarnation is not None
        if old is not None:
            event: Event = "fenced" if self._fenced else "replaced"
            self._sends.journal_event(
                ClientEvent(event=event, at_ns=run_clock.now_ns(), txn=self._txn, why=old.last_error)
            )
            Call(old.discard)
            self._fenced = False
        self._use(self._incarnation)
        self._state = _Phase.IDLE

    def _request_end(self) -> None:
        """Commit or abort the transaction; every record of it has its answer."""
        assert self._incarnation is not None
        whole = self._sends.acked_count - self._acked_before == self._records
        if self._successor is not None or (whole and not _is_turn_of(self._config.abort_every, self._number)):
            self._state = _Phase.COMMITTING
            self._call = Call(self._incarnation.commit_transaction, _ANSWER_S)
        elif whole or self._config.abort_unacked:
            self._state = _Phase.ABORTING
            self._call = Call(self._incarnation.abort_transaction, _ANSWER_S)
        else:
            self._replace(REPLACED, "not every record was acked")

    def _on_commit_answer(self, error: BaseException | None) -> None:
        assert self._incarnation is not None
        if error is None and self._incarnation.epoch == self._epoch:
            self._on_ended(COMMITTED, "")
        elif error is None:
            self._replace(EPOCH_MOVED, "commit returned")
        elif self._successor is not None:
            self._on_ended(FENCED, f"commit: {error}")
        elif self._incarnation.is_fenced and self._incarnation.commits_sent == 1:
            self._replace(REFUSED, f"commit: {error}")
        else:
            self._replace(IN_DOUBT, f"commit: {error}")

    def _on_ended(self, row: TxnRow, why: str) -> None:
        self._journal_outcome(row, why)
        if self._successor is not None:
            self._fenced = row is FENCED
            self._take_over()
            return
        assert self._incarnation is not None
        self._incarnation.commits_sent = 0
        self._state = _Phase.IDLE

    def _replace(self, row: TxnRow | None, why: str) -> None:
        """Let a new incarnation take over; `row` holds once it has started.

        None: no transaction was open.
        """
        self._after = None if row is None else (row, why)
        # Decided now: the start of the next incarnation may still fence the old one, so its outcome is no proof.
        self._fenced = row is REFUSED or (self._incarnation is not None and self._incarnation.is_fenced)
        if self._successor is not None:
            self._on_started(None)
            return
        self._state = _Phase.STARTING
        self._call = Call(self._start_successor)

    def _journal_outcome(self, row: TxnRow, why: str) -> None:
        self._sends.end_txn(self._txn, row.outcome)
        event = ClientEvent(
            event="transaction",
            at_ns=run_clock.now_ns(),
            txn=self._txn,
            outcome=row.outcome,
            records=self._records,
            why=f"{row.name} {why}".strip(),
        )
        self._sends.journal_event(event)


def _is_turn_of(every: int | None, number: int) -> bool:
    """Whether it is the turn of `number`, counted from 1."""
    return every is not None and number % every == 0
