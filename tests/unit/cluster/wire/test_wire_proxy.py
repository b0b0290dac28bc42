"""The Kafka-aware proxy between two real sockets: what passes, what a rule stops, and what is told of it."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import fetch_frames
import isr_frames
import pytest
from client_frames import received

from cluster.wire.connection import CONNECT_TIMEOUT_S
from cluster.wire.frames import NotKafka, Requests, Responses
from cluster.wire.messages import Arm, Release, Rule, WireEvent
from cluster.wire.proxy import Proxy
from ebbtide.waiting import wait_until

PRODUCE, FETCH, ALTER_PARTITION = 0, 1, 56


def _request(api: int, correlation: int, body: bytes = b"body") -> bytes:
    return struct.pack(">ihhi", 8 + len(body), api, 3, correlation) + body


def _response(correlation: int, body: bytes = b"answer") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation) + body


class Bench:
    """A proxy in a thread of its own, in front of a listening socket; `told` are its events."""

    def __init__(self) -> None:
        self.told: list[WireEvent] = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self._peer = self.server.getsockname()
        self._front = socket.create_server(("127.0.0.1", 0))
        self._front.setblocking(False)
        self._proxy = Proxy(self._dial, self.told.append)
        self._todo: list[Callable[[], None]] = []
        self._over = False
        self._opened: list[socket.socket] = [self.server, self._front]
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """The node's end and the peer's."""
        near = socket.create_connection(self._front.getsockname())
        far, _ = self.server.accept()
        for end in (near, far):
            end.settimeout(5)
        self._opened += [near, far]
        return near, far

    def do(self, command: Arm | Release) -> None:
        """Tell the proxy, and wait for its answer."""
        answer = "armed" if isinstance(command, Arm) else "released"
        before = len(self.events(answer))
        self._todo.append(lambda: self._proxy.command(command))
        wait_until(lambda: len(self.events(answer)) > before, awaited=answer, timeout_s=60)

    def events(self, what: str) -> list[WireEvent]:
        return [event for event in self.told if event.event == what]

    def await_event(self, what: str) -> WireEvent:
        wait_until(lambda: self.events(what), awaited=what, timeout_s=60)
        return self.events(what)[-1]

    def close(self) -> None:
        self._over = True
        self._thread.join()
        self._proxy.close()
        for one in self._opened:
            one.close()

    def _dial(self, near: socket.socket) -> tuple[socket.socket, str]:
        far = socket.socket()
        far.setblocking(False)
        far.connect_ex(self._peer)
        return far, "10.99.0.100"

    def _run(self) -> None:
        self._proxy.epoll.register(self._front, 1)
        while not self._over:
            for handle, events in self._proxy.epoll.poll(0.005):
                if handle == self._front.fileno():
                    self._proxy.accept(self._front)
                else:
                    self._proxy.step(handle, events)
            while self._todo:
                self._todo.pop(0)()
            self._proxy.run_due()


@pytest.fixture
def bench() -> Iterator[Bench]:
    one = Bench()
    yield one
    one.close()


def _hold(api: int = ALTER_PARTITION, **asked: object) -> Arm:
    return Arm(Rule(number=1, action="hold", api=api, **asked))  # type: ignore[arg-type]


def _silent(end: socket.socket) -> bool:
    end.settimeout(0.1)
    try:
        return end.recv(1) == b""
    except TimeoutError:
        return True
    finally:
        end.settimeout(5)


def _is_closed(end: socket.socket) -> bool:
    try:
        return end.recv(1) == b""
    except ConnectionError:
        return True


def test_bytes_pass_unchanged_however_they_are_cut_up(bench: Bench) -> None:
    near, far = bench.connect()
    sent = b"".join(_request(FETCH, number, bytes(number)) for number in range(30))
    for at in range(0, len(sent), 7):
        near.sendall(sent[at : at + 7])
    assert received(far, len(sent)) == sent
    answers = b"".join(_response(number, bytes(3)) for number in range(30))
    far.sendall(answers)
    assert received(near, len(answers)) == answers
    bench.do(_hold())
    assert bench.events("armed")[0].passed == {FETCH: 30}


def test_a_frame_larger_than_any_buffer_passes(bench: Bench) -> None:
    near, far = bench.connect()
    sent = _request(PRODUCE, 1, bytes(range(256)) * (40 << 10))
    writer = threading.Thread(target=near.sendall, args=(sent,))
    writer.start()
    assert received(far, len(sent)) == sent
    writer.join()


def test_a_held_request_waits_with_all_behind_it_and_goes_on_in_order(bench: Bench) -> None:
    bench.do(_hold())
    near, far = bench.connect()
    held, behind = _request(ALTER_PARTITION, 1), _request(FETCH, 2)
    near.sendall(_request(FETCH, 0) + held + behind)
    assert received(far, len(held)) == _request(FETCH, 0)
    event = bench.await_event("held")
    assert (event.api, event.correlation, event.size_bytes) == (ALTER_PARTITION, 1, len(held))
    assert event.seen == {FETCH: 1, ALTER_PARTITION: 1}
    assert _silent(far)
    bench.do(Release(1))
    assert received(far, len(held + behind)) == held + behind
    assert bench.await_event("forwarded").waited_s is not None
    assert bench.events("released")[0].at_ns >= bench.events("forwarded")[0].at_ns


def test_the_answer_to_a_request_that_was_held_is_reported(bench: Bench) -> None:
    bench.do(_hold())
    near, far = bench.connect()
    near.sendall(_request(ALTER_PARTITION, 9))
    bench.await_event("held")
    bench.do(Release(1))
    assert not bench.events("answered")
    far.sendall(_response(9))
    assert received(near, len(_response(9))) == _response(9)
    assert bench.await_event("answered").correlation == 9


def test_other_connections_apis_and_peers_are_not_held(bench: Bench) -> None:
    bench.do(_hold())
    bench.do(Arm(Rule(number=2, action="hold", api=FETCH, peers=("10.99.0.1",))))
    (near, far), (other, other_far) = bench.connect(), bench.connect()
    near.sendall(_request(ALTER_PARTITION, 1))
    bench.await_event("held")
    other.sendall(_request(FETCH, 1))
    assert received(other_far, 16) == _request(FETCH, 1)
    assert _silent(far)


def test_answers_pass_while_a_request_is_held(bench: Bench) -> None:
    bench.do(_hold())
    near, far = bench.connect()
    near.sendall(_request(FETCH, 1) + _request(ALTER_PARTITION, 2))
    bench.await_event("held")
    far.sendall(_response(1))
    assert received(near, 14) == _response(1)


def test_a_held_answer_is_known_by_its_request(bench: Bench) -> None:
    bench.do(_hold(FETCH, direction="response"))
    near, far = bench.connect()
    # A produce request with acks=0 has no answer.
    near.sendall(_request(PRODUCE, 1) + _request(ALTER_PARTITION, 2) + _request(FETCH, 3))
    assert len(received(far, 48)) == 48
    far.sendall(_response(2) + _response(3))
    assert received(near, 14) == _response(2)
    assert bench.await_event("held").direction == "response"
    assert _silent(near)
    bench.do(Release(1))
    assert received(near, 14) == _response(3)


def test_a_held_fetch_answer_shows_what_it_makes_the_follower_truncate(bench: Bench) -> None:
    bench.do(_hold(FETCH, direction="response"))
    near, far = bench.connect()
    near.sendall(fetch_frames.request(17))
    received(far, len(fetch_frames.request(17)))
    far.sendall(fetch_frames.answer(17, end_offset=50))
    (told,) = bench.await_event("held").diverging
    assert (told.partition, told.end_offset, told.fetch_offset) == (1, 50, 70)


def test_an_ordinary_fetch_answer_that_is_held_shows_nothing_to_truncate(bench: Bench) -> None:
    bench.do(_hold(FETCH, direction="response"))
    near, far = bench.connect()
    near.sendall(fetch_frames.request(17))
    received(far, len(fetch_frames.request(17)))
    far.sendall(fetch_frames.answer(17, end_offset=None))
    assert bench.await_event("held").diverging == ()


def test_a_rule_of_one_time_stops_one(bench: Bench) -> None:
    bench.do(_hold(times=1))
    (near, far), (other, other_far) = bench.connect(), bench.connect()
    near.sendall(_request(ALTER_PARTITION, 1))
    bench.await_event("held")
    other.sendall(_request(ALTER_PARTITION, 1))
    assert received(other_far, 16) == _request(ALTER_PARTITION, 1)
    assert _silent(far)


def test_a_delayed_request_goes_on_by_itself_and_its_delay_is_measured(bench: Bench) -> None:
    bench.do(Arm(Rule(number=1, action="delay", api=FETCH, delay_s=0.2)))
    near, far = bench.connect()
    began = time.monotonic()
    near.sendall(_request(FETCH, 1))
    assert received(far, 16) == _request(FETCH, 1)
    assert time.monotonic() - began >= 0.2
    waited_s = bench.await_event("forwarded").waited_s
    assert waited_s is not None
    assert 0.2 <= waited_s <= time.monotonic() - began


def test_a_release_lets_delayed_requests_go_at_once(bench: Bench) -> None:
    bench.do(Arm(Rule(number=1, action="delay", api=FETCH, delay_s=60)))
    near, far = bench.connect()
    near.sendall(_request(FETCH, 1))
    bench.await_event("held")
    bench.do(Release(1))
    assert received(far, 16) == _request(FETCH, 1)


def test_a_dropped_request_closes_its_connection_and_does_not_arrive(bench: Bench) -> None:
    bench.do(Arm(Rule(number=1, action="drop", api=ALTER_PARTITION)))
    near, far = bench.connect()
    near.sendall(_request(FETCH, 1) + _request(ALTER_PARTITION, 2))
    assert received(far, 99) == _request(FETCH, 1)
    assert _is_closed(near)
    assert bench.await_event("dropped").api == ALTER_PARTITION


@pytest.mark.parametrize("who", ["node", "peer"])
def test_a_connection_that_ends_while_a_request_is_held_takes_it_along(bench: Bench, who: str) -> None:
    bench.do(_hold())
    near, far = bench.connect()
    near.sendall(_request(ALTER_PARTITION, 1))
    bench.await_event("held")
    gone, other = (near, far) if who == "node" else (far, near)
    gone.close()
    assert bench.await_event("abandoned").correlation == 1
    assert _is_closed(other)
    bench.do(Release(1))
    assert not bench.events("forwarded")


def test_a_late_request_outlives_its_sender_and_arrives_whole_at_the_release(bench: Bench) -> None:
    bench.do(_hold(PRODUCE, late=True))
    near, far = bench.connect()
    sent = _request(PRODUCE, 1, bytes(50_000))
    near.sendall(sent)
    bench.await_event("held")
    # What is behind the held one is still in the kernel's buffer when its sender ends.
    near.sendall(_request(PRODUCE, 2))
    near.close()
    sent += _request(PRODUCE, 2)
    assert bench.await_event("outlived").correlation == 1
    assert not bench.events("abandoned")
    assert _silent(far)
    bench.do(Release(1))
    assert received(far, len(sent)) == sent
    far.sendall(_response(1))
    assert bench.await_event("answered").correlation == 1


def test_a_late_request_ends_with_its_peer(bench: Bench) -> None:
    bench.do(_hold(PRODUCE, late=True))
    near, far = bench.connect()
    near.sendall(_request(PRODUCE, 1))
    bench.await_event("held")
    near.close()
    bench.await_event("outlived")
    far.close()
    bench.do(Release(1))
    assert not [event for event in bench.events("answered") if event.correlation == 1]


def test_what_was_said_before_the_end_still_arrives(bench: Bench) -> None:
    near, far = bench.connect()
    far.sendall(_response(1, bytes(100_000)))
    far.close()
    # An answer that no request asked for: the stream is not Kafka's, and passes all the same.
    assert len(received(near, 200_000)) == 100_008


def test_a_peer_that_refuses_shows_as_a_reset(bench: Bench) -> None:
    bench.server.close()
    near = socket.create_connection(bench._front.getsockname())
    near.settimeout(CONNECT_TIMEOUT_S + 4)
    with near, pytest.raises(ConnectionResetError):
        near.recv(1)


def test_a_length_that_no_frame_has_is_not_kafka() -> None:
    for length in (-1, 7, (1 << 31) - 1):
        with pytest.raises(NotKafka):
            Requests().read(struct.pack(">Ihhi", length % 2**32, 1, 1, 1), 0)
    with pytest.raises(NotKafka):
        Responses(Requests()).read(_response(1), 0)


def _duplicate(**asked: object) -> Arm:
    return Arm(Rule(number=1, action="duplicate", api=PRODUCE, **asked))  # type: ignore[arg-type]


@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_a_duplicated_request_arrives_twice_in_a_row_and_is_answered_once(bench: Bench, piece: int) -> None:
    near, far = bench.connect()
    bench.do(_duplicate(times=1))
    once, twice, after = _request(FETCH, 1), _request(PRODUCE, 2, bytes(200)), _request(PRODUCE, 3)
    sent = once + twice + after
    for at in range(0, len(sent), piece):
        near.sendall(sent[at : at + piece])
    expected = once + twice + twice + after
    assert received(far, len(expected)) == expected
    (event,) = bench.events("duplicated")
    assert (event.api, event.correlation, event.size_bytes) == (PRODUCE, 2, len(twice))
    answers = [_response(1), _response(2, bytes(150)), _response(2, b"the copy's"), _response(3)]
    for at in range(0, len(whole := b"".join(answers)), piece):
        far.sendall(whole[at : at + piece])
    wanted = answers[0] + answers[1] + answers[3]
    assert received(near, len(wanted)) == wanted
    assert bench.await_event("discarded").correlation == 2
    assert _silent(near)


def test_what_an_alter_partition_asks_for_is_told_where_a_rule_copies_it(bench: Bench) -> None:
    near, far = bench.connect()
    bench.do(Arm(Rule(number=1, action="duplicate", api=ALTER_PARTITION)))
    near.sendall(isr_frames.request())
    received(far, 2 * len(isr_frames.request()))
    far.sendall(isr_frames.answer(0) + isr_frames.answer(95))
    refused = bench.await_event("discarded").answered_isrs
    (asked,) = bench.events("duplicated")[0].asked_isrs
    assert (asked.topic, asked.partition_epoch) == (isr_frames.TOPIC, 11)
    assert [one.error for one in (*bench.events("answered")[0].answered_isrs, *refused)] == [0, 95]


def test_a_large_request_is_duplicated_once_all_of_it_came(bench: Bench) -> None:
    near, far = bench.connect()
    bench.do(_duplicate())
    large = _request(PRODUCE, 1, bytes(1 << 20))
    sender = threading.Thread(target=near.sendall, args=(large,))
    sender.start()
    assert received(far, 2 * len(large)) == large * 2
    sender.join()


def test_an_answer_cut_off_in_the_copy_is_not_passed_on(bench: Bench) -> None:
    near, far = bench.connect()
    bench.do(_duplicate())
    near.sendall(_request(PRODUCE, 1))
    received(far, 2 * len(_request(PRODUCE, 1)))
    far.sendall(_response(1) + _response(1, bytes(100))[:50])
    assert received(near, len(_response(1))) == _response(1)
    bench.await_event("discarded")
    far.close()
    assert _is_closed(near)
