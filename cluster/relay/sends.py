"""The sends of producers, each once: attempts of one batch are put together.

An idempotent producer repeats producer id, epoch and sequence. Of other producers only a batch with the same checksum
after an attempt that was not acked is a retry: the checksum covers the timestamps too. An ack counts more than an
attempt whose outcome is unknown, and that more than a refusal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from ebbtide.logs.batches import Batch

Key = tuple[object, ...]

_ACKED_KEPT = 20_000
_WEIGHT = {"failed": 0, "unknown": 1, "acked": 2}


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One batch in a Produce request, and how its answer was.

    `base_offset` -1: not known.
    """

    client: str | None
    connection: int
    topic: str
    partition: int
    acks: int
    transactional_id: str | None
    batch: Batch
    asked_ns: int
    status: str = "unknown"
    error: str | None = None
    base_offset: int = -1
    done_ns: int | None = None

    @property
    def is_idempotent(self) -> bool:
        """Whether the producer's sequences say which attempts are the same send."""
        return self.batch.producer_id >= 0 and self.batch.base_sequence >= 0

    @property
    def key(self) -> Key:
        """What all attempts of this send have in common."""
        batch = self.batch
        if self.is_idempotent:
            return self.topic, self.partition, batch.producer_id, batch.producer_epoch, batch.base_sequence
        return self.topic, self.partition, batch.crc, batch.count


class DecidedSends:
    """Takes attempts in the order of their outcomes, and returns the sends that are decided."""

    def __init__(self) -> None:
        self._undecided: dict[Key, Attempt] = {}
        self._acked: OrderedDict[Key, None] = OrderedDict()

    def add(self, attempt: Attempt) -> Iterator[Attempt]:
        """Yield the send of this attempt, if it is decided now and was not before."""
        if attempt.acks == 0:  # no answer ever decides it, and so no client retries it
            yield attempt
            return
        key = attempt.key
        if attempt.status != "acked":
            earlier = self._undecided.get(key)
            if key not in self._acked and (earlier is None or _WEIGHT[earlier.status] <= _WEIGHT[attempt.status]):
                first_ns = attempt.asked_ns if earlier is None else earlier.asked_ns
                self._undecided[key] = msgspec.structs.replace(attempt, asked_ns=first_ns)
            return
        earlier = self._undecided.pop(key, None)
        if key in self._acked and attempt.is_idempotent:
            return
        self._acked[key] = None
        if len(self._acked) > _ACKED_KEPT:
            self._acked.popitem(last=False)
        yield attempt if earlier is None else msgspec.structs.replace(attempt, asked_ns=earlier.asked_ns)

    def rest(self) -> Iterator[Attempt]:
        """Yield the sends that no attempt got an ack for."""
        yield from self._undecided.values()
        self._undecided.clear()
