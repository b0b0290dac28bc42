"""A producer process that sends with Kafka's own Java client, by Kafka's VerifiableProducer.

`python -m ebbtide.command workloads.java_producer CONFIG.json`, whose configuration is a
`workloads.config.ProducerConfig` with a `java` program.

VerifiableProducer prints one JSON line for each answer. This process starts it, and journals each line as it comes.

- The payload of record N of producer 3 is the text `3.N`. Records are handed over in the order of N, so that an
  answer for N says that all earlier records were handed over too.
- Nothing says when a record was sent: `sent_ns` is the time of the first answer that shows the record.
- The tool's closing line has the number of records that it sent. A killed producer leaves no row for records in
  flight beyond its last answer.
- The Java client reports the last error of a record, and not how its earlier attempts ended.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cluster.runtime.tool_command import ToolCommand
from ebbtide import run_clock
from ebbtide.errors import HarnessError
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.outcomes import outcome_of_last_answer
from ebbtide.journal.payload import value_at
from ebbtide.properties_file import render
from workloads.config import ProducerConfig
from workloads.library_settings import java_settings, makes_one_attempt
from workloads.process import Stop, end_as_child_did
from workloads.sending import await_leaders, partition_of_key, run_producer
from workloads.settings import format_value
from workloads.single_sends import OpenPartition, SingleSends
from workloads.status import ClientState, StatusFile

_MAIN = "org.apache.kafka.tools.VerifiableProducer"
_READ_BYTES = 1 << 16
_WORD = re.compile(r"(?<!^)(?=[A-Z])")


class _ToolLine(msgspec.Struct, kw_only=True):
    """One line of the tool; `name` says which of the other fields are there."""

    name: str
    timestamp: int = 0
    value: str = ""
    partition: int = -1
    offset: int = -1
    exception: str = ""
    message: str = ""
    sent: int = 0


class SentNumbers:
    """The records that the tool has handed over, by their running number."""

    def __init__(self, config: ProducerConfig, sends: SingleSends) -> None:
        self._sends = sends
        self._producer = config.id
        keys = config.keys
        self._turns = sends.lanes if keys is None else [self._lane_of_key(n) for n in range(keys)]
        self._next = 0
        self._open: dict[int, tuple[OpenPartition, int]] = {}

    def _lane_of_key(self, key: int) -> OpenPartition:
        lanes = self._sends.lanes
        return lanes[partition_of_key(b"%d" % key, len(lanes))]

    def hand_over_below(self, end: int, sent_ns: int) -> None:
        """Note that all records below `end` were handed over, those that are new at `sent_ns`."""
        for number in range(self._next, end):
            lane = self._turns[number % len(self._turns)]
            self._open[number] = lane, self._sends.hand_over(lane, value_at(self._producer, number), sent_ns)
        self._next = max(self._next, end)

    def note_answer(self, line: _ToolLine, *, is_only_attempt: bool) -> None:
        """Journal the answer of one record. Raises `HarnessError` for a line that does not fit the producer."""
        prefix, _, number = line.value.partition(".")
        if prefix != str(self._producer) or not number.isdigit():
            raise HarnessError("VerifiableProducer reports a record that it was not asked for", got=line.value)
        # The tool cuts its times to milliseconds. The end of that millisecond never makes an ack older than it was.
        at_ns = run_clock.time_of_wall(line.timestamp * 1_000_000 + 999_999)
        self.hand_over_below(int(number) + 1, at_ns)
        sent = self._open.pop(int(number), None)
        if sent is None:
            return
        lane, sequence = sent
        if line.name == "producer_send_error":
            name = name_of_exception(line.exception)
            outcome = outcome_of_last_answer(name, is_only_attempt=is_only_attempt)
            self._sends.answer(lane, sequence, outcome, None, name, at_ns)
        elif line.partition != lane.partition:
            raise HarnessError(
                "VerifiableProducer chose another partition than Kafka's default partitioner",
                got=str(line.partition),
                allowed=str(lane.partition),
            )
        else:
            self._sends.answer(lane, sequence, "acked", line.offset if line.offset >= 0 else None, "", at_ns)


def name_of_exception(text: str) -> str:
    """Return Kafka's name of an error for Java's exception.

    `class org.apache.kafka.common.errors.NotEnoughReplicasException` is NOT_ENOUGH_REPLICAS.
    """
    simple = text.rpartition(".")[2].removesuffix("Exception")
    return _WORD.sub("_", simple).upper()


def run(config: ProducerConfig, status: StatusFile, stop: Stop) -> ClientState:
    """Produce until every record has an outcome, or until stopped; returns the state.

    Raises `HarnessError` with the tool's last words when it ends by itself with an error.
    """
    assert config.java is not None
    header = JournalHeader(table="sends", id=config.id, topics=(config.topic,), acks=config.acks)
    sends = SingleSends(JournalWriter(Path(config.journal), header), status, config.partitions)
    bootstrap = await_leaders(config, stop)
    if not bootstrap:
        return ClientState.STOPPED
    settings = Path(config.endpoints.status).with_suffix(".properties")
    settings.write_text(render({name: format_value(value) for name, value in java_settings(config).items()}))
    command = ["setpriv", "--pdeathsig", "KILL", "--", *command_of(config, config.java, settings, bootstrap)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as tool:
        try:
            return _follow(config, tool, sends, status, stop)
        finally:
            tool.kill()


def command_of(config: ProducerConfig, java: ToolCommand, settings: Path, bootstrap: Sequence[str]) -> list[str]:
    """Return the tool's command; `settings` is the file with those of its producer."""
    words = [java.executable, *java.options, "-cp", os.pathsep.join(java.class_path), _MAIN]
    words += ["--bootstrap-server", ",".join(bootstrap), "--topic", config.topic, "--acks", str(config.acks)]
    words += ["--value-prefix", str(config.id), "--producer.config", str(settings)]
    if config.count is not None:
        words += ["--max-messages", str(config.count)]
    if config.rate_per_s is not None:
        words += ["--throughput", str(int(config.rate_per_s))]
    if config.keys is not None:
        words += ["--repeating-keys", str(config.keys)]
    return words


def _follow(
    config: ProducerConfig, tool: subprocess.Popen[bytes], sends: SingleSends, status: StatusFile, stop: Stop
) -> ClientState:
    """Journal the tool's lines until it ends, or until `stop_timeout_s` after a stop."""
    assert tool.stdout is not None
    out = tool.stdout.fileno()
    os.set_blocking(out, False)
    numbers, decode = SentNumbers(config, sends), msgspec.json.Decoder(_ToolLine).decode
    is_only_attempt = makes_one_attempt(config)
    interval_s = config.flush_interval_ms / 1000
    flush_at, stop_at, rest = time.monotonic(), None, b""
    while True:
        readable, _, _ = select.select([out], [], [], interval_s)
        read = os.read(out, _READ_BYTES) if readable else None
        *lines, rest = (rest + (read or b"")).split(b"\n")
        for text in lines:
            try:
                line = decode(text)
            except msgspec.MsgspecError:
                # The tool's log lines share its output.
                sys.stderr.write(text.decode(errors="replace") + "\n")
                continue
            if line.name == "startup_complete":
                status.set_state(ClientState.RUNNING)
            elif line.name in ("producer_send_success", "producer_send_error"):
                numbers.note_answer(line, is_only_attempt=is_only_attempt)
            elif line.name == "tool_data":
                numbers.hand_over_below(line.sent, run_clock.now_ns())
        now = time.monotonic()
        if now >= flush_at:
            sends.flush()
            flush_at = now + interval_s
        if stop_at is None and stop:
            stop_at = now + config.stop_timeout_s
            tool.terminate()
        if read == b"" or (stop_at is not None and now >= stop_at):
            break
    return _end(tool, sends, stopped=stop_at is not None)


def _end(tool: subprocess.Popen[bytes], sends: SingleSends, *, stopped: bool) -> ClientState:
    """Journal what has no answer, and return the state with which the tool ended."""
    sends.flush()
    if stopped:
        sends.abandon()
        return ClientState.STOPPED
    try:
        code = tool.wait(timeout=10)
    except subprocess.TimeoutExpired:
        raise HarnessError("VerifiableProducer closed its output and did not end") from None
    unanswered = sends.outstanding_count
    sends.abandon()
    if code < 0:
        # The harness sees the signal as if it had hit this process: something outside of the run sent it.
        end_as_child_did(-code)
    if code != 0 or unanswered:
        raise HarnessError(
            "VerifiableProducer ended by itself", got=f"exit code {code}, {unanswered} records without an answer"
        )
    return ClientState.DONE


def main(argv: Sequence[str]) -> int:
    """Run the producer to its end."""
    return run_producer(argv, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
