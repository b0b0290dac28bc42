"""The JVM's command, the class archive's name, and what is said of a JVM that died."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cluster.runtime.jvm import Installation, compress, end_error, java_command, tail_of
from ebbtide.java import Java


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
    assert "broker-1 ended before it was ready (signal SIGKILL)" in by_signal
    assert "ERROR disk full" in by_signal
    assert "(exit code 1)" in end_error("broker-1", "ended", 1, log).render()


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
