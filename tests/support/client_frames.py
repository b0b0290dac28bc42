"""A client's traffic on published ports, as the relay spools it: made by kafka-python's own classes."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import FetchRequest, FetchResponse, OffsetCommitRequest, OffsetCommitResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
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

from cluster.relay.cutting import FETCH, Cutter
from cluster.relay.spool import Kind, SpoolEntry
from cluster.wire.frames import Head, Requests, Responses

TOPIC, TOPIC_ID = "orders", UUID(int=7)


def frame(message: Any, version: int, correlation: int, client: str = "orders-1") -> bytes:
    """One framed request or answer."""
    message.API_VERSION = version
    if message.is_request():
        message.with_header(correlation_id=correlation, client_id=client)
    else:
        message.with_header(correlation_id=correlation)
    return bytes(message.encode(header=True, framed=True))


def request(api: int, correlation: int, body: bytes = b"") -> bytes:
    """A framed request, of version 9."""
    return struct.pack(">ihhi", 8 + len(body), api, 9, correlation) + body


def response(correlation: int, body: bytes = b"") -> bytes:
    """A framed answer."""
    return struct.pack(">ii", 4 + len(body), correlation) + body


class Traffic:
    """Entries of a spool; `now` counts up."""

    def __init__(self) -> None:
        self.entries: list[SpoolEntry] = []
        self.now = 0
        self._correlation = 0

    def add(self, connection: int, kind: Kind, data: bytes = b"") -> None:
        self.now += 1
        self.entries.append(SpoolEntry(connection, kind, self.now, data))

    def ask(self, connection: int, request: Any, version: int, client: str = "orders-1") -> int:
        self._correlation += 1
        self.add(connection, "request", frame(request, version, self._correlation, client))
        return self._correlation

    def answer(self, connection: int, correlation: int, response: Any, version: int) -> None:
        self.add(connection, "response", frame(response, version, correlation))

    def end(self, connection: int) -> None:
        self.add(connection, "ended")

    def produce(
        self,
        batch: bytes,
        *,
        connection: int = 1,
        acks: int = 1,
        at: int | None = None,
        error: int = 0,
        version: int = 9,
        transactional_id: str | None = None,
        client: str = "orders-1",
    ) -> int:
        """Send a batch; `at` is the offset that the answer gives it, -1 with an `error`; None: no answer."""
        kind = ProduceRequest.TopicProduceData
        item = kind.PartitionProduceData(index=0, records=batch)
        named = {"topic_id": TOPIC_ID} if version >= 13 else {"name": TOPIC}
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=1,
            topic_data=[kind(partition_data=[item], **named)],
        )
        correlation = self.ask(connection, request, version, client)
        if at is not None:
            self.produced(connection, correlation, at, error, version)
        return correlation

    def produced(self, connection: int, correlation: int, at: int, error: int = 0, version: int = 9) -> None:
        """Answer a request to produce."""
        kind = ProduceResponse.TopicProduceResponse
        item = kind.PartitionProduceResponse(
            index=0,
            error_code=error,
            base_offset=at,
            log_append_time_ms=-1,
            log_start_offset=0,
        )
        named = {"topic_id": TOPIC_ID} if version >= 13 else {"name": TOPIC}
        responses = [kind(partition_responses=[item], **named)]
        self.answer(connection, correlation, ProduceResponse(responses=responses), version)

    def fetch(self, records: bytes, *, high_watermark: int, connection: int = 1, version: int = 11) -> None:
        """Fetch partition 0; the request of a fetch session names no partition."""
        request = FetchRequest(
            replica_id=-1, max_bytes=1, session_id=5, session_epoch=2,
        )  # fmt: skip
        kind = FetchResponse.FetchableTopicResponse
        item = kind.PartitionData(
            partition_index=0, high_watermark=high_watermark, last_stable_offset=0,
            log_start_offset=0, aborted_transactions=None, preferred_read_replica=-1, records=records,
        )  # fmt: skip
        named = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": TOPIC}
        answer = FetchResponse(session_id=5, responses=[kind(partitions=[item], **named)])
        correlation = self.ask(connection, request, version)
        self.add(connection, "response", as_relayed(version, frame(answer, version, correlation)))

    def metadata(self, connection: int = 1, version: int = 12) -> None:
        """Ask for the names of topics."""
        request = MetadataRequest(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        topic = MetadataResponse.MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID)
        answer = MetadataResponse(cluster_id="c", controller_id=1, topics=[topic])
        self.answer(connection, self.ask(connection, request, version), answer, version)

    def commit(self, offset: int, *, error: int | None = 0, connection: int = 1, group: str = "g") -> None:
        """Commit an offset of a group; `error` None: no answer."""
        correlation = self.ask_commit(offset, connection=connection, group=group)
        if error is not None:
            self.answer_commit(correlation, error=error, connection=connection)

    def ask_commit(self, offset: int, *, connection: int = 1, group: str = "g") -> int:
        """Ask to commit an offset of a group."""
        kind = OffsetCommitRequest.OffsetCommitRequestTopic
        item = kind.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=1, member_id="m",
            topics=[kind(name=TOPIC, partitions=[item])],
        )  # fmt: skip
        return self.ask(connection, request, 7)

    def answer_commit(self, correlation: int, *, error: int = 0, connection: int = 1) -> None:
        """Answer a request to commit."""
        answered = OffsetCommitResponse.OffsetCommitResponseTopic
        result = answered.OffsetCommitResponsePartition(partition_index=0, error_code=error)
        response = OffsetCommitResponse(topics=[answered(name=TOPIC, partitions=[result])])
        self.answer(connection, correlation, response, 7)

    def commit_in_transaction(self, offset: int, *, connection: int = 1) -> None:
        """Commit an offset of the group with the transaction of `copier`."""
        kind = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        item = kind.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id="copier", group_id="g", producer_id=7, producer_epoch=0, generation_id=1, member_id="m",
            topics=[kind(name=TOPIC, partitions=[item])],
        )  # fmt: skip
        answered = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
        result = answered.TxnOffsetCommitResponsePartition(partition_index=0)
        response = TxnOffsetCommitResponse(topics=[answered(name=TOPIC, partitions=[result])])
        self.answer(connection, self.ask(connection, request, 3), response, 3)

    def end_transaction(self, *, commits: bool, error: int | None = 0, connection: int = 1) -> None:
        """End the transaction of `copier`; `error` None: no answer."""
        request = EndTxnRequest(transactional_id="copier", producer_id=7, producer_epoch=0, committed=commits)
        correlation = self.ask(connection, request, 3)
        if error is not None:
            self.answer(connection, correlation, EndTxnResponse(error_code=error), 3)

    def begin_anew(self, *, connection: int = 1) -> None:
        """Another incarnation of `copier` begins."""
        request = InitProducerIdRequest(
            transactional_id="copier", transaction_timeout_ms=1, producer_id=-1, producer_epoch=-1
        )
        answer = InitProducerIdResponse(producer_id=7, producer_epoch=1)
        self.answer(connection, self.ask(connection, request, 4), answer, 4)


def as_relayed(version: int, answer: bytes, piece_bytes: int = 1 << 20) -> bytes:
    """What the relay records of an answer to Fetch that comes in such pieces."""
    requests = Requests()
    requests.waiting.append(Head(FETCH, version, int.from_bytes(answer[4:8], "big"), 0))
    cutter = Cutter(Responses(requests))
    pieces = [memoryview(answer)[at : at + piece_bytes] for at in range(0, len(answer), piece_bytes)]
    return b"".join(b"".join(cutter.cut(piece)) for piece in pieces)


def cut_up(entries: Iterable[SpoolEntry], size: int) -> Sequence[SpoolEntry]:
    """The same bytes in entries of at most `size` bytes."""
    return [
        entry._replace(data=entry.data[at : at + size])
        for entry in entries
        for at in range(0, max(len(entry.data), 1), size)
    ]


def received(end: socket.socket, size: int) -> bytes:
    """The next bytes of a connection: so many, or fewer if it ends."""
    found = b""
    while len(found) < size and (more := end.recv(size - len(found))):
        found += more
    return found
