"""The Java process of a session boots while Python imports PySpark, and ends with the block."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from analysis.spark import java_start
from analysis.spark.java_start import SETTINGS_OF_OTHERS, JavaStart, class_path, early_start
from ebbtide.java import Java


def launch_sleep(start: JavaStart) -> None:
    """Stand in for `JavaStart.launch`: start a process that does nothing."""
    start.process = subprocess.Popen(["sleep", "60"])


@pytest.fixture(autouse=True)
def a_process_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    for name in SETTINGS_OF_OTHERS:
        monkeypatch.delenv(name, raising=False)
    java = Java(executable=Path("/usr/bin/java"), version="17.0.1", major=17)
    monkeypatch.setattr(java_start, "require_java", lambda: java)
    monkeypatch.setattr(java_start, "class_path", lambda _: "x.jar")
    monkeypatch.setattr(JavaStart, "launch", launch_sleep)


def test_the_process_runs_within_the_block_and_leaves_nothing() -> None:
    with early_start() as start:
        assert start is not None
        assert start.process is not None
        assert start.process.poll() is None
        assert start.scratch.is_dir()
    assert start.process.returncode == -9
    assert not start.scratch.exists()


def test_an_error_in_the_block_ends_the_process_too() -> None:
    block = early_start()
    start = block.__enter__()
    assert start is not None
    assert start.process is not None
    assert not block.__exit__(ValueError, ValueError(), None)
    assert start.process.returncode == -9
    assert not start.scratch.exists()


def test_no_process_starts_early_beside_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JavaStart, "launch", lambda _: pytest.fail("a process was started"))
    monkeypatch.setitem(sys.modules, "pyspark", pytest)
    with early_start() as start:
        assert start is None


def test_a_start_that_fails_is_left_to_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[JavaStart] = []

    def fail(start: JavaStart) -> None:
        launched.append(start)
        raise OSError("no room")

    monkeypatch.setattr(JavaStart, "launch", fail)
    with early_start() as start:
        assert start is None
    assert not launched[0].scratch.exists()


ASKS = """
import sys
from analysis.spark import java_start
from harness.cli.main import main

def says_what_is_imported(*_, **__):
    print("pyspark" in sys.modules, flush=True)
    raise SystemExit(0)

java_start.early_start = says_what_is_imported
main(sys.argv[1:])
"""
"""Runs a verb until it would start Spark's Java process."""


def test_the_judging_process_has_not_yet_imported_pyspark_when_it_starts_java() -> None:
    words = ["analyze", "-"]
    done = subprocess.run([sys.executable, "-c", ASKS, *words], input="", capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr


# Spark's own jars make the class path, without its machine learning.


def test_sparks_own_jars_come_first_and_its_machine_learning_is_left_out(tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    for name in ("janino-3.1.9.jar", "spark-mllib_2.13-4.0.1.jar", "spark-sql.jar"):
        (jars / name).touch()
    assert class_path(tmp_path).split(os.pathsep) == [str(jars / "spark-sql.jar"), str(jars / "janino-3.1.9.jar")]


def test_sparks_jars_have_the_names_that_are_looked_for() -> None:
    names = [jar.name for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")]
    for prefix in ("spark-mllib_", "spark-sql_"):
        assert sum(name.startswith(prefix) for name in names) == 1
