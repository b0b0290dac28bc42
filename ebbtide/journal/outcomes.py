"""The table that maps Kafka's answers to acked, failed or unknown.

The words are strict. *Acked*: the broker said yes. *Failed*: the record is certainly in no log. *Unknown*: everything
else, and every error that the table does not list. A wrong `unknown` costs evidence. A wrong `failed` would accuse
Kafka of showing a record that it had refused. A row therefore says failed only where the broker checks before it
appends and cannot give the same answer afterwards.

With acks=all a broker can refuse a produce request at two points: it appends, then waits for the ISR. The wait can
end with NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION or KAFKA_STORAGE_ERROR (DelayedProduce asks the partition
again). Those are therefore unknown, although the same codes also refuse before the append.

An error decides one attempt. The client retries inside: `resolve` combines the attempts of one record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

Outcome = Literal["acked", "failed", "unknown"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One answer.

    `name` is Kafka's, or the client's exception class; `code` is None for the client's own.
    """

    name: str
    code: int | None
    outcome: Outcome
    why: str


def outcome_table(text: str) -> tuple[Row, ...]:
    """Return the rows from `name | code or - | outcome | why` lines."""
    rows = []
    for line in text.strip().splitlines():
        name, code, outcome, why = (cell.strip() for cell in line.split("|"))
        rows.append(
            Row(
                name=name,
                code=None if code == "-" else int(code),
                outcome=msgspec.convert(outcome, Outcome),
                why=why,
            )
        )
    return tuple(rows)


TABLE = outcome_table("""
NONE | 0 | acked | The broker said yes; with acks=0 it only means that the client wrote the request to its socket.
DUPLICATE_SEQUENCE_NUMBER | 46 | unknown | An earlier attempt was appended, but the answer does not say at which offset.
NOT_ENOUGH_REPLICAS | 19 | failed | The leader checks the ISR against min.insync.replicas before it appends.
MESSAGE_TOO_LARGE | 10 | failed | The size is checked before the append, by the client or by the leader.
RECORD_LIST_TOO_LARGE | 18 | failed | The batch does not fit a segment; checked before the append.
CORRUPT_MESSAGE | 2 | failed | The leader validates the CRC before it appends.
INVALID_RECORD | 87 | failed | The leader validates the records before it appends, and refuses the whole batch.
INVALID_TIMESTAMP | 32 | failed | The leader validates timestamps before it appends.
INVALID_REQUIRED_ACKS | 21 | failed | The request is refused before any partition is touched.
INVALID_TOPIC_EXCEPTION | 17 | failed | Appending to this topic is never allowed.
TOPIC_AUTHORIZATION_FAILED | 29 | failed | Authorisation comes before the append.
CLUSTER_AUTHORIZATION_FAILED | 31 | failed | Authorisation comes before the append.
TRANSACTIONAL_ID_AUTHORIZATION_FAILED | 53 | failed | Authorisation comes before the append.
UNSUPPORTED_FOR_MESSAGE_FORMAT | 43 | failed | The format is checked before the append.
UNSUPPORTED_COMPRESSION_TYPE | 76 | failed | The codec is checked before the append.
OUT_OF_ORDER_SEQUENCE_NUMBER | 45 | failed | The producer state is checked before the append.
UNKNOWN_PRODUCER_ID | 59 | failed | The producer state is checked before the append.
INVALID_PRODUCER_EPOCH | 47 | failed | The producer epoch is checked before the append.
PRODUCER_FENCED | 90 | failed | The producer epoch is checked before the append.
INVALID_PRODUCER_ID_MAPPING | 49 | failed | The transaction is verified before the append.
INVALID_TXN_STATE | 48 | failed | The transaction is verified before the append.
NOT_ENOUGH_REPLICAS_AFTER_APPEND | 20 | unknown | It was appended and may well be committed later.
NOT_LEADER_OR_FOLLOWER | 6 | unknown | Refused before the append, or appended and then deposed during the wait.
UNKNOWN_TOPIC_OR_PARTITION | 3 | unknown | Refused before the append, or appended and deleted during the wait.
KAFKA_STORAGE_ERROR | 56 | unknown | The disk failed before, during or after the append.
REQUEST_TIMED_OUT | 7 | unknown | It was appended and the ISR did not confirm it in time.
LEADER_NOT_AVAILABLE | 5 | unknown | No broker documents it for produce; nothing can be concluded.
REPLICA_NOT_AVAILABLE | 9 | unknown | No broker documents it for produce; nothing can be concluded.
NETWORK_EXCEPTION | 13 | unknown | The connection broke before the answer came.
FENCED_LEADER_EPOCH | 74 | unknown | No broker documents it for produce; nothing can be concluded.
UNKNOWN_LEADER_EPOCH | 75 | unknown | No broker documents it for produce; nothing can be concluded.
UNKNOWN_SERVER_ERROR | -1 | unknown | The broker failed at a place that it does not name.
EXPIRED_UNSENT | - | failed | It expired while no attempt was open: none was written, or each was refused for certain.
NodeNotReadyError | - | failed | The client had no usable connection and gave the request back unwritten.
KafkaTimeoutError | - | unknown | The client stopped waiting; the broker may still append.
KafkaConnectionError | - | unknown | The connection broke before the answer came.
Cancelled | - | unknown | The client closed the connection before the answer came.
UNRESOLVED | - | unknown | The producer stopped, or was killed, before an answer came.
""")
"""Every answer with a known meaning, in the order of the documentation."""

EXPIRED_UNSENT = "EXPIRED_UNSENT"
UNRESOLVED = "UNRESOLVED"

_BY_CODE = {row.code: row for row in TABLE if row.code is not None}
_BY_NAME = {row.name: row for row in TABLE}


def row_finder(table: Sequence[Row]) -> Callable[[BaseException | None], Row]:
    """Return a function that finds the row of an answer in a table; None is success.

    An exception with Kafka's error code (`errno` of kafka-python's BrokerResponseError) is found by code, any other
    by class name. Every other exception is unknown under its own name.
    """
    by_code: dict[object, Row] = {row.code: row for row in table if row.code is not None}
    by_name = {row.name: row for row in table}

    def row_of(error: BaseException | None) -> Row:
        if error is None:
            return by_code[0]
        name, code = type(error).__name__, getattr(error, "errno", None)
        is_answer = isinstance(code, int) and not isinstance(error, OSError)
        unlisted = Row(name=name, code=None, outcome="unknown", why="Not in the table: nothing can be concluded.")
        return by_code.get(code, unlisted) if is_answer else by_name.get(name, unlisted)

    return row_of


outcome_of = row_finder(TABLE)
"""Finds the row of one attempt's answer."""


class Attempts(msgspec.Struct):
    """What is known about the attempts of one batch that ended in an error.

    `last_ended` is the client's timestamp of the attempt that was last seen to end (None: none yet).
    `maybe_appended`: an attempt ended in a way after which the record may be in a log. `expired_unsent`: the delivery
    timeout passed while no attempt was open.
    """

    last_ended: float | None = None
    maybe_appended: bool = False
    expired_unsent: bool = False


def resolve(error: BaseException, attempts: Attempts | None) -> tuple[Outcome, str]:
    """Return the final outcome of a record, and the name for its `error` column.

    `error` is the last answer. `attempts` None means that no attempt was seen to end (the client aborted the batch on
    its own): unknown. A definite error is failed only if no earlier attempt may have been appended.
    """
    row = outcome_of(error)
    if attempts is None or attempts.maybe_appended:
        return "unknown", row.name
    if attempts.expired_unsent:
        return "failed", EXPIRED_UNSENT
    return ("failed" if row.outcome == "failed" else "unknown"), row.name


def name_of_code(code: int) -> str | None:
    """Return the table's name for Kafka's error code; None for a code that is not in the table."""
    row = _BY_CODE.get(code)
    return None if row is None else row.name


def outcome_of_last_answer(name: str, *, is_only_attempt: bool) -> Outcome:
    """Return the outcome of a record whose client reports its last error, and no earlier one.

    A refusal says nothing about an earlier attempt that timed out. The record is therefore failed only if its client
    makes one attempt, and the table is certain.
    """
    row = _BY_NAME.get(name)
    return "failed" if is_only_attempt and row is not None and row.outcome == "failed" else "unknown"
