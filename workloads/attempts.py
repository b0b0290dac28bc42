"""Sees what kafka-python does not report: how earlier attempts of a batch ended.

A record whose last answer is NOT_ENOUGH_REPLICAS is certainly not appended, unless an attempt before it timed out.
kafka-python's futures carry only the last answer. This module therefore watches the one place where the sender
decides what an error means for a batch (`Sender._dispatch_error`, kafka-python 3.0).

An attempt is *open* from the moment its batch is drained into a request until an answer, a disconnect or a timeout
ends it. A batch whose delivery timeout passes while no attempt is open has expired in the buffer.
"""

from __future__ import annotations

import inspect
from typing import Any

from kafka import KafkaProducer
from kafka.producer.sender import Sender

from ebbtide.errors import HarnessError
from ebbtide.journal.outcomes import Attempts, outcome_of


class AttemptWatch:
    """Watches the batches of one producer; make it before the first send.

    Any thread calls `pop_attempts` once a batch is final. The watching itself happens on the sender's thread.
    """

    def __init__(self, producer: KafkaProducer) -> None:
        _check_client()
        self._ended: dict[Any, Attempts] = {}
        sender = producer._sender
        self._decide = sender._dispatch_error
        sender._dispatch_error = self._on_error
        # Splitting a batch moves its records to new batches, so that one answer no longer covers one run of
        # sequences. A batch that is too large fails instead.
        sender._can_split = lambda *_: False

    def pop_attempts(self, batch_future: Any) -> Attempts | None:
        """Return the attempts seen for a batch, only once.

        None when no attempt of it was seen to end in an error.
        """
        return self._ended.pop(batch_future, None)

    def _on_error(self, batch: Any, exception: BaseException, partition_response: Any) -> None:
        if batch.final_state is None:
            seen = self._ended.setdefault(batch.produce_future, Attempts())
            if batch.drained is None or batch.drained == seen.last_ended:
                seen.expired_unsent = True
            else:
                seen.last_ended = batch.drained
                seen.maybe_appended |= outcome_of(exception).outcome != "failed"
        self._decide(batch, exception, partition_response)


def _check_client() -> None:
    """Raise `HarnessError` when the installed kafka-python cannot be watched."""
    decide = getattr(Sender, "_dispatch_error", None)
    expected = ["self", "batch", "exception", "partition_response"]
    if decide is None or list(inspect.signature(decide).parameters) != expected or not hasattr(Sender, "_can_split"):
        raise HarnessError(
            "this kafka-python cannot be watched, because its sender has changed",
            where="kafka.producer.sender.Sender._dispatch_error",
            allowed="kafka-python 3.0.12 or newer, below 4",
            next="pip install 'kafka-python>=3.0.12,<4'",
        )
