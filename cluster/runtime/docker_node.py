"""A node's container: made once, started again after each fault.

The container has no network of Docker's. Its first process is a shell that waits at a gate, a named pipe in the run
folder, until its network is plugged in. It reads one word, `format` or `run`, and becomes the JVM. The pid stays the
same, so that signals and proofs work as on the local runtime. Folders are mounted at the paths that they have on the
host.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cluster.host.children import LOOK_S, ProcessTimes
from cluster.host.containers import Container, docker_errors, docker_host, labels_of
from cluster.host.ledger import Ledger
from cluster.host.processes import KILL_TIMEOUT_S, OwnedProcess, ProcessId, identify, is_alive, mark_of, state_of
from cluster.images.find import Image
from cluster.runtime.base import NodeInfo
from cluster.runtime.jvm import JavaProgram, jvm_options
from ebbtide import run_clock
from ebbtide.errors import HarnessError
from ebbtide.memory import how_ended
from ebbtide.record.node_times import NodeTimes
from ebbtide.releases.builds import is_build
from ebbtide.waiting import wait_until

if TYPE_CHECKING:
    import docker

Task = Literal["format", "run"]

LIBS = "/opt/kafka/libs"
CLASS_ARCHIVE = Path("/opt/kafka/classes.jsa")

GATE_TIMEOUT_S = 10.0
ENDED_TIMEOUT_S = 10.0
"""How long (s) the daemon may take to notice that a process has ended."""

WRONG_RELEASE = 64
"""The exit code of a container whose image does not hold the release (sysexits: EX_USAGE)."""

_HANDLED_BY_JVM = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


class NodeContainer:
    """The container of one node, from `create` on; the ledger removes it."""

    def __init__(self, client: docker.DockerClient, ledger: Ledger, node: NodeInfo, folder: Path) -> None:
        """`folder` is in the run folder; the container's gate is made in it."""
        self._client = client
        self._ledger = ledger
        self._node = node
        self._gate = folder / f"{node.name}.gate"
        self._container = Container(
            docker_host=docker_host(), name=f"ebbtide-{ledger.run_id}-{node.name}", run_id=ledger.run_id
        )

    def create(
        self, image: Image, kafka: str, programs: dict[Task, JavaProgram], *, log: Path, folders: Sequence[Path]
    ) -> None:
        """Make the container of `image`, with `folders` mounted. Raises `HarnessError`."""
        self._gate.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(self._gate)
        script = _script(self._gate, log, image, kafka, programs)
        self._ledger.make(self._container, lambda: self._create(image, script, [self._gate, *folders]))

    def remove(self) -> None:
        """Remove the container, whose process has ended, and its gate. Raises `HarnessError`."""
        with docker_errors(f"remove the container {self._container.name}"):
            self._ledger.undo(self._container)
        self._gate.unlink(missing_ok=True)

    def start(self) -> tuple[ProcessId, int]:
        """Start the container; returns its process, which waits at the gate, and a time (ns) before it began.

        Raises `HarnessError`.
        """
        began_ns = run_clock.now_ns()
        with docker_errors(f"start the container {self._container.name}"):
            self._client.api.start(self._container.name)
            pid = self._client.api.inspect_container(self._container.name)["State"]["Pid"]
        try:
            return identify(pid), began_ns
        except ProcessLookupError:
            raise self._wrong_daemon_error(f"pid {pid} is not a process of this host") from None

    def adopt(self, process: ProcessId, began_ns: int) -> ContainerProcess:
        """Write the process into the ledger, since it outlives a daemon that is killed."""
        entry = OwnedProcess(name=f"{self._node.name} in its container", process=process, run_id=self._ledger.run_id)
        self._ledger.record(entry)
        return ContainerProcess(self, entry, self._ledger, began_ns)

    def check_sees(self, folder: Path, pid: int) -> None:
        """Raise `HarnessError` unless the container sees the host's `folder`.

        File system and inode are compared. A daemon in another mount namespace than this process shows its containers
        what lies below the mount.
        """
        here = folder.stat()
        try:
            there = Path(f"/proc/{pid}/root{folder}").stat()
        except OSError as error:
            raise self._wrong_daemon_error(f"{folder} cannot be seen in it: {error.strerror}") from None
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            raise self._wrong_daemon_error(f"{folder} is another folder in it than here")

    def open_gate(self, task: Task, process: ContainerProcess) -> None:
        """Open the gate: the shell becomes the task's JVM.

        Raises `HarnessError` when the shell died before.
        """

        def open_for_writing() -> tuple[int] | None:
            if not process.is_running():
                raise HarnessError(
                    f"the container of {self._node.name} ended before it read its task",
                    where=self._container.name,
                    got=how_ended(process.exit_status()),
                    next="check that its image has /bin/sh: docker run --rm -it --entrypoint /bin/sh IMAGE",
                )
            with contextlib.suppress(OSError):  # ENXIO: the shell has not opened the gate yet
                return (os.open(self._gate, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC),)
            return None

        at_gate = f"the container of {self._node.name} at its gate"
        (handle,) = wait_until(open_for_writing, awaited=at_gate, timeout_s=GATE_TIMEOUT_S)
        try:
            os.write(handle, f"{task}\n".encode())
        finally:
            os.close(handle)
        process.note_start()

    def exit_code(self) -> int | None:
        """Return the exit code that the daemon knows; None while it says "running"."""
        with docker_errors(f"report how {self._container.name} ended"):
            state = self._client.api.inspect_container(self._container.name)["State"]
        return None if state["Running"] else int(state["ExitCode"])

    def _create(self, image: Image, script: str, binds: Sequence[Path]) -> None:
        from docker.errors import APIError
        from docker.types import LogConfig, Mount

        with docker_errors(f"make the container {self._container.name}"):
            try:
                self._client.api.create_container(
                    image=image.id,
                    entrypoint=["/bin/sh", "-c", script],
                    command=[],
                    name=self._container.name,
                    hostname=self._node.name,
                    user="0:0",
                    labels=labels_of(self._ledger.run_id),
                    environment=mark_of(self._ledger.run_id),
                    host_config=self._client.api.create_host_config(
                        network_mode="none",
                        # The JVM resolves its own name, and would wait for a name server that is not reachable.
                        extra_hosts={self._node.name: self._node.address},
                        # Volumes belong to the host's root, even where the daemon maps users.
                        userns_mode="host",
                        mounts=[Mount(str(path), str(path), type="bind") for path in binds],
                        log_config=LogConfig(type="none"),
                    ),
                )
            except APIError as error:
                if error.status_code == 409:
                    raise FileExistsError(0, "taken", self._container.name) from None
                raise

    def _wrong_daemon_error(self, got: str) -> HarnessError:
        return HarnessError(
            "the Docker daemon does not run containers where this process can break them",
            where=self._container.docker_host,
            got=got,
            next="use a daemon of this host and this mount namespace, or --runtime local",
        )


class ContainerProcess:
    """The first process of a started container (a `NodeProcess`).

    Signals go to it directly.
    """

    def __init__(self, container: NodeContainer, entry: OwnedProcess, ledger: Ledger, began_ns: int) -> None:
        """Private: use `NodeContainer.adopt`."""
        self._container = container
        self._entry = entry
        self._ledger = ledger
        self._status: int | None = None
        self._times = ProcessTimes(began_ns)
        self.pid = entry.process.pid

    @property
    def times(self) -> NodeTimes:
        """When it started, and when it ended if that was seen."""
        return self._times.times

    def note_start(self) -> None:
        """Note that its gate was opened just now."""
        self._times.note_start()

    def is_running(self) -> bool:
        """Whether the process has not ended yet."""
        if self._times.look(lambda: is_alive(self._entry.process)):
            return True
        self._ledger.forget(self._entry)
        return False

    def exit_status(self) -> int | None:
        """Return None while it runs, then its exit code or minus the signal that ended it.

        Raises `HarnessError` when the daemon, which alone knows, does not answer.
        """
        if self._status is None and not self.is_running():
            code = wait_until(
                lambda: None if (ended := self._container.exit_code()) is None else (ended,),
                awaited=f"the daemon to know how {self._entry.describe()} ended",
                timeout_s=ENDED_TIMEOUT_S,
            )[0]
            self._status = exit_status_of(code)
        return self._status

    def send(self, number: signal.Signals) -> None:
        """Send a signal; does nothing when the process has ended."""
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(self.pid)
            try:
                # The pidfd pins the process: between this check and the signal the pid cannot be reused.
                if self.is_running():
                    if number == signal.SIGKILL:
                        self._times.note_kill()
                    signal.pidfd_send_signal(pidfd, number)
            finally:
                os.close(pidfd)

    def wait(self, timeout_s: float) -> int:
        """Wait until the process has ended and is reaped; returns its exit status.

        Raises `WaitExpired`.
        """
        self._wait_ended(timeout_s)
        status = self.exit_status()
        assert status is not None
        return status

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process is reaped. Needs no daemon."""
        self.send(signal.SIGKILL)
        self._wait_ended(KILL_TIMEOUT_S)
        self._ledger.forget(self._entry)

    def _wait_ended(self, timeout_s: float) -> None:
        wait_until(
            lambda: not self.is_running() and not self._exists(),
            awaited=f"{self._entry.describe()} to end",
            timeout_s=timeout_s,
            last_seen=lambda: f"state {state_of(self.pid)}",
            poll_s=LOOK_S,
        )

    def _exists(self) -> bool:
        """Whether the process exists, even as a zombie that the shim must still reap."""
        try:
            return identify(self.pid) == self._entry.process
        except ProcessLookupError:
            return False


def exit_status_of(exit_code: int) -> int:
    """Return Docker's exit code as `Popen.returncode` has it: minus n for 128 + n.

    The JVM handles SIGTERM and a few others and exits with 128 + n itself: that stays an exit code. (As the first
    process of its container, it cannot be ended by a signal that it does not handle.)
    """
    number = exit_code - 128
    if number in signal.valid_signals() and number not in _HANDLED_BY_JVM:
        return -number
    return exit_code


def _script(gate: Path, log: Path, image: Image, kafka: str, programs: dict[Task, JavaProgram]) -> str:
    archive = CLASS_ARCHIVE if image.class_archive else None
    cases = "".join(
        f"{task}) exec java {shlex.join([*jvm_options(program.heap_mb, archive), *program.options])}"
        f' -cp "$classes" {shlex.join([program.main, *program.arguments])} ;;\n'
        for task, program in programs.items()
    )
    # The image of a build is made from its jars. Another one may hold a build of the release, such as 4.5.0-SNAPSHOT.
    jars = f"{LIBS}/kafka_*.jar" if is_build(kafka) else f"{LIBS}/kafka_*-{kafka}.jar {LIBS}/kafka_*-{kafka}-*.jar"
    return (
        f"read -r task <{shlex.quote(str(gate))} || exit 1\n"
        f"exec >>{shlex.quote(str(log))} 2>&1 </dev/null\n"
        f'for jar in {jars}; do [ -e "$jar" ] && break; done\n'
        '[ -e "$jar" ] || {\n'
        f"  echo ERROR the image {shlex.quote(image.reference)} does not hold Kafka {kafka}: $(ls {LIBS}/kafka_*.jar)\n"
        f"  exit {WRONG_RELEASE}\n}}\n"
        # A class archive is valid for one order of the jars, by the bytes of their names.
        f'classes=$(LC_ALL=C; export LC_ALL; set -- {LIBS}/*.jar; IFS=:; echo "$*")\n'
        f"case $task in\n{cases}esac\nexit 1\n"
    )
