"""The relay passes everything on, and records whole frames of the named APIs, in order, while the spool has room."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.relay.program import Relay
from cluster.relay.spool import SpoolEnd, SpoolEntry, SpoolWriter, make_spare_files, read_end, read_spool
from ebbtide.waiting import wait_until

PRODUCE, LIST_GROUPS = 0, 16


def request(api: int, correlation: int, body: bytes = b"") -> bytes:
    return struct.pack(">ihhi", 8 + len(body), api, 9, correlation) + body


def response(correlation: int, body: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation) + body


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
def ends(tmp_path: Path) -> Iterator[Ends]:
    found = Ends(SpoolWriter(tmp_path))
    yield found
    found.close()


def received(end: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (more := end.recv(size - len(found))):
        found += more
    return found


def recorded(folder: Path) -> list[SpoolEntry]:
    return list(read_spool(folder))


def bytes_of(entries: list[SpoolEntry], kind: str) -> bytes:
    return b"".join(entry.data for entry in entries if entry.kind == kind)


def test_everything_passes_and_only_frames_of_named_apis_are_recorded(ends: Ends, tmp_path: Path) -> None:
    asked = [request(PRODUCE, 1, b"records" * 100_000), request(LIST_GROUPS, 2, b"x"), request(PRODUCE, 3)]
    answers = [response(1, b"one"), response(2, b"groups"), response(3, b"three" * 100_000)]
    threading.Thread(target=ends.client.sendall, args=(b"".join(asked),)).start()
    assert received(ends.broker, sum(map(len, asked))) == b"".join(asked)
    threading.Thread(target=ends.broker.sendall, args=(b"".join(answers),)).start()
    assert received(ends.client, sum(map(len, answers))) == b"".join(answers)
    ends.relay.end()
    entries = recorded(tmp_path)
    assert bytes_of(entries, "request") == asked[0] + asked[2]
    assert bytes_of(entries, "response") == answers[0] + answers[2]
    assert entries[-1].kind == "ended"
    assert read_end(tmp_path).unrecorded == {LIST_GROUPS: 1}
    assert [path.name for path in tmp_path.iterdir()] == ["end.json"]


def test_an_acks_0_request_has_no_answer_and_the_next_answer_is_recorded_all_the_same(
    ends: Ends, tmp_path: Path
) -> None:
    ends.client.sendall(request(PRODUCE, 1) + request(PRODUCE, 2))
    received(ends.broker, 24)
    ends.broker.sendall(response(2, b"two"))
    received(ends.client, 11)
    ends.relay.end()
    assert bytes_of(recorded(tmp_path), "response") == response(2, b"two")


def test_what_is_not_kafkas_protocol_passes_unread_and_is_counted(ends: Ends, tmp_path: Path) -> None:
    ends.client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert received(ends.broker, 18) == b"GET / HTTP/1.1\r\n\r\n"
    ends.relay.end()
    assert [entry.kind for entry in recorded(tmp_path)] == ["ended"]
    assert read_end(tmp_path) == SpoolEnd(unread=1)


def test_a_relay_that_does_not_record_passes_all_the_same() -> None:
    ends = Ends(None)
    ends.client.sendall(request(PRODUCE, 1))
    assert received(ends.broker, 12) == request(PRODUCE, 1)
    ends.relay.end()
    assert received(ends.client, 1) == b""
    ends.close()


def test_a_broker_that_is_down_ends_the_connection(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = gone.getsockname()
    ports = socket.create_server(("127.0.0.1", 0))
    relay = Relay(SpoolWriter(tmp_path))
    relay.listen(ports, address)
    with socket.create_connection(ports.getsockname(), timeout=10) as client:
        assert client.recv(1) == b""
    relay.end()
    assert recorded(tmp_path) == []


def test_a_file_that_is_written_again_holds_nothing_of_what_it_held_before(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path, file_bytes=1000)
    read = read_spool(tmp_path)
    spool.write(1, "request", [b"long" * 300])
    assert next(read).connection == 1
    spool.write(2, "request", [b"next" * 300])
    assert next(read).connection == 2  # the first file is free now
    spool.write(3, "request", [b"short"])
    spool.write(4, "request", [b"last" * 250])
    spool.write(5, "request", [b"short"])
    spool.end(SpoolEnd())
    assert [(entry.connection, entry.data[:5]) for entry in read] == [(3, b"short"), (4, b"lastl"), (5, b"short")]


def test_the_writer_waits_while_the_spool_is_full_and_no_entry_is_left_out(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path, bytes_max=3100, file_bytes=1000)
    written: list[int] = []

    def write_all() -> None:
        for number in range(10):
            spool.write(number, "request", [bytes(990)])
            written.append(number)
        spool.end(SpoolEnd())

    writer = threading.Thread(target=write_all)
    writer.start()
    wait_until(lambda: len(written) == 3, awaited="the spool to be full", timeout_s=10)
    writer.join(0.2)
    assert len(written) == 3
    assert [entry.connection for entry in recorded(tmp_path)] == list(range(10))
    writer.join()
    assert spool.waited_s > 0


def test_the_files_that_the_decoder_made_are_written_first(tmp_path: Path) -> None:
    make_spare_files(tmp_path, count=2, size=1000)
    spool = SpoolWriter(tmp_path, file_bytes=500)
    spool.write(1, "request", [b"a" * 600])
    assert not list(tmp_path.glob("*.free"))
    spool.end(SpoolEnd())
    assert [entry.data for entry in recorded(tmp_path)] == [b"a" * 600]


def test_what_waits_for_room_when_the_relay_ends_is_recorded(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path, bytes_max=2000, file_bytes=1000)
    spool.write(1, "request", [bytes(1990)])
    waiting = threading.Thread(target=spool.write, args=(2, "request", [b"last"]))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    spool.end_waiting()
    waiting.join()
    spool.end(SpoolEnd())
    assert [entry.connection for entry in recorded(tmp_path)] == [1, 2]
    with pytest.raises(OSError, match="Bad file descriptor"):
        spool.write(3, "request", [b"too late"])
