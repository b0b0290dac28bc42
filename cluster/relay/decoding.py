"""Decodes what the relay recorded into rows of the table `wire`.

A request waits for its answer on its connection; where the connection ended first, its outcome is unknown. A frame
that cannot be decoded is counted, and none is left out silently. A fetched batch may begin before the asked offset.
"""

from __future__ import annotations

import base64
import contextlib
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

from kafka.errors import for_code
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse
from kafka.protocol.metadata import MetadataResponse
from kafka.protocol.producer import (
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

from cluster.relay.cutting import (
    END_TXN,
    FETCH,
    INIT_PRODUCER_ID,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from cluster.relay.fetched import read_fetch_answer
from cluster.relay.sends import Attempt, DecidedSends
from cluster.relay.spool import SpoolEntry
from cluster.wire.frames import LENGTH_BYTES, REQUEST_HEAD, RESPONSE_HEAD
from ebbtide.journal.outcomes import TABLE, row_finder
from ebbtide.logs.batches import MAGIC, Batch, parse_header, record_digests, whole_batches
from ebbtide.logs.codecs import UndecodableError

WireRow = dict[str, object]

_CLIENT_SIZE = struct.Struct(">h")
_produce_outcome = row_finder(TABLE)
_NO_ACKS = "acks=0, which no broker answers"
_NO_ANSWER = "the connection ended before the answer"
_CURRENT_METADATA = 10
_BASE_SEQUENCES = 1 << 31


class AskedRequest(NamedTuple):
    """A request whose answer is still to come."""

    api: int
    version: int
    correlation: int
    client: str | None
    message: Any
    asked_ns: int


class _Connection:
    def __init__(self) -> None:
        self.bytes = {"request": bytearray(), "response": bytearray()}
        self.began_ns: int | None = None
        self.asked: list[AskedRequest] = []  # two may have one correlation id: an answer is recorded after it passed


class Decoder:
    """Decodes the entries of a spool; `key` is that of the digests.

    - `undecoded` counts what cannot be decoded, by what it is.
    - `topics` are the topics that clients produced to, or committed offsets of; `groups` are those that committed.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._connections: dict[int, _Connection] = {}
        self._names: dict[UUID, str] = {}
        self._sends = DecidedSends()
        self.undecoded: Counter[str] = Counter()
        self.topics: set[str] = set()
        self.groups: set[str] = set()

    def feed(self, entry: SpoolEntry) -> Iterator[WireRow]:
        """Yield the rows that an entry completes."""
        connection = self._connections.setdefault(entry.connection, _Connection())
        if entry.kind == "ended":
            yield from self._end(entry.connection)
            return
        data = connection.bytes[entry.kind]
        if entry.kind == "request" and not data:
            connection.began_ns = entry.at_ns
        data += entry.data
        while len(data) >= LENGTH_BYTES and len(data) >= (size := LENGTH_BYTES + int.from_bytes(data[:4], "big")):
            frame = bytes(data[:size])
            del data[:size]
            if entry.kind == "request":
                yield from self._ask(entry.connection, connection, frame, connection.began_ns or entry.at_ns)
                connection.began_ns = entry.at_ns
            else:
                yield from self._answer(entry.connection, connection, frame, entry.at_ns)

    def finish(self) -> Iterator[WireRow]:
        """Yield the rows of what never got an answer; call it after the last entry."""
        for number in list(self._connections):
            yield from self._end(number)
        for send in self._sends.rest():
            yield from self._rows_of_send(send)

    def _ask(self, number: int, connection: _Connection, frame: bytes, asked_ns: int) -> Iterator[WireRow]:
        _, api, version, correlation = REQUEST_HEAD.unpack_from(frame)
        request = _REQUESTS.get(api)
        message = None if request is None else self._decoded(request, version, frame)
        if request is not None and message is None:
            return
        asked = AskedRequest(api, version, correlation, _client_of(frame), message, asked_ns)
        if api == PRODUCE and message is not None and message.acks == 0:
            yield from self._produced(number, asked, None, None)
        else:
            connection.asked.append(asked)

    def _answer(self, number: int, connection: _Connection, frame: bytes, done_ns: int) -> Iterator[WireRow]:
        _, correlation = RESPONSE_HEAD.unpack_from(frame)
        at = next((at for at, one in enumerate(connection.asked) if one.correlation == correlation), None)
        if at is None:  # its request could not be decoded, and is counted
            return
        asked = connection.asked.pop(at)
        if asked.api == FETCH:
            answer: Any = read_fetch_answer(asked.version, frame)
            if answer is None:
                self.undecoded[f"FetchResponse version {asked.version}"] += 1
        else:
            answer = self._decoded(_RESPONSES[asked.api], asked.version, frame)
        yield from self._rows(number, asked, answer, done_ns)

    def _end(self, number: int) -> Iterator[WireRow]:
        connection = self._connections.pop(number)
        for asked in connection.asked:
            yield from self._rows(number, asked, None, None)

    def _rows(self, number: int, asked: AskedRequest, answer: Any, done_ns: int | None) -> Iterator[WireRow]:
        rows: dict[int, Callable[[int, AskedRequest, Any, int | None], Iterator[WireRow]]] = {
            PRODUCE: self._produced,
            FETCH: self._fetched,
            METADATA: self._named,
            OFFSET_COMMIT: self._committed,
            TXN_OFFSET_COMMIT: self._committed,
            END_TXN: self._ended_transaction,
            INIT_PRODUCER_ID: self._began_producer,
        }
        yield from rows[asked.api](number, asked, answer, done_ns)

    def _produced(self, number: int, asked: AskedRequest, answer: Any, done_ns: int | None) -> Iterator[WireRow]:
        request = asked.message
        results = {
            (self._topic(topic), item.index): item
            for topic in (answer.responses if answer is not None else ())
            for item in topic.partition_responses
        }
        for topic in request.topic_data:
            name = self._topic(topic)
            self.topics.add(name)
            for item in topic.partition_data:
                result = results.get((name, item.index))
                for batch in self._produced_batches(bytes(item.records or b"")):
                    attempt = Attempt(
                        client=asked.client,
                        connection=number,
                        topic=name,
                        partition=item.index,
                        acks=request.acks,
                        transactional_id=request.transactional_id,
                        batch=batch,
                        asked_ns=asked.asked_ns,
                        done_ns=done_ns,
                        **_outcome_of(result, request.acks),
                    )
                    for send in self._sends.add(attempt):
                        yield from self._rows_of_send(send)

    def _produced_batches(self, data: bytes) -> list[Batch]:
        """Return the batches of a Produce request for one partition; those of before Kafka 0.11 are counted."""
        with contextlib.suppress(struct.error):
            batches = whole_batches(data)
            if sum(batch.size for batch in batches) == len(data) and all(one.data[16] == MAGIC for one in batches):
                return batches
        self.undecoded["batches of Produce"] += 1
        return []

    def _rows_of_send(self, send: Attempt) -> Iterator[WireRow]:
        batch = send.batch
        row: WireRow = {
            "kind": "produce",
            "client": send.client,
            "connection": send.connection,
            "topic": send.topic,
            "partition": send.partition,
            "acks": send.acks,
            "status": send.status,
            "error": None if send.status == "acked" else send.error,
            "producer_id": _nullable(batch.producer_id),
            "producer_epoch": _nullable(batch.producer_epoch),
            "transactional_id": send.transactional_id,
            "asked_ns": send.asked_ns,
            "done_ns": send.done_ns,
        }
        try:
            digests = list(record_digests(batch, self._key))
        except UndecodableError:
            self.undecoded["records of Produce"] += batch.count
            return
        for delta, digest in digests:
            offset = send.base_offset + delta if send.base_offset >= 0 else None
            yield {**row, "digest": digest, "sequence": sequence_of(batch, delta), "offset": offset}

    def _fetched(self, number: int, asked: AskedRequest, answer: Any, done_ns: int | None) -> Iterator[WireRow]:
        for item in answer or ():
            for head in item.heads:
                batch = parse_header(memoryview(head), 0)
                yield {
                    "kind": "fetch",
                    "client": asked.client,
                    "connection": number,
                    "topic": self._topic(item),
                    "partition": item.partition,
                    "offset": batch.base_offset,
                    "last_offset": batch.last_offset,
                    "leader_epoch": batch.leader_epoch,
                    "high_watermark": item.high_watermark,
                    "asked_ns": asked.asked_ns,
                    "done_ns": done_ns,
                }

    def _named(self, number: int, asked: AskedRequest, answer: Any, done_ns: int | None) -> Iterator[WireRow]:
        if answer is not None and asked.version >= _CURRENT_METADATA:
            self._names |= {topic.topic_id: topic.name for topic in answer.topics if topic.name is not None}
        return iter(())

    def _committed(self, number: int, asked: AskedRequest, answer: Any, done_ns: int | None) -> Iterator[WireRow]:
        request = asked.message
        self.groups.add(request.group_id)
        errors = {
            (self._topic(topic), item.partition_index): item.error_code
            for topic in (answer.topics if answer is not None else ())
            for item in topic.partitions
        }
        for topic in request.topics:
            for item in topic.partitions:
                place = (self._topic(topic), item.partition_index)
                self.topics.add(place[0])
                yield {
                    "kind": "commit" if asked.api == OFFSET_COMMIT else "txn-commit",
                    "topic": place[0],
                    "partition": place[1],
                    "offset": item.committed_offset,
                    "group": request.group_id,
                    "transactional_id": None if asked.api == OFFSET_COMMIT else request.transactional_id,
                    **_result(number, asked, errors.get(place), done_ns),
                }

    def _ended_transaction(
        self, number: int, asked: AskedRequest, answer: Any, done_ns: int | None
    ) -> Iterator[WireRow]:
        yield {
            "kind": "end-txn",
            "transactional_id": asked.message.transactional_id,
            "producer_id": asked.message.producer_id,
            "producer_epoch": asked.message.producer_epoch,
            "commits": asked.message.committed,
            **_result(number, asked, None if answer is None else answer.error_code, done_ns),
        }

    def _began_producer(self, number: int, asked: AskedRequest, answer: Any, done_ns: int | None) -> Iterator[WireRow]:
        yield {
            "kind": "init-producer",
            "transactional_id": asked.message.transactional_id,
            "producer_id": None if answer is None else _nullable(answer.producer_id),
            "producer_epoch": None if answer is None else _nullable(answer.producer_epoch),
            **_result(number, asked, None if answer is None else answer.error_code, done_ns),
        }

    def _topic(self, item: Any) -> str:
        """Return the name of the topic that a message names, by its name or its id."""
        name = getattr(item, "name", None) or getattr(item, "topic", None)
        if name:
            return str(name)
        known = self._names.get(item.topic_id)
        return known or base64.urlsafe_b64encode(item.topic_id.bytes).decode().rstrip("=")

    def _decoded(self, message: Any, version: int, frame: bytes) -> Any:
        if message.min_version <= version <= message.max_version:
            try:
                return message.decode(frame[LENGTH_BYTES:], version=version, header=True)
            except (struct.error, ValueError, IndexError):
                pass
        self.undecoded[f"{message.__name__} version {version}"] += 1
        return None


_REQUESTS: dict[int, Any] = {
    PRODUCE: ProduceRequest,
    OFFSET_COMMIT: OffsetCommitRequest,
    TXN_OFFSET_COMMIT: TxnOffsetCommitRequest,
    END_TXN: EndTxnRequest,
    INIT_PRODUCER_ID: InitProducerIdRequest,
}
_RESPONSES: dict[int, Any] = {
    PRODUCE: ProduceResponse,
    METADATA: MetadataResponse,
    OFFSET_COMMIT: OffsetCommitResponse,
    TXN_OFFSET_COMMIT: TxnOffsetCommitResponse,
    END_TXN: EndTxnResponse,
    INIT_PRODUCER_ID: InitProducerIdResponse,
}


def _client_of(frame: bytes) -> str | None:
    """Return the client.id of a request; its header has it right after the correlation id."""
    (size,) = _CLIENT_SIZE.unpack_from(frame, REQUEST_HEAD.size)
    start = REQUEST_HEAD.size + _CLIENT_SIZE.size
    return None if size < 0 else frame[start : start + size].decode(errors="replace")


def _outcome_of(result: Any, acks: int) -> dict[str, Any]:
    """Return what an answer says of one partition of a Produce request; None: there is no answer."""
    if result is None:
        return {"error": _NO_ACKS if acks == 0 else _NO_ANSWER}
    row = _produce_outcome(None if result.error_code == 0 else for_code(result.error_code)())
    return {"status": row.outcome, "error": row.name, "base_offset": result.base_offset}


def _result(number: int, asked: AskedRequest, code: int | None, done_ns: int | None) -> WireRow:
    """Return the columns that rows of requests have in common; `code` is None without an answer."""
    status = "unknown" if code is None else "failed" if code else "acked"
    error = _NO_ANSWER if code is None else str(for_code(code).__name__) if code else None
    times = {"asked_ns": asked.asked_ns, "done_ns": done_ns}
    return {"client": asked.client, "connection": number, "status": status, "error": error, **times}


def sequence_of(batch: Batch, offset: int) -> int | None:
    """Return the sequence of the record at an offset of a batch; None: its producer is not idempotent."""
    if batch.base_sequence < 0:
        return None
    return (batch.base_sequence + offset - batch.base_offset) % _BASE_SEQUENCES


def _nullable(number: int) -> int | None:
    return None if number < 0 else number
