"""The process around Kafka's own Java producers: what it asks of them, and what each answer comes to.

The Java program here is a Python script that answers as RemoteProducer.java does; tests/live runs the real one.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import cast

import pyarrow.parquet as pq
import pytest
from checkout import ROOT
from client_configs import producer_config

from cluster.runtime.tool_command import ToolCommand
from ebbtide.errors import HarnessError
from ebbtide.journal.convert import convert_journals
from ebbtide.journal.payload import value_at
from ebbtide.record.clients import read_client_events
from ebbtide.record.files import JOURNAL_DIR, RecordFolder
from workloads import java_producer, process
from workloads.config import Endpoints
from workloads.java_producer import JavaIncarnation, run
from workloads.java_remote import JavaCallError, RemoteProducers, name_of_exception
from workloads.process import ClientState, StatusFile, Stop
from workloads.send_account import COUNTERS

_PROGRAM = """#!{python}
import json, os, sys, time
answers = json.load(open({answers!r}))
asked = open({asked!r}, "a", buffering=1)
offset = 0
time.sleep(answers["starts_s"])
print("[warning][cds] the JVM itself warns of something", flush=True)
for line in sys.stdin:
    words = line.split()
    if words[0] != "send":
        asked.write(" ".join(words[1:]) + "\\n")
        if " ".join(words[1:]) == answers["dies_at"]:
            print('{{"call":1,"err', end="", flush=True)
            os.kill(os.getpid(), answers["signal"]) if answers["signal"] else sys.exit(3)
        error, cause = answers["calls"].get(" ".join(words[1:]), ("", ""))
        print(json.dumps({{"call": int(words[0]), "error": error, "cause": cause, "message": "m"}},
                         separators=(",", ":")), flush=True)
        continue
    error = answers["sends"].get(words[2] + "-" + words[3], "")
    error == "dies" and sys.exit(3)
    at = -1 if error else offset
    offset += not error
    print(json.dumps({{"partition": int(words[2]), "sequence": int(words[3]), "offset": at, "at_ns": time.time_ns(),
                      "error": error}}, separators=(",", ":")), flush=True)
"""
_ERRORS = "org.apache.kafka.common.errors."


class Java:
    """A producer process whose Java program answers as a test says."""

    def __init__(self, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (record / JOURNAL_DIR).mkdir()
        self.record = record
        self.stop = Stop(str(record / "stop"))
        monkeypatch.setattr(java_producer, "await_leaders", lambda config, stop: ("localhost:1",))

    def run(
        self,
        *,
        calls: dict[str, tuple[str, str]] | None = None,
        sends: dict[str, str] | None = None,
        dies_at: str = "",
        signal: int = 0,
        starts_s: float = 0.0,
        **settings: object,
    ) -> ClientState:
        """Run it. `calls` has the exceptions of calls ("0 commit"), `sends` of records ("PARTITION-SEQUENCE")."""
        file = self.record / "answers.json"
        answers = {"calls": calls or {}, "sends": sends or {}}
        file.write_text(json.dumps({**answers, "dies_at": dies_at, "signal": signal, "starts_s": starts_s}))
        script = self.record / "java"
        script.write_text(_PROGRAM.format(python=sys.executable, answers=str(file), asked=str(self.record / "asked")))
        script.chmod(0o755)
        config = producer_config(
            endpoints=Endpoints(status=str(self.record / "status"), stop=str(self.record / "stop")),
            journal=str(self.record / JOURNAL_DIR / "producer-1.journal"),
            bootstrap=("localhost:1",),
            java=ToolCommand(kafka="4.3.1", executable=str(script), options=(), class_path=("x.jar",)),
            **{"transactional_id": "ebbtide-1", "txn_records": 2, "count": 4, "stop_timeout_s": 0.3, **settings},
        )
        return run(config, StatusFile.create(self.record / "status", len(COUNTERS)), self.stop)

    def asked(self) -> list[str]:
        return (self.record / "asked").read_text().splitlines()

    def rows(self) -> list[tuple[int, str, int | None, str | None]]:
        """Number, status, offset and transaction's outcome of each record."""
        convert_journals(RecordFolder(self.record))
        rows = pq.read_table(self.record / "sends").to_pylist()
        first = value_at(1, 0)
        return sorted((row["value"] - first, row["status"], row["offset"], row["txn_outcome"]) for row in rows)

    def endings(self) -> list[str]:
        """How each transaction ended: the name of its row in the table of outcomes."""
        events = (read_client_events(RecordFolder(self.record)) or {})["producer-1"]
        return [one.why.split()[0] for one in events if one.event == "transaction"]


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    return Java(tmp_path, monkeypatch)


def test_each_transaction_is_committed_and_each_record_has_its_offset(java: Java) -> None:
    assert java.run() == ClientState.DONE
    assert java.asked() == ["0 open", "0 init", "0 begin", "0 commit", "0 begin", "0 commit"]
    assert java.rows() == [(number, "acked", number, "committed") for number in range(4)]
    assert java.endings() == ["COMMITTED", "COMMITTED"]


def test_the_rate_counts_from_the_start_of_the_client(java: Java) -> None:
    java.run(starts_s=1.0, rate_per_s=10, count=4)
    convert_journals(RecordFolder(java.record))
    sent = sorted(row["sent_ns"] for row in pq.read_table(java.record / "sends").to_pylist())
    assert sent[-1] - sent[0] > 0.2e9


def test_what_the_jvm_itself_prints_is_in_the_clients_log(java: Java, capsys: pytest.CaptureFixture[str]) -> None:
    assert java.run() == ClientState.DONE
    assert "[warning][cds]" in capsys.readouterr().err


def test_an_aborted_transaction_is_no_committed_one(java: Java) -> None:
    assert java.run(abort_every=2) == ClientState.DONE
    assert [row[3] for row in java.rows()] == ["committed", "committed", "aborted", "aborted"]


def test_a_commit_without_an_answer_is_unknown_and_a_new_incarnation_takes_over(java: Java) -> None:
    assert java.run(calls={"0 commit": (_ERRORS + "TimeoutException", "")}) == ClientState.DONE
    assert [row[3] for row in java.rows()] == ["unknown", "unknown", "committed", "committed"]
    assert java.endings() == ["IN_DOUBT", "COMMITTED"]
    assert "1 init" in java.asked()


def test_a_commit_that_is_refused_as_fenced_is_in_doubt_because_java_may_have_sent_it_before(java: Java) -> None:
    java.run(calls={"0 commit": (_ERRORS + "ProducerFencedException", "")})
    java.rows()
    assert java.endings()[0] == "IN_DOUBT"


def test_a_fenced_incarnation_is_one_even_if_only_the_cause_says_so(java: Java) -> None:
    java.run(calls={"0 commit": ("org.apache.kafka.common.KafkaException", _ERRORS + "InvalidProducerEpochException")})
    java.rows()
    events = (read_client_events(RecordFolder(java.record)) or {})["producer-1"]
    assert [one.event for one in events if one.event != "transaction"] == ["fenced"]


def test_an_old_epoch_that_an_aborted_transaction_met_fences_no_later_one(java: Java) -> None:
    refused = {"0-1": _ERRORS + "InvalidProducerEpochException"}
    java.run(sends=refused, abort_unacked=True, calls={"0 commit": (_ERRORS + "TimeoutException", "")})
    java.rows()
    events = (read_client_events(RecordFolder(java.record)) or {})["producer-1"]
    assert [one.event for one in events if one.event != "transaction"] == ["replaced"]


def test_a_record_without_an_answer_is_unknown_and_its_transaction_is_never_committed(java: Java) -> None:
    assert java.run(sends={"0-1": _ERRORS + "TimeoutException"}) == ClientState.DONE
    assert java.rows()[:2] == [(0, "acked", 0, "aborted"), (1, "unknown", None, "aborted")]
    assert "0 commit" not in java.asked()


def test_a_transaction_of_which_a_record_failed_gets_no_more_records(java: Java) -> None:
    java.run(sends={"0-0": _ERRORS + "TimeoutException"}, abort_unacked=True, txn_records=50, count=60, rate_per_s=100)
    first, *_ = [row[3] for row in java.rows()]
    aborted = [row for row in java.rows() if row[3] == "aborted"]
    assert first == "aborted"
    assert len(aborted) < 50
    assert java.asked().count("0 abort") == 1


def test_the_same_incarnation_goes_on_after_an_abort_if_the_scenario_wants_it(java: Java) -> None:
    java.run(sends={"0-1": _ERRORS + "TimeoutException"}, abort_unacked=True)
    assert java.asked() == ["0 open", "0 init", "0 begin", "0 abort", "0 begin", "0 commit"]
    assert [row[3] for row in java.rows()] == ["aborted", "aborted", "committed", "committed"]


def test_a_successor_takes_over_in_the_middle_of_a_transaction_that_is_to_be_fenced(java: Java) -> None:
    java.run(fence_every=2, calls={"0 commit": ("", "")})
    asked = java.asked()
    assert asked.index("1 init") > asked.index("0 begin")
    assert asked.index("1 init") < len(asked) - 1 - asked[::-1].index("0 commit")


def test_a_setting_that_the_client_does_not_take_is_one_clear_error(java: Java) -> None:
    with pytest.raises(HarnessError, match="does not start with these settings") as caught:
        java.run(calls={"0 open": ("org.apache.kafka.common.config.ConfigException", "")})
    assert "ConfigException: m" in str(caught.value.got)


def test_a_program_that_ends_by_itself_is_an_error_and_what_it_did_is_journalled(java: Java) -> None:
    with pytest.raises(HarnessError, match="ended by itself") as caught:
        java.run(dies_at="0 commit")
    assert caught.value.got == "exit code 3"
    assert [row[1] for row in java.rows()] == ["acked", "acked"]
    assert {row[3] for row in java.rows()} == {"unknown"}


def test_a_client_whose_program_has_ended_is_no_wrong_setting() -> None:
    class Ended:
        def call(self, incarnation: int, what: str) -> None:
            raise JavaCallError("the process of the Java client has ended")

    with pytest.raises(JavaCallError):
        JavaIncarnation(cast(RemoteProducers, Ended()), 0)


def test_a_program_that_something_outside_killed_ends_its_process_in_the_same_way(
    java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(process.os, "kill", lambda pid, number: sent.append(number))
    with pytest.raises(HarnessError, match="exit code -9"):
        java.run(dies_at="0 commit", signal=int(signal.SIGKILL))
    assert sent == [signal.SIGKILL]


def test_a_stopped_producer_ends_the_open_transaction_first(java: Java) -> None:
    class OnceBegun(Stop):
        def __bool__(self) -> bool:
            return (java.record / "asked").exists() and "0 begin" in java.asked()

    java.stop = OnceBegun(str(java.record / "stop"))
    assert java.run(count=None, rate_per_s=1_000, txn_records=100_000, stop_timeout_s=30) == ClientState.STOPPED
    assert {row[3] for row in java.rows()} == {"committed"}
    assert java.endings() == ["COMMITTED"]


def test_without_transactions_each_record_has_its_outcome_and_an_error_ends_nothing(java: Java) -> None:
    refused = {"0-1": _ERRORS + "NotEnoughReplicasException"}
    assert java.run(transactional_id=None, sends=refused) == ClientState.DONE
    assert java.asked() == ["0 open"]
    assert java.rows() == [
        (0, "acked", 0, None),
        (1, "unknown", None, None),
        (2, "acked", 1, None),
        (3, "acked", 2, None),
    ]


def test_without_retries_a_certain_refusal_is_failed(java: Java) -> None:
    refused = {"0-1": _ERRORS + "NotEnoughReplicasException", "0-2": _ERRORS + "NotEnoughReplicasAfterAppendException"}
    java.run(transactional_id=None, sends=refused, properties={"retries": "0"})
    assert [status for _, status, *_ in java.rows()] == ["acked", "failed", "unknown", "acked"]


def test_records_of_a_program_that_ends_between_two_answers_are_journalled(java: Java) -> None:
    with pytest.raises(HarnessError, match="ended by itself"):
        java.run(transactional_id=None, sends={"0-2": "dies"})
    assert [status for _, status, *_ in java.rows()] == ["acked", "acked", "unknown", "unknown"]


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


def test_the_program_has_only_what_its_compiler_can_read() -> None:
    """Janino knows no lambda, no method reference and no `var`."""
    text = (ROOT / "workloads" / "RemoteProducer.java").read_text()
    assert "->" not in text
    assert "::" not in text
    assert "var " not in text
