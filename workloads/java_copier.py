"""A copier with Kafka's own Java clients: it reads a topic in a group, and sends one record for each that it reads.

`python -m ebbtide.command workloads.java_copier CONFIG.json`, whose configuration is a
`workloads.config.ProducerConfig` with `copies` and a `java` program. `RemoteCopier.java` copies; this process journals
each of its lines as it comes.

The records of one poll are one transaction, with the group's offsets in it (KIP-447). After an error the copier aborts,
and goes back to where its group is. If the abort fails, or a commit has no answer, it opens both clients again, as an
application that restarts. If the program does not end within `stop_timeout_s` after a stop, it is killed.
"""

from __future__ import annotations

import base64
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ebbtide import run_clock
from ebbtide.errors import HarnessError
from ebbtide.journal.commits import Copy, pack_copies
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.outcomes import outcome_of_last_answer
from ebbtide.journal.payload import payload_start
from ebbtide.properties_file import render
from ebbtide.record.clients import ClientEvent, TxnOutcome
from workloads.config import CopySettings, ProducerConfig
from workloads.java_remote import name_of_exception, program_command
from workloads.library_settings import java_copier_settings, java_settings, makes_one_attempt
from workloads.process import ClientState, StatusFile, Stop, end_as_child_did
from workloads.sending import await_leaders, run_producer
from workloads.settings import format_value
from workloads.single_sends import SingleSends

_SOURCE = Path(__file__).with_name("RemoteCopier.java")
_SERDE = "org.apache.kafka.common.serialization.ByteArray"
_READ_BYTES = 1 << 16


class _CopierLine(msgspec.Struct, kw_only=True):
    """One line of the program; which of the fields are set says what it is."""

    begun: int | None = None
    ended: int | None = None
    outcome: TxnOutcome = "unknown"
    why: str = ""
    partition: int = -1
    sequence: int = -1
    from_partition: int | None = None
    from_offset: int = -1
    offset: int = -1
    at_ns: int = 0
    error: str = ""


class CopierJournals:
    """The journals of one copier: its sends, and what each is a copy of."""

    def __init__(self, config: ProducerConfig, copies: CopySettings, sends: SingleSends) -> None:
        self._sends = sends
        self._value_at = config.value_at
        header = JournalHeader(table="copies", id=config.id, topics=(copies.topic, config.topic), group=copies.group)
        self._writer = JournalWriter(Path(copies.journal), header, config.life)
        self._is_only_attempt = makes_one_attempt(config)
        self._copies: list[Copy] = []
        self._number = 0
        self._of_txn = 0

    def note(self, line: _CopierLine) -> None:
        """Note one line of the program, in their order."""
        at_ns = run_clock.time_of_wall(line.at_ns) if line.at_ns else 0
        if line.begun is not None:
            # What was handed over before does not belong to the transaction, so it is written first.
            self.flush()
            self._sends.begin_txn(self._value_at(line.begun))
            self._of_txn = 0
        elif line.ended is not None:
            txn = self._value_at(line.ended)
            self._sends.end_txn(txn, line.outcome)
            self._sends.journal_event(
                ClientEvent(
                    event="transaction",
                    at_ns=run_clock.now_ns(),
                    txn=txn,
                    outcome=line.outcome,
                    records=self._of_txn,
                    why=name_of_exception(line.why) if "." in line.why else line.why,
                )
            )
        elif line.from_partition is not None:
            self._hand_over(line, line.from_partition, at_ns)
        else:
            self._note_answer(line, at_ns)

    def flush(self) -> None:
        """Journal what happened since the last flush; copies first, so that no send lacks its copy."""
        copies, self._copies = self._copies, []
        if copies:
            self._writer.write([pack_copies(copies)])
        self._sends.flush()

    def _hand_over(self, line: _CopierLine, from_partition: int, at_ns: int) -> None:
        value = self._value_at(self._number)
        self._number += 1
        self._of_txn += 1
        self._copies.append(Copy(partition=from_partition, offset=line.from_offset, value=value, at_ns=at_ns))
        sequence = self._sends.hand_over(self._sends.lanes[line.partition], value, at_ns)
        if sequence != line.sequence:
            raise HarnessError("the copier counts otherwise", got=str(line.sequence), allowed=str(sequence))

    def _note_answer(self, line: _CopierLine, at_ns: int) -> None:
        lane = self._sends.lanes[line.partition]
        if line.error:
            name = name_of_exception(line.error)
            outcome = outcome_of_last_answer(name, is_only_attempt=self._is_only_attempt)
            self._sends.answer(lane, line.sequence, outcome, None, name, at_ns)
        else:
            offset = line.offset if line.offset >= 0 else None
            self._sends.answer(lane, line.sequence, "acked", offset, "", at_ns)


def run(config: ProducerConfig, status: StatusFile, stop: Stop) -> ClientState:
    """Copy until stopped; returns the last state. Raises `HarnessError` if the program ends by itself."""
    assert config.java is not None
    assert config.copies is not None
    header = JournalHeader(table="sends", id=config.id, topics=(config.topic,), acks=config.acks)
    sends = SingleSends(JournalWriter(Path(config.journal), header, config.life), status, config.partitions)
    journals = CopierJournals(config, config.copies, sends)
    bootstrap = await_leaders(config, stop)
    if not bootstrap:
        return ClientState.STOPPED
    brokers = {"bootstrap.servers": ",".join(bootstrap)}
    written = {f"{kind}.serializer": f"{_SERDE}Serializer" for kind in ("key", "value")}
    read = {f"{kind}.deserializer": f"{_SERDE}Deserializer" for kind in ("key", "value")}
    files = []
    for name, settings, own in (
        ("producer", java_settings(config), written),
        ("consumer", java_copier_settings(config, config.copies), read),
    ):
        file = Path(config.endpoints.status).with_suffix(f".{name}.properties")
        file.write_text(render({**{key: format_value(value) for key, value in settings.items()}, **brokers, **own}))
        files.append(str(file))
    start = payload_start(config.run_id, config.id, config.payload_bytes)
    words = [*files, config.copies.topic, config.topic, str(config.partitions), config.copies.offsets]
    words += [str(config.value_at(0) - 1), base64.b64encode(start).decode()]
    command = program_command(config.java, _SOURCE, words)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        try:
            return _follow(config, program, journals, sends, status, stop)
        finally:
            program.kill()


def _follow(
    config: ProducerConfig,
    program: subprocess.Popen[bytes],
    journals: CopierJournals,
    sends: SingleSends,
    status: StatusFile,
    stop: Stop,
) -> ClientState:
    """Journal the program's lines until it ends; `stop_timeout_s` after a stop it is killed."""
    assert program.stdout is not None
    assert program.stdin is not None
    out = program.stdout.fileno()
    os.set_blocking(out, False)
    decode = msgspec.json.Decoder(_CopierLine).decode
    interval_s = config.flush_interval_ms / 1000
    stop_at, rest = None, b""
    status.set_state(ClientState.RUNNING)
    while True:
        readable, _, _ = select.select([out], [], [], interval_s)
        read = os.read(out, _READ_BYTES) if readable else None
        *lines, rest = (rest + (read or b"")).split(b"\n")
        for text in lines:
            if text.startswith(b"{") and text.endswith(b"}"):
                journals.note(decode(text))
            else:
                # What the JVM itself warns of shares the output.
                sys.stderr.write(text.decode(errors="replace") + "\n")
        journals.flush()
        now = time.monotonic()
        if stop_at is None and stop:
            stop_at = now + config.stop_timeout_s
            program.stdin.close()
        elif stop_at is not None and now >= stop_at:
            # What it has printed is still read: each line may stand for a copy in the log.
            program.kill()
        if read == b"":
            break
    sends.abandon()
    if stop_at is not None:
        return ClientState.STOPPED
    code = program.wait()
    if code < 0:
        # The harness sees the signal as if it had hit this process: something outside of the run sent it.
        end_as_child_did(-code)
    raise HarnessError(
        "the copier's program ended by itself", got=f"exit code {code}", next="its last words are in this client's log"
    )


def main(argv: Sequence[str]) -> int:
    """Run the copier to its end."""
    return run_producer(argv, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
