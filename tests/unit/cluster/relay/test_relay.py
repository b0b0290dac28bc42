"""The relay passes everything on, and records whole frames of the named APIs, in order, while the spool has room."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from client_frames import received, request, response

from cluster.relay.cutting import Cutter
from cluster.relay.decode import decode
from cluster.relay.decoding import Decoder, WireRow
from cluster.relay.program import Relay
from cluster.relay.spool import SpoolEnd, SpoolEntry, SpoolReader, SpoolWriter, new_spool
from cluster.wire.frames import Requests
from ebbtide.waiting import wait_until

PRODUCE, LIST_GROUPS = 0, 16


class Spool:
    """A small spool, as the two processes have it."""

    def __init__(self, segments: int, size: int) -> None:
        with new_spool(segments, size) as (writer, reader):
            self.writer = SpoolWriter(writer, segment_bytes=size)
            self.reader = SpoolReader(reader, segment_bytes=size)

    def close(self) -> None:
        self.end_decoder()
        wait_until(lambda: not self.writer._is_read, awaited="the writer to see it", timeout_s=10)
        self.writer._reader.close()

    def end_decoder(self) -> None:
        """Close what the kernel closes when the decoder is killed."""
        with contextlib.suppress(OSError):
            self.reader._writer.shutdown(socket.SHUT_RDWR)
        self.reader._writer.close()

    def recorded(self) -> list[SpoolEntry]:
        return list(self.reader.entries())


class Ends:
    """A client and its broker, with the relay between them."""

    def __init__(self, spool: SpoolWriter | None) -> None:
        self.relay = Relay(spool)
        ports = socket.create_server(("127.0.0.1", 0))
        self._broker = socket.create_server(("127.0.0.1", 0))
        self.relay.listen(ports, self._broker.getsockname())
        self.client = socket.create_connection(ports.getsockname(), timeout=10)
        self.broker, _ = self._broker.accept()
        self.broker.settimeout(10)

    def close(self) -> None:
        for end in (self.client, self.broker, self._broker):
            end.close()


@pytest.fixture
def make_spool() -> Iterator[Callable[..., Spool]]:
    made: list[Spool] = []

    def make(*size: int) -> Spool:
        made.append(Spool(*size))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def spool(make_spool: Callable[..., Spool]) -> Spool:
    return make_spool(8, 4 << 20)


@pytest.fixture
def ends(spool: Spool) -> Iterator[Ends]:
    found = Ends(spool.writer)
    yield found
    found.close()


def bytes_of(entries: list[SpoolEntry], kind: str) -> bytes:
    return b"".join(entry.data for entry in entries if entry.kind == kind)


def test_everything_passes_and_only_frames_of_named_apis_are_recorded(ends: Ends, spool: Spool) -> None:
    asked = [request(PRODUCE, 1, b"records" * 100_000), request(LIST_GROUPS, 2, b"x"), request(PRODUCE, 3)]
    answers = [response(1, b"one"), response(2, b"groups"), response(3, b"three" * 100_000)]
    threading.Thread(target=ends.client.sendall, args=(b"".join(asked),)).start()
    assert received(ends.broker, sum(map(len, asked))) == b"".join(asked)
    threading.Thread(target=ends.broker.sendall, args=(b"".join(answers),)).start()
    assert received(ends.client, sum(map(len, answers))) == b"".join(answers)
    ends.relay.end()
    entries = spool.recorded()
    assert bytes_of(entries, "request") == asked[0] + asked[2]
    assert bytes_of(entries, "response") == answers[0] + answers[2]
    assert entries[-1].kind == "ended"
    assert spool.reader.end.unrecorded == {LIST_GROUPS: 1}


def test_an_acks_0_request_has_no_answer_and_the_next_answer_is_recorded_all_the_same(ends: Ends, spool: Spool) -> None:
    ends.client.sendall(request(PRODUCE, 1) + request(PRODUCE, 2))
    received(ends.broker, 24)
    ends.broker.sendall(response(2, b"two"))
    received(ends.client, 11)
    ends.relay.end()
    assert bytes_of(spool.recorded(), "response") == response(2, b"two")


def test_what_is_not_kafkas_protocol_passes_unread_and_is_counted(ends: Ends, spool: Spool) -> None:
    ends.client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert received(ends.broker, 18) == b"GET / HTTP/1.1\r\n\r\n"
    ends.relay.end()
    assert [entry.kind for entry in spool.recorded()] == ["ended"]
    assert spool.reader.end == SpoolEnd(unread=1)


def test_a_relay_that_does_not_record_passes_all_the_same() -> None:
    ends = Ends(None)
    ends.client.sendall(request(PRODUCE, 1))
    assert received(ends.broker, 12) == request(PRODUCE, 1)
    ends.relay.end()
    assert received(ends.client, 1) == b""
    ends.close()


def test_an_error_of_the_relay_itself_ends_the_connection_and_leaves_it_unread(
    ends: Ends, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(cutter: Cutter, data: memoryview) -> list[bytes | memoryview]:
        raise ValueError

    monkeypatch.setattr(Cutter, "cut", fail)
    ends.client.sendall(request(PRODUCE, 1))
    assert received(ends.client, 1) == b""
    ends.relay.end()
    assert [entry.kind for entry in spool.recorded()] == ["ended"]
    assert spool.reader.end.unread == 1


def test_frames_that_follow_each_other_are_one_piece() -> None:
    cutter = Cutter(Requests())
    first, other, rest = request(PRODUCE, 1, b"one") + request(PRODUCE, 2), request(LIST_GROUPS, 3), request(PRODUCE, 4)
    assert cutter.cut(memoryview(first + other + rest[:15])) == [first, rest[:15]]


def test_when_its_decoder_is_gone_the_relay_passes_on_what_it_no_longer_records(
    make_spool: Callable[..., Spool],
) -> None:
    spool = make_spool(3, 1 << 20)
    ends = Ends(spool.writer)
    spool.end_decoder()
    for number in range(8):  # more than the spool has room for
        ends.client.sendall(request(PRODUCE, number, bytes(900_000)))
        assert len(received(ends.broker, 900_012)) == 900_012
        ends.broker.sendall(response(number, b"done"))
        assert received(ends.client, 12) == response(number, b"done")
    ends.relay.end()
    assert received(ends.client, 1) == b""
    ends.close()


def test_a_client_that_waits_for_room_goes_on_when_the_decoder_is_killed(make_spool: Callable[..., Spool]) -> None:
    spool = make_spool(2, 1020)
    spool.writer.write(1, "request", [bytes(990)])
    waiting = threading.Thread(target=spool.writer.write, args=(2, "request", [bytes(990)]))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    spool.end_decoder()
    waiting.join(10)
    assert not waiting.is_alive()


def test_a_segment_that_the_decoder_is_not_told_of_ends_the_recording(make_spool: Callable[..., Spool]) -> None:
    class Full:
        """A socket for which the kernel has no memory, once."""

        def __init__(self, end: socket.socket) -> None:
            self._end = end

        def send(self, data: bytes) -> int:
            raise OSError(errno.ENOBUFS, "no memory")

        def __getattr__(self, name: str) -> object:
            return getattr(self._end, name)

    spool = make_spool(5, 1020)
    spool.writer._reader, end = Full(spool.writer._reader), spool.writer._reader  # type: ignore[assignment]
    spool.writer.write(1, "request", [bytes(990)])
    spool.writer.write(2, "request", [bytes(990)])
    spool.writer._reader = end
    spool.writer.end(SpoolEnd())
    with pytest.raises(EOFError):
        spool.recorded()


def test_a_broker_that_is_down_ends_the_connection(spool: Spool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = gone.getsockname()
    ports = socket.create_server(("127.0.0.1", 0))
    relay = Relay(spool.writer)
    relay.listen(ports, address)
    with socket.create_connection(ports.getsockname(), timeout=10) as client:
        assert client.recv(1) == b""
    relay.end()
    assert spool.recorded() == []


def test_a_segment_that_is_filled_again_holds_nothing_of_what_it_held_before(make_spool: Callable[..., Spool]) -> None:
    spool = make_spool(5, 1230)
    read = spool.reader.entries()
    spool.writer.write(1, "request", [b"long" * 300])
    spool.writer.write(2, "request", [b"next" * 300])
    assert next(read).connection == 1
    spool.writer.write(3, "request", [b"short"])
    assert next(read).connection == 2  # the first segment is free now
    spool.writer.write(4, "request", [b"last" * 290])
    spool.writer.write(5, "request", [b"short"])
    spool.writer.end(SpoolEnd())
    assert [(one.connection, one.data) for one in read] == [(3, b"short"), (4, b"last" * 290), (5, b"short")]


def test_an_entry_that_is_longer_than_a_segment_comes_in_parts_in_their_order(make_spool: Callable[..., Spool]) -> None:
    spool, data = make_spool(8, 1000), bytes(range(256)) * 10
    spool.writer.write(1, "response", [data[:700], data[700:]])
    spool.writer.end(SpoolEnd())
    assert b"".join(entry.data for entry in spool.recorded()) == data


def test_a_client_waits_while_no_segment_is_free_and_no_entry_is_left_out(make_spool: Callable[..., Spool]) -> None:
    spool = make_spool(5, 1020)
    written: list[int] = []

    def write_all() -> None:
        for number in range(10):
            spool.writer.write(number, "request", [bytes(990)])
            written.append(number)
        spool.writer.end(SpoolEnd())

    writer = threading.Thread(target=write_all)
    writer.start()
    wait_until(lambda: len(written) == 3, awaited="the spool to be full", timeout_s=10)
    writer.join(0.2)
    assert len(written) == 3  # two are kept back for the end
    assert [entry.connection for entry in spool.recorded()] == list(range(10))
    writer.join()
    assert spool.writer.waited_s > 0


def test_one_client_that_waits_for_room_does_not_keep_the_lock(make_spool: Callable[..., Spool]) -> None:
    spool = make_spool(2, 1020)
    spool.writer.write(1, "request", [bytes(990)])
    waiting = threading.Thread(target=spool.writer.write, args=(2, "request", [b"last"]))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    spool.writer.end_waiting()  # this needs the lock
    waiting.join(10)
    spool.writer.end(SpoolEnd())
    assert [entry.connection for entry in spool.recorded()] == [1, 2]


def test_the_decoder_runs_when_others_are_idle_until_it_is_far_behind(
    make_spool: Callable[..., Spool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, policies = make_spool(32, 1020), list[int]()

    def feed(decoder: Decoder, entry: SpoolEntry) -> Iterator[WireRow]:
        policies.append(os.sched_getscheduler(0))
        return iter(())

    monkeypatch.setattr(Decoder, "feed", feed)
    for number in range(26):
        spool.writer.write(number, "request", [bytes(990)])
    decoding = threading.Thread(target=decode, args=(spool.reader, tmp_path / "wire.parquet", ["127.0.0.1:1"]))
    decoding.start()
    wait_until(lambda: len(policies) == 25, awaited="25 full segments to be read", timeout_s=10)
    # Twenty-four were left after the first one.
    assert policies == [os.SCHED_IDLE, os.SCHED_OTHER, *[os.SCHED_IDLE] * 23]
    spool.writer.write(26, "request", [bytes(990)])
    assert not spool.reader.is_behind
    spool.writer.end(SpoolEnd())
    decoding.join(10)
    assert len(policies) == 27


def test_once_the_relay_has_ended_the_decoder_puts_nothing_off(spool: Spool) -> None:
    spool.writer.write(1, "request", [b"only"])
    assert not spool.reader.is_behind
    spool.writer.end(SpoolEnd())
    assert spool.reader.is_behind


def test_a_relay_that_was_killed_is_no_end_of_the_spool() -> None:
    with new_spool(2, 1000) as (_, reader):
        read = SpoolReader(reader, segment_bytes=1000)
    with contextlib.closing(read._writer), pytest.raises(EOFError):
        list(read.entries())
