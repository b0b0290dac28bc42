"""Clients that are forked from one process: each is a process of its own, and none outlives that process."""

from __future__ import annotations

import functools
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from cluster.host.children import Child, start_child
from cluster.host.ledger import Ledger
from cluster.host.processes import mark_of, state_of
from cluster.runtime.base import ClientProcess
from ebbtide.command import module_command
from ebbtide.errors import HarnessError
from ebbtide.waiting import WaitExpired, wait_until
from workloads import forked_clients
from workloads.forked_clients import ForkedClients

_WAITING = """
import signal

def main(argv):
    print(argv[0], flush=True)
    signal.pause()
"""
_STARTS_NODES = ("cluster.host", "cluster.runtime.jvm")
"""Modules and packages that start nodes."""
Start = Callable[..., ClientProcess]


class World:
    """The clients of a test, and the processes that they are forked from."""

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self.servers: list[Child] = []
        self.folder = folder
        self._start_child = functools.partial(start_child, ledger)
        self.clients = ForkedClients(self._start_server, folder / "clients.log")

    def _start_server(self, argv: Sequence[str], *, name: str, output: Path, inherited: Sequence[int] = ()) -> Child:
        self.servers.append(self._start_child(argv, name=name, output=output, inherited=inherited))
        return self.servers[-1]

    def start(self, program: str, name: str, *arguments: str) -> ClientProcess:
        """Start a client with this program, and wait until it says something."""
        module, log = name.replace("-", "_"), self.folder / f"{name}.log"
        (self.folder / f"{module}.py").write_text(program)
        client = self.clients.start([*module_command(module), *arguments], name=name, output=log)
        wait_until(
            lambda: (log.exists() and log.stat().st_size) or client.exit_status() is not None,
            awaited=name,
            timeout_s=20,
        )
        return client


def await_end(client: ClientProcess) -> int | None:
    wait_until(lambda: client.exit_status() is not None, awaited="the end of the client", timeout_s=20)
    return client.exit_status()


@pytest.fixture
def world(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made = World(ledger, tmp_path)
    yield made
    made.clients.close()


def test_each_client_is_a_process_of_its_own_with_its_own_log(world: World) -> None:
    first, second = world.start(_WAITING, "producer-1", "one"), world.start(_WAITING, "producer-2", "two")
    (server,) = world.servers
    assert len(os.listdir(f"/proc/{server.pid}/task")) == 1, "a fork would lose the other threads"
    for client, name, said in ((first, "producer-1", "one"), (second, "producer-2", "two")):
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{client.pid}/status").read_text().splitlines())
        assert (status["Name"], status["PPid"]) == (name, str(server.pid))
        assert os.getsid(client.pid) == client.pid
        assert str(world.folder).encode() in Path(f"/proc/{client.pid}/cmdline").read_bytes(), "ps shows the run"
        environment = Path(f"/proc/{client.pid}/environ").read_bytes().split(b"\0")
        assert set(map("=".join, mark_of("r").items())) <= set(map(bytes.decode, environment))
        assert (world.folder / f"{name}.log").read_text() == f"{said}\n"
        files = [os.readlink(f"/proc/{client.pid}/fd/{file}") for file in os.listdir(f"/proc/{client.pid}/fd")]
        assert not [file for file in files if file.startswith("socket:") or "pidfd" in file]


def test_how_a_client_ended_is_known(world: World) -> None:
    ends = {
        "returned": ("def main(argv): return int(argv[0])", 0),
        "failed": ("def main(argv): return 3", 3),
        "crashed": ("def main(argv): raise RuntimeError('it broke')", 1),
        "left": ("import sys\ndef main(argv): sys.exit(7)", 7),
        "killed": ("import os\ndef main(argv): os.kill(os.getpid(), 9)", -signal.SIGKILL),
    }
    for name, (program, code) in ends.items():
        client = world.start(program, name, "0")
        assert await_end(client) == code
        assert client.kill() == code, "killing one that has ended changes nothing"
    assert "it broke" in (world.folder / "crashed.log").read_text()


def test_a_killed_client_is_reaped(world: World) -> None:
    client = world.start(_WAITING, "sampler", "there")
    assert client.exit_status() is None
    assert client.kill() == -signal.SIGKILL
    assert state_of(client.pid) is None


def test_no_client_outlives_the_process_that_forked_it(world: World) -> None:
    client = world.start(_WAITING, "sampler", "there")
    world.servers[0].kill()
    assert await_end(client) == -signal.SIGKILL
    with pytest.raises(HarnessError, match="forked from has ended"):
        world.start(_WAITING, "consumer-1", "there")


def test_the_end_of_the_run_ends_clients_that_still_run(world: World) -> None:
    client = world.start(_WAITING, "sampler", "there")
    world.clients.close()
    assert state_of(client.pid) in (None, "Z")
    assert client.exit_status() == -signal.SIGKILL


def test_the_first_client_waits_for_nothing_if_its_parent_was_begun(world: World) -> None:
    world.clients.begin()
    world.clients.begin()
    world.start(_WAITING, "sampler", "there")
    assert len(world.servers) == 1


def test_a_client_whose_start_took_too_long_is_killed_and_is_not_taken_for_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start(_WAITING, "sampler", "there")
    os.kill(world.servers[0].pid, signal.SIGSTOP)
    with monkeypatch.context() as short:
        short.setattr(forked_clients, "_START_TIMEOUT_S", 0.3)
        with pytest.raises(WaitExpired, match=r"late to start; last seen: .* in state T"):
            world.start(_WAITING, "late", "late")
    os.kill(world.servers[0].pid, signal.SIGCONT)
    following = world.start(_WAITING, "next", "next")
    assert Path(f"/proc/{following.pid}/comm").read_text() == "next\n"
    wait_until(lambda: "late" not in _names_below(world.servers[0].pid), awaited="the end of late", timeout_s=20)


def _names_below(pid: int) -> list[str]:
    return [child.name() for child in psutil.Process(pid).children()]


def test_a_failure_of_the_process_that_forks_is_not_taken_for_somebody_elses_signal(world: World) -> None:
    client = world.start(_WAITING, "sampler", "there")
    assert world.clients._link is not None
    world.clients._link.send(b"no JSON")
    with pytest.raises(HarnessError, match=r"(?s)forked from has ended.*DecodeError"):
        await_end(client)
    assert client.kill() == -signal.SIGKILL


def test_the_process_that_forks_clients_does_not_import_what_starts_a_node() -> None:
    script = "import sys; from workloads.fork_server import _IMPORTED; [__import__(one) for one in _IMPORTED]"
    script += f"; print(*(one for one in sys.modules if one.startswith({_STARTS_NODES})))"
    missing = [module for module in _STARTS_NODES if importlib.util.find_spec(module) is None]
    assert missing == [], "no process imports a module that does not exist"
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.split() == []


PROGRAMS = ("admin", "consumer", "final_read", "producer", "sampler", "topics")


def test_no_client_program_imports_pyarrow() -> None:
    imports = "\n".join(f"import workloads.{program}" for program in PROGRAMS)
    check = f"import sys\n{imports}\nprint('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
