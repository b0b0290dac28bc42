"""The JVM's command, the class archive's name, what is said of a JVM that died, and the finding that explains it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from checkout import ROOT

from cluster.runtime.jvm import KNOWN_ENDS, Installation, compress, end_error, java_command, known_end_clause, tail_of
from ebbtide.errors import HarnessError
from ebbtide.java import Java
from harness.runner.node_watch import NodeWatch


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(
        kafka="3.9.1",
        jars=(tmp_path / "jars" / "a.jar", tmp_path / "jars" / "b.jar"),
        folder=tmp_path,
        java=Java(executable=Path("/java"), version="17.0.15", major=17),
    )


def test_a_missing_class_archive_is_not_asked_for(installation: Installation) -> None:
    assert not [word for word in java_command(installation, "Main", []) if "SharedArchiveFile" in word]
    installation.archive().touch()
    assert f"-XX:SharedArchiveFile={installation.archive()}" in java_command(installation, "Main", [])


def test_an_archive_is_for_one_java_and_one_class_path(installation: Installation) -> None:
    other_java = Java(executable=Path("/java"), version="21", major=21)
    others = [
        Installation(kafka="3.9.1", jars=installation.jars, folder=installation.folder, java=other_java),
        Installation(kafka="3.9.1", jars=installation.jars[::-1], folder=installation.folder, java=installation.java),
    ]
    assert installation.archive() not in [other.archive() for other in others]


def test_arguments_follow_the_class(installation: Installation) -> None:
    command = java_command(installation, "kafka.Kafka", ["file"], options=["-Dx=y"])
    assert command[0] == "/java"
    assert command[-4:] == ["-cp", installation.class_path(), "kafka.Kafka", "file"]
    assert "-Dx=y" in command


def test_the_end_of_a_log_leaves_the_configuration_listing_out(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("INFO values:\n\ta = 1\n\tb = 2\n\nERROR it broke\njava.lang.Exception: why\n\tat Here\n")
    assert [line.strip() for line in tail_of(log).splitlines()] == [
        "INFO values:",
        "ERROR it broke",
        "java.lang.Exception: why",
    ]


def test_a_jvm_that_died_is_described_with_its_end_and_its_log(tmp_path: Path) -> None:
    log = tmp_path / "broker-1.log"
    log.write_text("ERROR disk full\n")
    by_signal = end_error("broker-1", "ended before it was ready", -9, log).render()
    assert "broker-1 ended before it was ready (signal SIGKILL; did memory run out? dmesg | grep" in by_signal
    assert "ERROR disk full" in by_signal
    assert "(exit code 1)" in end_error("broker-1", "ended", 1, log).render()
    assert "(exit code 137; did memory run out? dmesg" in end_error("broker-1", "ended", 137, log).render()


def test_the_command_that_shows_a_log_does_so_before_and_after_the_log_was_compressed(tmp_path: Path) -> None:
    log = tmp_path / "the logs" / "broker-1.log"
    log.parent.mkdir()
    log.with_name("broker-11.log").write_text("another\n")
    log.write_text("ERROR disk full\n")
    error = end_error("broker-1", "ended", 1, log)
    assert error.next is not None
    for leave in (lambda: None, lambda: compress(log)):
        leave()
        assert subprocess.run(["bash", "-c", error.next], capture_output=True, text=True).stdout == "ERROR disk full\n"
    assert not log.exists()
    assert error.where == str(log.parent)


def test_a_log_that_was_never_written_is_said(tmp_path: Path) -> None:
    assert tail_of(tmp_path / "none") == "(no log)"


EXPECTED = "java.lang.IllegalStateException: Expected to be Follower, but the current state is "
ON_391 = (
    f"{EXPECTED}Unattached(epoch=1, votedKey=null, voters=[], electionTimeoutMs=1183, highWatermark=Optional.empty)"
)
ON_431 = (
    f"{EXPECTED}UnattachedState(epoch=1, leaderId=OptionalInt[100], votedKey=Optional.empty, voters=[], "
    "electionTimeoutMs=1840, highWatermark=Optional.empty)"
)
NAMED = "a known finding: empty-metadata-log (docs/findings/empty-metadata-log.md)"


def test_every_finding_of_an_end_has_its_page() -> None:
    assert [one.page for one in KNOWN_ENDS if not (ROOT / one.page).is_file()] == []


@pytest.mark.parametrize("line", [ON_391, ON_431])
def test_a_broker_with_an_empty_metadata_log_names_the_finding(line: str, tmp_path: Path) -> None:
    log = tmp_path / "broker-1.log"
    shutdown = "INFO shut down\n" * 30
    log.write_text(
        f"ERROR Encountered fatal fault: Unexpected error in raft IO thread\n{line}\n\tat org.apache.kafka\n{shutdown}"
    )
    assert end_error("broker-1", "ended before it was ready", 1, log).what == (
        f"broker-1 ended before it was ready (exit code 1), {NAMED}"
    )


def test_a_broker_that_died_later_names_it_too(tmp_path: Path) -> None:
    log = tmp_path / "broker-1.log"
    log.write_text(f"{ON_431}\n" + "INFO shut down\n" * 30)
    node = SimpleNamespace(id=1, name="broker-1")
    runtime: Any = SimpleNamespace(nodes={1: node}, pid=lambda _: None, log_file=lambda _: log)
    schedule: Any = SimpleNamespace(down=set(), paused_nodes=set(), note_down=lambda _: None, entries=[])
    notes: list[str] = []
    with pytest.raises(HarnessError) as caught:
        NodeWatch(runtime, schedule, 3.0).look(notes.append, judged=True)
    assert caught.value.what == f"broker-1 died by itself, {NAMED}"
    NodeWatch(runtime, schedule, 3.0).look(notes.append, judged=False)
    assert notes == [f"broker-1 died by itself, {NAMED}: zcat -f {log}*"]


@pytest.mark.parametrize(
    "line",
    [
        ON_431.replace("voters=[]", "voters=[100]"),
        ON_431.replace("UnattachedState", "CandidateState"),
        "java.lang.IllegalStateException: something else, voters=[]",
        "Shutting down because we were unable to register with the controller quorum",
    ],
)
def test_another_end_names_no_finding(line: str) -> None:
    assert known_end_clause(line) == ""
