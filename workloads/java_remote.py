"""Kafka's own Java producers in a process beside this one, by commands: `RemoteProducer.java`.

Kafka's Verifiable tools say neither when they sent a record nor which partition it was for, and print no offsets of
transactions. So the program is Ebbtide's. It decides nothing.
Janino, which Spark brings, compiles it as it starts: a Java runtime has no compiler.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec
from kafka.errors import KafkaError

from cluster.runtime.tool_command import COMPILER, ToolCommand, arguments_for
from ebbtide import run_clock
from ebbtide.errors import HarnessError
from workloads.process import end_as_child_did

_SOURCE = Path(__file__).with_name("RemoteProducer.java")
_ENDED = "the process of the Java client has ended"
_WORD = re.compile(r"(?<!^)(?=[A-Z])")
_END_S = 10.0
"""How long the end of a process that closed its output is awaited."""


def program_command(java: ToolCommand, source: Path, arguments: list[str]) -> list[str]:
    """Return the command that compiles a program of Ebbtide's and starts it; it dies with this process."""
    words = [java.executable, *java.options, "-cp", os.pathsep.join(java.class_path), COMPILER]
    return ["setpriv", "--pdeathsig", "KILL", "--", *words, *arguments_for(source, arguments)]


def name_of_exception(text: str) -> str:
    """Return Kafka's name of an error for Java's exception.

    `class org.apache.kafka.common.errors.NotEnoughReplicasException` is NOT_ENOUGH_REPLICAS.
    """
    simple = text.rpartition(".")[2].removesuffix("Exception")
    return _WORD.sub("_", simple).upper()


class JavaCallError(KafkaError):  # type: ignore[misc]
    """A call of a Java producer raised an exception; `names` are those of its class and of its cause's."""

    def __init__(self, message: str, names: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.names = names


class RecordAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How the send of one record ended; `error` is the class of Java's exception, empty for none."""

    partition: int
    sequence: int
    offset: int
    at_ns: int
    error: str


class _CallAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How one call ended; the classes of Java's exception and of its cause, empty for none."""

    call: int
    error: str
    cause: str
    message: str


class _OpenCall:
    """A call that waits for its answer; None: the process ended before."""

    def __init__(self) -> None:
        self.is_answered = threading.Event()
        self.answer: _CallAnswer | None = None


class RemoteProducers:
    """The process with the Java producers, and its answers. `close` it in the end.

    Calls may come from any thread, records from one. `settings` is the properties file of every producer.
    """

    def __init__(self, java: ToolCommand, settings: Path, topic: str) -> None:
        command = program_command(java, _SOURCE, [str(settings), topic])
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._open: dict[int, _OpenCall] = {}
        self._answers: deque[RecordAnswer] = deque()
        self._lines: list[bytes] = []
        self.has_ended = False
        """Whether the process has ended; all its answers are there then."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, incarnation: int, what: str) -> None:
        """Let a producer do something, and wait until it has. Raises `JavaCallError`."""
        number, one = next(self._numbers), _OpenCall()
        with self._lock:
            if self.has_ended:
                raise JavaCallError(_ENDED)
            self._open[number] = one
        self._write(b"%d %d %s\n" % (number, incarnation, what.encode()))
        one.is_answered.wait()
        answer = one.answer
        if answer is None:
            raise JavaCallError(_ENDED)
        if answer.error:
            names = tuple(name for name in (answer.error, answer.cause) if name)
            raise JavaCallError(f"{' of '.join(name.rpartition('.')[2] for name in names)}: {answer.message}", names)

    def send(self, incarnation: int, partition: int, sequence: int, key: bytes | None, payload: bytes) -> None:
        """Add a record to those that `flush` hands over."""
        key_text = b"-" if key is None else base64.b64encode(key)
        words = (b"%d %d %d" % (incarnation, partition, sequence), key_text, base64.b64encode(payload))
        self._lines.append(b"send " + b" ".join(words) + b"\n")

    def flush(self) -> None:
        """Hand over the records."""
        lines, self._lines = self._lines, []
        self._write(b"".join(lines))

    def answers(self) -> Iterator[RecordAnswer]:
        """Yield the answers that came since the last call, in order."""
        for _ in range(len(self._answers)):
            yield self._answers.popleft()

    def check(self) -> None:
        """Raise `HarnessError` if the process has ended.

        A signal that ended it ends this process in the same way: something outside of the run sent it, and the harness
        looks for that here.
        """
        if not self.has_ended:
            return
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            raise HarnessError("the process of the Java client closed its output and did not end") from None
        if code < 0:
            end_as_child_did(-code)
        raise HarnessError(
            f"{_ENDED} by itself", got=f"exit code {code}", next="its last words are in this client's log"
        )

    def close(self) -> None:
        """End the process; what it has not sent yet is never sent."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _write(self, text: bytes) -> None:
        assert self._process.stdin is not None
        # After its end, the reader fails all calls, and `check` says so.
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(text)
            self._process.stdin.flush()

    def _read(self) -> None:
        """Hand out the answers until the process ends."""
        assert self._process.stdout is not None
        decode = msgspec.json.Decoder(_CallAnswer).decode
        decode_record = msgspec.json.Decoder(RecordAnswer).decode
        try:
            for line in self._process.stdout:
                if not (line.startswith(b"{") and line.endswith(b"}\n")):
                    # What the JVM itself warns of shares the output; a program that was killed leaves a torn line.
                    sys.stderr.write(line.decode(errors="replace"))
                    continue
                if not line.startswith(b'{"call"'):
                    record = decode_record(line)
                    at_ns = run_clock.time_of_wall(record.at_ns)
                    self._answers.append(msgspec.structs.replace(record, at_ns=at_ns))
                    continue
                answer = decode(line)
                one = self._open.pop(answer.call)
                one.answer = answer
                one.is_answered.set()
        finally:
            with self._lock:
                self.has_ended = True
            for one in self._open.values():
                one.is_answered.set()
