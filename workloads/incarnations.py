"""The incarnations of a transactional producer: one client each, with the same transactional id.

`workloads.transactions` decides what an incarnation does next. The class here is kafka-python's; that of Kafka's own
Java client is in `workloads.java_producer`.
"""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from kafka import KafkaProducer
from kafka.errors import InvalidProducerEpochError, KafkaError, ProducerFencedError
from kafka.producer.transaction_manager import EndTxnHandler

_FENCINGS = (ProducerFencedError, InvalidProducerEpochError)


class Incarnation(Protocol):
    """One client with the transactional id. Its calls raise `KafkaError`; all but `begin_transaction` may wait long.

    - `commits_sent` is how often a commit was sent since it was last set to 0; always 0 for a client that does not say.
    - `epoch` is producer id and epoch. If it moves, the client may report a commit that it never requested. A client
      that cannot do so always returns the same.
    - `is_fenced`: Kafka said that a newer incarnation exists. `last_error` is in the client's words, empty for none.
    """

    commits_sent: int

    @property
    def epoch(self) -> tuple[int, int]: ...

    @property
    def is_fenced(self) -> bool: ...

    @property
    def last_error(self) -> str: ...

    def init_transactions(self) -> None: ...

    def begin_transaction(self) -> None: ...

    def commit_transaction(self) -> None: ...

    def abort_transaction(self) -> None: ...

    def discard(self) -> None:
        """End it without waiting for an answer."""


class KafkaPythonIncarnation:
    """One KafkaProducer with the transactional id."""

    def __init__(self, producer: KafkaProducer) -> None:
        self.producer = producer
        self._manager = producer._transaction_manager
        self.commits_sent = 0
        enqueue = self._manager._enqueue_request

        def enqueue_and_count(handler: Any) -> None:
            self.commits_sent += isinstance(handler, EndTxnHandler) and handler.request.committed
            enqueue(handler)

        self._manager._enqueue_request = enqueue_and_count

    @property
    def epoch(self) -> tuple[int, int]:
        """Producer id and epoch."""
        now = self._manager.producer_id_and_epoch
        return now.producer_id, now.epoch

    @property
    def is_fenced(self) -> bool:
        """Whether Kafka said that a newer incarnation exists."""
        return isinstance(self._manager.last_error, _FENCINGS)

    @property
    def last_error(self) -> str:
        """The error that ended it, in the client's words; empty for none."""
        return str(self._manager.last_error or "")

    def init_transactions(self) -> None:
        """Take over the transactional id; what an earlier incarnation left open is then aborted."""
        self.producer.init_transactions()

    def begin_transaction(self) -> None:
        """Begin a transaction; no request is sent."""
        self.producer.begin_transaction()

    def commit_transaction(self) -> None:
        """Ask for the commit, and wait for the answer."""
        self.producer.commit_transaction()

    def abort_transaction(self) -> None:
        """Ask for the abort, and wait for the answer."""
        self.producer.abort_transaction()

    def discard(self) -> None:
        """End it without waiting for an answer."""
        with contextlib.suppress(KafkaError):
            self.producer.close(timeout=0)
        self.producer._sender.force_close()
