"""The process around a copier: what it journals of each line, and what it makes of the end.

The Java program here is a shell script that prints lines as RemoteCopier.java does; tests/live runs the real one.
"""

from __future__ import annotations

import json
import signal
import struct
import zlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from client_configs import producer_config

from cluster.runtime.tool_command import ToolCommand
from ebbtide.errors import HarnessError
from ebbtide.journal.convert import convert_journals
from ebbtide.journal.payload import payload_start, value_at, value_of
from ebbtide.record.clients import read_client_events
from ebbtide.record.files import JOURNAL_DIR, RecordFolder
from ebbtide.waiting import wait_until
from workloads import java_copier, process
from workloads.config import CopySettings, Endpoints
from workloads.java_copier import run
from workloads.process import ClientState, StatusFile, Stop
from workloads.send_account import COUNTERS

_UNTIL_STOPPED = "cat > /dev/null\n"
"""The program ends when its stdin does."""


def _copy(sequence: int, of: int, partition: int = 0) -> dict[str, Any]:
    return {"partition": partition, "sequence": sequence, "from_partition": 1, "from_offset": of, "at_ns": 10 + of}


def _answer(sequence: int, offset: int, error: str = "") -> dict[str, Any]:
    return {"partition": 0, "sequence": sequence, "offset": offset, "at_ns": 50, "error": error}


def _ended(txn: int, outcome: str, why: str = "") -> dict[str, Any]:
    return {"ended": txn, "outcome": outcome, "why": why}


class Copier:
    """A copier's process whose Java program prints what a test says."""

    def __init__(self, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (record / JOURNAL_DIR).mkdir()
        self.record = record
        self.stop = Stop(str(record / "stop"))
        monkeypatch.setattr(java_copier, "await_leaders", lambda config, stop: ("localhost:1",))

    def run(
        self,
        *lines: dict[str, Any] | str,
        end: str = _UNTIL_STOPPED,
        stopped: bool = True,
        stop_timeout_s: float = 5.0,
        life: int = 0,
    ) -> ClientState:
        printed = [line if isinstance(line, str) else json.dumps(line, separators=(",", ":")) for line in lines]
        (self.record / "printed").write_text("".join(f"{line}\n" for line in printed))
        program = self.record / "java"
        program.write_text(f'#!/bin/sh\necho "$@" > {self.record}/asked\ncat {self.record}/printed\n{end}')
        program.chmod(0o755)
        if stopped:
            (self.record / "stop").touch()
        journal = self.record / JOURNAL_DIR
        config = producer_config(
            endpoints=Endpoints(status=str(journal / "status"), stop=str(self.record / "stop")),
            journal=str(journal / "producer-2.journal"),
            run_id="run-1",
            bootstrap=("localhost:1",),
            id=2,
            topic="out",
            transactional_id="ebbtide-2",
            txn_records=20,
            java=ToolCommand(kafka="4.3.1", executable=str(program), options=(), class_path=("a.jar",)),
            copies=CopySettings(
                topic="in", group="copiers", offsets="in-transaction", journal=str(journal / "copies-2.journal")
            ),
            stop_timeout_s=stop_timeout_s,
            life=life,
        )
        status = StatusFile.create(Path(config.endpoints.status), len(COUNTERS))
        return run(config, status, self.stop)

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self.record / table).to_pylist()
        return rows


@pytest.fixture
def copier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copier:
    return Copier(tmp_path, monkeypatch)


def test_each_copy_has_its_input_its_outcome_and_its_transaction(copier: Copier) -> None:
    state = copier.run(
        "[warning][cds] the JVM itself warns of something",
        {"begun": 0},
        _copy(0, of=7),
        _copy(1, of=8),
        _answer(0, 3),
        _answer(1, 4),
        _ended(0, "committed"),
        {"begun": 1},
        _copy(2, of=9),
        _ended(1, "aborted", "org.apache.kafka.common.errors.TimeoutException"),
    )
    convert_journals(RecordFolder(copier.record))
    assert state == ClientState.STOPPED
    copies = copier.rows("copies")
    places = {(row["group"], row["topic"], row["partition"], row["copied_to"]) for row in copies}
    assert places == {("copiers", "in", 1, "out")}
    assert [(row["offset"], row["value"]) for row in copies] == [
        (7 + number, value_at(2, number)) for number in range(3)
    ]
    sends = [(row["value"], row["status"], row["offset"], row["txn_outcome"]) for row in copier.rows("sends")]
    assert sends == [
        (value_at(2, 0), "acked", 3, "committed"),
        (value_at(2, 1), "acked", 4, "committed"),
        (value_at(2, 2), "unknown", None, "aborted"),
    ]
    events = (read_client_events(RecordFolder(copier.record)) or {})["producer-2"]
    assert [(one.txn, one.outcome, one.records, one.why) for one in events] == [
        (value_at(2, 0), "committed", 2, ""),
        (value_at(2, 1), "aborted", 1, "TIMEOUT"),
    ]


def test_a_copier_that_starts_again_counts_its_transactions_anew_and_mixes_none_up(copier: Copier) -> None:
    copier.run({"begun": 0}, _copy(0, of=7), _answer(0, 3))
    copier.run({"begun": 0}, _copy(0, of=7), _answer(0, 5), _ended(0, "committed"), life=1)
    convert_journals(RecordFolder(copier.record))
    assert [row["txn_outcome"] for row in copier.rows("sends")] == ["unknown", "committed"]


class _StopWhenPrinted(Stop):
    """Comes once the program has printed all that it prints, which the pipe holds."""

    def __init__(self, file: Path) -> None:
        super().__init__(str(file))
        self.path = file

    def __bool__(self) -> bool:
        return wait_until(lambda: self.path.exists() or None, awaited="the program has printed all", timeout_s=30)


def test_all_that_a_program_printed_before_it_is_killed_is_journalled(
    copier: Copier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java_copier, "_READ_BYTES", 1000)
    copier.stop = _StopWhenPrinted(copier.record / "stop")
    copies = [_copy(number, of=number) for number in range(500)]
    end = f"touch {copier.record}/stop\nexec sleep 60\n"
    state = copier.run({"begun": 0}, *copies, end=end, stopped=False, stop_timeout_s=0.0)
    convert_journals(RecordFolder(copier.record))
    assert state == ClientState.STOPPED
    assert len(copier.rows("copies")) == len(copier.rows("sends")) == 500


def test_a_transaction_without_an_end_is_unknown(copier: Copier) -> None:
    copier.run({"begun": 0}, _copy(0, of=0), _answer(0, 0))
    convert_journals(RecordFolder(copier.record))
    assert [(row["status"], row["txn_outcome"]) for row in copier.rows("sends")] == [("acked", "unknown")]


def test_a_failed_send_is_unknown_since_the_client_may_have_tried_before(copier: Copier) -> None:
    error = "org.apache.kafka.common.errors.NotEnoughReplicasException"
    copier.run({"begun": 0}, _copy(0, of=0), _answer(0, -1, error), _ended(0, "aborted"))
    convert_journals(RecordFolder(copier.record))
    assert [(row["status"], row["error"]) for row in copier.rows("sends")] == [("unknown", "NOT_ENOUGH_REPLICAS")]


def test_the_program_is_given_both_clients_settings_and_where_its_values_begin(copier: Copier) -> None:
    copier.run()
    asked = (copier.record / "asked").read_text().split()
    assert asked[-6:-1] == ["in", "out", "1", "in-transaction", str(value_at(2, 0) - 1)]
    consumer = Path(asked[-7]).read_text()
    assert "group.id=copiers" in consumer
    assert "isolation.level=read_committed" in consumer
    assert "max.poll.records=20" in consumer
    assert "transactional.id=ebbtide-2" in Path(asked[-8]).read_text()


def test_a_payload_that_the_program_makes_reads_as_one_of_the_run() -> None:
    body = payload_start("run-1", 2, 64) + struct.pack("<qq", 5, value_at(2, 9))
    payload = body + struct.pack("<I", zlib.crc32(body))
    assert (len(payload), value_of("run-1")(payload)) == (64, value_at(2, 9))


def test_a_program_that_ends_by_itself_ends_the_run_with_its_code(copier: Copier) -> None:
    with pytest.raises(HarnessError, match="ended by itself") as error:
        copier.run({"begun": 0}, _copy(0, of=0), end="exit 3\n", stopped=False)
    assert error.value.got == "exit code 3"
    convert_journals(RecordFolder(copier.record))
    assert [row["offset"] for row in copier.rows("copies")] == [0]


def test_a_signal_that_ended_the_program_ends_this_process_in_the_same_way(
    copier: Copier, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []

    def end(number: int) -> None:
        ended.append(number)
        raise SystemExit

    monkeypatch.setattr(java_copier, "end_as_child_did", end)
    with pytest.raises(SystemExit):
        copier.run(end="kill -TERM $$\n", stopped=False)
    assert ended == [signal.SIGTERM]
    assert process.end_as_child_did is not end


def test_a_copier_that_counts_otherwise_is_an_error(copier: Copier) -> None:
    with pytest.raises(HarnessError, match="counts otherwise"):
        copier.run({"begun": 0}, _copy(1, of=0))
