"""The frames of journals: clients pack them, the converter unpacks them.

A frame holds many rows of one partition as arrays, so that a record costs 16 to 24 bytes and no object. Status codes
are the index into `STATUSES`; -1 means null wherever a column is nullable.
"""

from __future__ import annotations

import struct
from array import array
from typing import Literal

import msgspec

from ebbtide.journal.file import frame
from ebbtide.journal.outcomes import Outcome
from ebbtide.record.clients import ClientEvent, TxnOutcome

HANDED = 1
ANSWERED = 2
POLLED = 3
OBSERVED = 4
TXN_BEGUN = 5
TXN_ENDED = 6
EVENT = 7

STATUSES: tuple[Outcome, ...] = ("acked", "failed", "unknown")
TXN_OUTCOMES: tuple[TxnOutcome, ...] = ("committed", "aborted", "unknown")
Status = Literal[0, 1, 2]

_HANDED = struct.Struct("=iqI")
_ANSWERED = struct.Struct("=iqIBqq")
_POLLED = struct.Struct("=iiiqqI")
_TXN_ENDED = struct.Struct("=qB")


class AnsweredSends(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of `count` sends of one partition, from `first_sequence` on.

    `base_offset` is the first one's offset, -1 when there is none.
    """

    partition: int
    first_sequence: int
    count: int
    status: int
    base_offset: int
    done_ns: int
    error: str


class PolledRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one partition that one poll returned; the arrays have one length.

    `previous` is the offset that the session returned before them, -1 for none.
    """

    topic: int
    partition: int
    session: int
    previous: int
    polled_ns: int
    offsets: array[int]
    values: array[int]
    epochs: array[int]


def pack_handed(partition: int, first_sequence: int, rows: array[int]) -> bytes:
    """Return the frame of sends handed over, in sequence.

    `rows` alternates value and sent_ns.
    """
    return frame(HANDED, _HANDED.pack(partition, first_sequence, len(rows) // 2) + rows.tobytes())


def unpack_handed(payload: bytes) -> tuple[int, int, array[int]]:
    """Return partition, first sequence and the rows of a HANDED frame."""
    partition, first, count = _HANDED.unpack_from(payload)
    return partition, first, _longs(payload, _HANDED.size, 2 * count)


def pack_answered(answer: AnsweredSends) -> bytes:
    """Return the frame of one answer."""
    head = _ANSWERED.pack(
        answer.partition, answer.first_sequence, answer.count, answer.status, answer.base_offset, answer.done_ns
    )
    return frame(ANSWERED, head + answer.error.encode())


def unpack_answered(payload: bytes) -> AnsweredSends:
    """Return the answer in an ANSWERED frame."""
    partition, first, count, status, base, done = _ANSWERED.unpack_from(payload)
    return AnsweredSends(
        partition=partition,
        first_sequence=first,
        count=count,
        status=status,
        base_offset=base,
        done_ns=done,
        error=payload[_ANSWERED.size :].decode(),
    )


def pack_polled(polled: PolledRecords) -> bytes:
    """Return the frame of one partition's share of a poll."""
    head = _POLLED.pack(
        polled.topic, polled.partition, polled.session, polled.previous, polled.polled_ns, len(polled.offsets)
    )
    columns = polled.offsets.tobytes() + polled.values.tobytes() + polled.epochs.tobytes()
    return frame(POLLED, head + columns)


def unpack_polled(payload: bytes) -> PolledRecords:
    """Return the rows of a POLLED frame."""
    topic, partition, session, previous, polled_ns, count = _POLLED.unpack_from(payload)
    at, step = _POLLED.size, 8 * count
    return PolledRecords(
        topic=topic,
        partition=partition,
        session=session,
        previous=previous,
        polled_ns=polled_ns,
        offsets=_longs(payload, at, count),
        values=_longs(payload, at + step, count),
        epochs=_longs(payload, at + 2 * step, count),
    )


def pack_txn_begun(txn: int, first_sequences: array[int]) -> bytes:
    """Return the frame of a transaction that begins.

    `first_sequences` has the next sequence of every partition of the producer, in order.
    """
    return frame(TXN_BEGUN, array("q", [txn]).tobytes() + first_sequences.tobytes())


def unpack_txn_begun(payload: bytes) -> tuple[int, array[int]]:
    """Return the transaction, and per partition its first sequence."""
    return _longs(payload, 0, 1)[0], _longs(payload, 8, len(payload) // 8 - 1)


def pack_txn_ended(txn: int, outcome: TxnOutcome) -> bytes:
    """Return the frame of a transaction that ended."""
    return frame(TXN_ENDED, _TXN_ENDED.pack(txn, TXN_OUTCOMES.index(outcome)))


def unpack_txn_ended(payload: bytes) -> tuple[int, TxnOutcome]:
    """Return the transaction and how it ended."""
    txn, outcome = _TXN_ENDED.unpack(payload)
    return txn, TXN_OUTCOMES[outcome]


def pack_event(event: ClientEvent) -> bytes:
    """Return the frame of one event of a client."""
    return frame(EVENT, msgspec.json.encode(event))


def unpack_event(payload: bytes) -> ClientEvent:
    """Return the event in an EVENT frame."""
    return msgspec.json.decode(payload, type=ClientEvent)


OBSERVED_FIELDS = 7
"""The fields: topic index, partition, broker, leader epoch, high watermark, asked_ns, at_ns."""


def pack_watermarks(rows: array[int]) -> bytes:
    """Return the frame of several HW observations, `OBSERVED_FIELDS` numbers each."""
    return frame(OBSERVED, rows.tobytes())


def unpack_watermarks(payload: bytes) -> array[int]:
    """Return the numbers of an OBSERVED frame."""
    return _longs(payload, 0, len(payload) // 8)


def _longs(payload: bytes, at: int, count: int) -> array[int]:
    numbers = array("q")
    numbers.frombytes(payload[at : at + 8 * count])
    return numbers
