"""The loop of a transactional producer, whatever its client library."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ebbtide.waiting import pause
from workloads.config import ProducerConfig
from workloads.process import Stop
from workloads.send_account import SendAccount
from workloads.sending import PacedSender
from workloads.status import ClientState
from workloads.transactions import OneIncarnation, Transactions

_PAUSE_S = 0.005
"""Between two checks of a transaction that is ending: half a dozen round trips of the clients' network."""


def send_transactions(
    config: ProducerConfig,
    sends: SendAccount[Any],
    sending: PacedSender,
    transactions: Transactions[OneIncarnation],
    stop: Stop,
    serve: Callable[[], object] = lambda: None,
) -> ClientState:
    """Produce in transactions, until done or stopped; returns the last state.

    A stop ends the open transaction as it would have ended, with the records that it has. `serve` is called between
    two bursts: a client that this process hears from by a pipe hands its answers out there.
    """
    stop_at: float | None = None
    while True:
        finish = stop_at is not None or sending.is_exhausted
        count = 0 if finish else min(sending.due_records(), transactions.room())
        if count and transactions.begin():
            before = sending.number
            whole = sending.send_burst(count)
            transactions.count_handed(sending.number - before, whole=whole)
        else:
            pause(_PAUSE_S)
        serve()
        now = time.monotonic()
        if stop_at is None and stop:
            stop_at = now + config.stop_timeout_s
        sends.flush()
        transactions.advance(finish=finish)
        if sending.is_exhausted and transactions.is_idle:
            sends.flush()
            return ClientState.DONE
        if stop_at is not None and (transactions.is_idle or now >= stop_at):
            transactions.abandon()
            sends.abandon()
            return ClientState.STOPPED
