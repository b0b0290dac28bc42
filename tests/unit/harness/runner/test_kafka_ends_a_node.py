"""A node that Kafka itself ends does not end the run as a failure of the harness."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.runtime.jvm import end_error, fatal_fault_in
from ebbtide.errors import HarnessError, NodeEnded
from harness.runner.ending import End
from harness.runner.node_watch import NodeEnds, NodeWatch
from harness.runner.session import Session

FAULT = """2026-11-29T22:38:39.135Z [raft] ERROR Encountered fatal fault: Unexpected error in raft IO thread
java.lang.IllegalStateException: Received a response with an inconsistent leader
\tat org.apache.kafka.raft.KafkaRaftClient.poll(KafkaRaftClient.java:1)
2026-11-29T22:38:39.140Z [main] INFO shut down
"""
SAID = (
    "Unexpected error in raft IO thread java.lang.IllegalStateException: "
    "Received a response with an inconsistent leader"
)


def test_a_fatal_fault_is_said_in_one_line() -> None:
    assert fatal_fault_in(FAULT) == SAID


@pytest.mark.parametrize("why", ["java.lang.OutOfMemoryError: Java heap space", "java.io.IOException: No space left"])
def test_a_fault_of_the_host_is_none_of_kafkas(why: str) -> None:
    assert fatal_fault_in(FAULT.replace("java.lang.IllegalStateException: Received", f"{why} Received")) is None


def test_a_node_that_ends_without_such_a_line_is_none_of_kafkas() -> None:
    assert fatal_fault_in("INFO shut down\n") is None


def watch(folder: Path, exit_status: int) -> tuple[NodeWatch, set[int]]:
    log = folder / "broker-1.log"
    log.write_text(FAULT)
    down: set[int] = set()
    runtime: Any = SimpleNamespace(
        nodes={1: SimpleNamespace(id=1, name="broker-1")},
        pid=lambda _: None,
        log_file=lambda _: log,
        exit_status=lambda _: exit_status,
    )
    schedule: Any = SimpleNamespace(
        down=down, paused_nodes=set(), note_down=down.add, note_end=lambda _: None, entries=[]
    )
    return NodeWatch(runtime, schedule, 3.0), down


def test_the_run_hears_once_that_kafka_ended_a_node_and_the_node_is_down(tmp_path: Path) -> None:
    nodes, down = watch(tmp_path, exit_status=1)
    with pytest.raises(NodeEnded, match="broker-1 died by itself") as caught:
        nodes.look(lambda _: None, judged=True)
    assert (caught.value.node, caught.value.fault, down) == ("broker-1", SAID, {1})
    nodes.look(lambda _: None, judged=True)


def test_a_process_that_a_signal_ended_was_not_ended_by_kafka(tmp_path: Path) -> None:
    nodes, down = watch(tmp_path, exit_status=-9)
    with pytest.raises(HarnessError) as caught:
        nodes.look(lambda _: None, judged=True)
    assert (type(caught.value), down) == (HarnessError, set())


def test_a_node_that_ends_as_it_starts_counts_too(tmp_path: Path) -> None:
    log = tmp_path / "broker-1.log"
    log.write_text(FAULT)
    error = end_error("broker-1", "ended before it was ready", 1, log)
    assert isinstance(error, NodeEnded)
    assert error.fault == SAID


def test_an_end_that_several_hear_of_is_noted_once() -> None:
    notes: list[str] = []
    ends, error = (
        NodeEnds(notes.append),
        NodeEnded("it ended", node="broker-1", fault=SAID, where=None, got="", next=""),
    )
    ends.add(error)
    ends.add(error)
    assert ([one.node for one in ends.found], notes) == (["broker-1"], ["it ended"])


def finished(outcomes: list[End | NodeEnded], monkeypatch: pytest.MonkeyPatch) -> tuple[Session, list[int]]:
    """Finish a session of two nodes, of which node 2 is down; each attempt has one of the outcomes."""

    def carry_out(_: object) -> End:
        outcome = outcomes.pop(0)
        if isinstance(outcome, NodeEnded):
            raise outcome
        return outcome

    monkeypatch.setattr("harness.runner.session.Ending", lambda **_: SimpleNamespace(carry_out=lambda: carry_out(_)))
    session, down = Session.__new__(Session), list[int]()
    session.runtime = cast("Any", SimpleNamespace(nodes={1: None, 2: None}, pid=lambda node: None if node == 2 else 1))
    session._schedule = cast("Any", SimpleNamespace(note_down=down.append))
    for name in ("_scenario", "_view", "_workload", "_display"):
        setattr(session, name, None)
    session.node_ends = NodeEnds(lambda _: None)
    session.finish()
    return session, down


def ended(node: str) -> NodeEnded:
    return NodeEnded(f"{node} ended", node=node, fault=SAID, where=None, got="", next="")


def test_what_kafka_ended_is_started_again_and_the_cluster_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    session, down = finished([ended("broker-1"), ended("broker-2"), End(gone_topics=("t",))], monkeypatch)
    assert (session.end.gone_topics, down) == (("t",), [2, 2])
    assert [one.node for one in session.node_ends.found] == ["broker-1", "broker-2"]


def test_a_node_that_ends_again_leaves_the_run_without_a_final_read(monkeypatch: pytest.MonkeyPatch) -> None:
    session, _ = finished([ended("broker-1"), ended("broker-1")], monkeypatch)
    assert session.end.why_no_final_read == "Kafka ended a node again, so nothing was read: broker-1 ended"
