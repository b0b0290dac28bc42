"""The process around Kafka's VerifiableProducer: each line of the tool becomes a row, whatever the tool does.

The tool here is a shell script that prints lines as VerifiableProducer does; tests/live runs the real one.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cluster.runtime.tool_command import ToolCommand
from ebbtide.errors import HarnessError
from ebbtide.journal.convert import convert_journals
from ebbtide.journal.payload import value_at, value_of
from ebbtide.record.files import JOURNAL_DIR
from ebbtide.record.folder import RecordFolder
from workloads import java_producer, process
from workloads.config import Endpoints, ProducerConfig
from workloads.java_producer import name_of_exception, run
from workloads.process import Stop
from workloads.send_account import COUNTERS
from workloads.sending import partition_of_key
from workloads.status import ClientState, StatusFile

STARTED = '{"timestamp":1,"name":"startup_complete"}'


def acked(number: int, offset: int, partition: int = 0) -> str:
    return (
        f'{{"timestamp":{1000 + number},"name":"producer_send_success","key":null,"value":"1.{number}",'
        f'"topic":"t","partition":{partition},"offset":{offset}}}'
    )


def refused(number: int, exception: str) -> str:
    return (
        f'{{"timestamp":{1000 + number},"name":"producer_send_error","exception":'
        f'"class org.apache.kafka.common.errors.{exception}","message":"m","topic":"t","key":null,'
        f'"value":"1.{number}"}}'
    )


class Tool:
    """A producer process whose tool prints given lines and ends with a code, or waits to be ended."""

    def __init__(self, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (record / JOURNAL_DIR).mkdir()
        self.record = record
        self.stop = Stop(str(record / "stop"))
        monkeypatch.setattr(java_producer, "await_leaders", lambda config, stop: ("localhost:1",))

    def run(self, lines: list[str], *, end: str = "exit 0", **settings: object) -> ClientState:
        script = self.record / "tool"
        script.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + f"\nEND\n{end}\n")
        script.chmod(0o755)
        partitions = int(str(settings.get("partitions", 1)))
        config = ProducerConfig(
            endpoints=Endpoints(status=str(self.record / "status"), stop=str(self.record / "stop")),
            journal=str(self.record / JOURNAL_DIR / "producer-1.journal"),
            run_id="run",
            bootstrap=("localhost:1",),
            id=1,
            topic="t",
            stop_timeout_s=0.3,
            java=ToolCommand(kafka="4.3.1", executable=str(script), options=(), class_path=("x.jar",)),
            **settings,  # type: ignore[arg-type]
        )
        status = StatusFile.create(self.record / "status", len(COUNTERS) * partitions)
        return run(config, status, self.stop)

    def rows(self) -> list[dict[str, object]]:
        convert_journals(RecordFolder(self.record))
        rows: list[dict[str, object]] = pq.read_table(self.record / "sends").to_pylist()
        return rows


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    return Tool(tmp_path, monkeypatch)


def test_each_line_of_the_tool_becomes_a_row_with_its_value_and_offset(tool: Tool) -> None:
    assert tool.run([STARTED, acked(0, 5), "a log line of the client", acked(1, 6)]) == ClientState.DONE
    assert [(row["sequence"], row["value"], row["status"], row["offset"]) for row in tool.rows()] == [
        (0, value_at(1, 0), "acked", 5),
        (1, value_at(1, 1), "acked", 6),
    ]


def test_an_error_is_unknown_because_an_earlier_attempt_may_have_been_appended(tool: Tool) -> None:
    assert tool.run([STARTED, refused(0, "NotEnoughReplicasException")]) == ClientState.DONE
    assert [(row["status"], row["error"]) for row in tool.rows()] == [("unknown", "NOT_ENOUGH_REPLICAS")]


def test_without_retries_a_certain_refusal_is_failed(tool: Tool) -> None:
    lines = [refused(0, "NotEnoughReplicasException"), refused(1, "NotEnoughReplicasAfterAppendException")]
    assert tool.run([STARTED, *lines], properties={"retries": "0"}) == ClientState.DONE
    assert [row["status"] for row in tool.rows()] == ["failed", "unknown"]


def test_a_record_that_the_tool_sent_and_never_answered_is_unknown(tool: Tool) -> None:
    data = '{"timestamp":9,"name":"tool_data","sent":4,"acked":1,"target_throughput":-1,"avg_throughput":1.0}'
    with pytest.raises(HarnessError, match="3 records without an answer"):
        tool.run([STARTED, acked(1, 0), data])
    assert [(row["sequence"], row["status"]) for row in tool.rows()] == [
        (0, "unknown"),
        (1, "acked"),
        (2, "unknown"),
        (3, "unknown"),
    ]


def test_a_stopped_producer_ends_in_time_although_its_tool_does_not(tool: Tool) -> None:
    tool.record.joinpath("stop").touch()
    assert tool.run([STARTED, acked(0, 0)], end="trap '' TERM; sleep 30") == ClientState.STOPPED
    assert [row["status"] for row in tool.rows()] == ["acked"]


def test_a_tool_that_ends_with_an_error_is_an_error_of_the_harness(tool: Tool) -> None:
    with pytest.raises(HarnessError, match="exit code 1"):
        tool.run([STARTED, acked(0, 0)], end="exit 1")


def test_a_tool_that_something_outside_killed_ends_its_process_in_the_same_way(
    tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(process.os, "kill", lambda pid, number: sent.append(number))
    with pytest.raises(HarnessError, match="exit code -9"):
        tool.run([STARTED, acked(0, 0)], end="kill -9 $$")
    assert sent == [signal.SIGKILL]
    assert [row["status"] for row in tool.rows()] == ["acked"]


def test_with_keys_each_partition_counts_its_own_sequence(tool: Tool) -> None:
    partitions = [partition_of_key(b"%d" % (number % 3), 2) for number in range(6)]
    offsets = [partitions[:number].count(partitions[number]) for number in range(6)]
    lines = [acked(number, offsets[number], partitions[number]) for number in range(6)]
    assert tool.run([STARTED, *lines], keys=3, partitions=2) == ClientState.DONE
    rows = tool.rows()
    assert sorted((row["value"], row["partition"], row["sequence"]) for row in rows) == [
        (value_at(1, number), partitions[number], offsets[number]) for number in range(6)
    ]


def test_another_partition_than_the_partitioners_is_not_journalled_as_if_it_were_right(tool: Tool) -> None:
    with pytest.raises(HarnessError, match="another partition"):
        tool.run([STARTED, acked(0, 0, partition=1)])


def test_a_record_of_another_producer_is_not_journalled(tool: Tool) -> None:
    with pytest.raises(HarnessError, match="not asked for"):
        tool.run([STARTED, acked(0, 0).replace('"1.0"', '"2.0"')])


@pytest.mark.parametrize(
    ("exception", "name"),
    [
        ("class org.apache.kafka.common.errors.NotEnoughReplicasException", "NOT_ENOUGH_REPLICAS"),
        ("class org.apache.kafka.common.errors.TimeoutException", "TIMEOUT"),
        ("class java.lang.IllegalStateException", "ILLEGAL_STATE"),
    ],
)
def test_an_exception_of_java_has_kafkas_name(exception: str, name: str) -> None:
    assert name_of_exception(exception) == name


@pytest.mark.parametrize("payload", [b"0.1", b"3.", b"3.01", b"x3.1", b"3.1 ", b"9999999.1", b"3.1099511627776"])
def test_a_text_that_no_producer_sent_has_no_value(payload: bytes) -> None:
    assert value_of("run")(payload) is None


def test_the_text_of_the_verifiable_producer_has_its_value() -> None:
    assert value_of("run")(b"3.17") == value_at(3, 17)
