"""A daemon may be silent, dead, or answer nonsense: every command about its cluster ends with one clear error."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from daemon_up import Up
from plain_steps import step_of

from cluster.clean import clean
from ebbtide.daemon import control, messages
from ebbtide.daemon.control import ask, cluster_names, end, find_cluster, open_control_socket, sockets_dir
from ebbtide.daemon.messages import AskStatus, Fire, Reply
from ebbtide.errors import EbbtideError, ExitCode, HarnessError
from harness.cli.main import main

pytestmark = pytest.mark.usefixtures("no_clusters")

_SEEDS = range(2)
"""Each has its share of the garbled answers."""


@contextlib.contextmanager
def listening(answer: Callable[[socket.socket], None], name: str = "odd") -> Iterator[None]:
    """Let `answer` have each caller at the control socket of a cluster `name`, until the block ends."""
    over = threading.Event()
    with open_control_socket(name) as server:

        def serve() -> None:
            while not over.is_set():
                with server.accept()[0] as caller, contextlib.suppress(OSError):
                    answer(caller)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            over.set()
            with socket.socket(socket.AF_UNIX) as last, messages.short_path(sockets_dir() / f"{name}.sock") as short:
                last.connect(short)
            thread.join(60)


def says(answer: bytes) -> Callable[[socket.socket], None]:
    """Return a daemon that sends this to whoever asks it something."""

    def serve(caller: socket.socket) -> None:
        if caller.recv(1 << 16):
            caller.sendall(answer)

    return serve


def is_silent(caller: socket.socket) -> None:
    """Take the request, and wait until the caller leaves."""
    while caller.recv(1 << 16):
        pass


def drips(caller: socket.socket) -> None:
    """Send something every now and then, but never a whole line."""
    while True:
        caller.sendall(b" ")
        caller.settimeout(0.05)
        with contextlib.suppress(TimeoutError):
            while caller.recv(1 << 16):
                pass
            return


@pytest.fixture
def short_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_STATUS_TIMEOUT_S", 0.4)


@pytest.mark.usefixtures("short_deadline")
@pytest.mark.parametrize("daemon", [is_silent, drips])
def test_a_status_names_the_daemon_that_did_not_answer_in_time_and_how_to_end_it(
    daemon: Callable[[socket.socket], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with listening(daemon):
        assert main(["cluster", "status"]) == ExitCode.HARNESS_FAILED
    said = capsys.readouterr().err
    assert said.startswith("waiting for the status of odd: its daemon is busy\n") == (daemon is is_silent)
    assert "the daemon of odd did not answer: waited 0.4 s for its status" in said
    assert f"process {os.getpid()}, whose log is {sockets_dir() / 'odd.log'}" in said
    assert f"kill -KILL {os.getpid()}; ebbtide clean" in said


@pytest.mark.usefixtures("short_deadline")
def test_a_daemon_that_accepts_no_more_callers_is_reported_as_silent() -> None:
    with open_control_socket("odd") as server, contextlib.ExitStack() as waiting:
        server.listen(0)
        for _ in range(2):
            caller = waiting.enter_context(socket.socket(socket.AF_UNIX))
            caller.setblocking(False)
            with contextlib.suppress(BlockingIOError), messages.short_path(sockets_dir() / "odd.sock") as short:
                caller.connect(short)
        with pytest.raises(HarnessError, match=r"waited 0\.4 s for its status"):
            find_cluster("odd")
        assert control.remove_dead_sockets() == []


@pytest.mark.usefixtures("short_deadline")
def test_a_silent_daemon_does_not_hide_another_cluster_that_is_named(up: Up) -> None:
    with listening(is_silent):
        assert find_cluster("one").name == "one"
        with pytest.raises(HarnessError, match="the daemon of odd did not answer"):
            find_cluster(None)


def test_an_answer_that_never_ends_is_refused_at_the_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "LINE_BYTES_MAX", 1 << 20)
    with listening(says(b"A" * (4 << 20))), pytest.raises(HarnessError, match="answers with something else") as caught:
        find_cluster("odd")
    assert caught.value.got == "more than 1,048,576 bytes without a newline"


@pytest.mark.parametrize(
    "answer",
    [b'\xff\xfe{"status":\x1b[2J}\n', b"[" * 100_000 + b"\n", b"{}\n", b"null\n", b"9" * 5_000 + b"\n", b"{", b"\n"],
)
def test_an_answer_that_is_no_status_is_one_error_and_the_socket_stays(answer: bytes) -> None:
    with listening(says(answer)):
        for ask_it in (lambda: find_cluster("odd"), lambda: ask("odd", AskStatus())):
            with pytest.raises(HarnessError, match="the daemon of odd answers with something else than its status"):
                ask_it()
        assert cluster_names() == ["odd"]


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_damaged_answer_never_ends_as_an_internal_error(up: Up, seed: int) -> None:
    dice = random.Random(seed)
    whole = msgspec.json.encode(Reply(status=find_cluster("one")))
    for _ in range(25):
        damaged = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(damaged))
            damaged[at : at + dice.randint(0, 9)] = dice.choice(
                (b"", b"null", b"{", b"]", b'"', b"\xff", b"9" * 4_400, b"[" * 70, bytes([dice.randrange(256)]))
            )
        with listening(says(bytes(damaged) + b"\n")):
            for request in (AskStatus(), Fire(step=step_of("stop", target="leader(t-0)"))):
                with contextlib.suppress(EbbtideError):
                    ask("odd", request)


def leave_socket(name: str) -> Path:
    """Leave the socket of a daemon that was killed."""
    path = sockets_dir() / f"{name}.sock"
    with open_control_socket(name):
        left = path.with_suffix(".left")
        os.link(path, left)
    return left.rename(path)


def test_clean_removes_the_sockets_of_dead_daemons_names_them_and_keeps_the_others(
    up: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.clean.ledgers_dir", lambda: tmp_path / "ledgers")
    monkeypatch.setattr("cluster.clean.abandoned_containers", lambda known: [])
    monkeypatch.setattr("cluster.clean.remove_abandoned", dict)
    left = leave_socket("two")
    [cleaned] = [one for one in clean() if one.run_id == "clusters"]
    assert cleaned.undone == (f"control socket {left} of a cluster whose daemon is dead",)
    assert cluster_names() == ["one"]
    assert clean() == []


@pytest.mark.parametrize(
    "command",
    [
        lambda: find_cluster(None),
        lambda: control.choose_name(None),
        lambda: main(["cluster", "status"]),
    ],
    ids=["a command for the only cluster", "a new cluster", "the status"],
)
def test_each_command_about_clusters_removes_the_socket_that_a_dead_daemon_left(command: Callable[[], object]) -> None:
    leave_socket("cluster-1")
    with contextlib.suppress(EbbtideError):
        command()
    assert cluster_names() == []
    assert control.choose_name(None) == "cluster-1"


def test_down_of_a_cluster_whose_daemon_is_dead_says_that_no_daemon_answers() -> None:
    leave_socket("two")
    with pytest.raises(HarnessError, match="no daemon answers for two"):
        end("two")
