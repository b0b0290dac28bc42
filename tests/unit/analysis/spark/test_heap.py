"""Spark's JVM gets the memory that a setting says, and an error says when that was too little."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.spark.heap import SETTING, heap_mib, out_of_memory_error
from ebbtide.errors import UsageError

TOO_MUCH = """
import sys
from analysis.spark.session import session
from ebbtide.errors import EbbtideError

try:
    with session() as spark:
        spark.sql("SELECT length(repeat('x', cast(id + 1000000000 AS int))) FROM range(1)").collect()
except EbbtideError as error:
    print(error)
"""


@pytest.mark.spark
def test_a_jvm_that_ran_out_of_memory_says_so_and_which_setting_to_raise(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TOO_MUCH],
        env=os.environ | {"TMPDIR": str(tmp_path), SETTING: "512m"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Spark's Java process ran out of memory" in done.stdout, done.stderr
    assert "its heap is 512 MiB" in done.stdout
    assert f"{SETTING}=1024m ebbtide analyze RUN" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("raised", "status", "said", "told"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", None, "", "Java heap space"),
        ("Answer from Java side is empty", 52, "", "ran out of memory"),
        ("Answer from Java side is empty", 1, "x: java.lang.OutOfMemoryError: GC overhead", "GC overhead"),
        ("Answer from Java side is empty", -signal.SIGKILL, "", "was killed"),
    ],
)
def test_each_way_in_which_a_jvm_lacks_memory_is_recognized(
    raised: str, status: int | None, said: str, told: str
) -> None:
    error = out_of_memory_error(RuntimeError(raised), heap_mib=1024, said=lambda: said, exit_status=lambda: status)
    assert error is not None
    assert told in str(error)
    assert SETTING in str(error)


def test_an_error_that_only_the_ended_jvm_could_tell_is_recognized_too() -> None:
    class Untold(Exception):
        def __str__(self) -> str:
            raise ConnectionError("the JVM has ended")

    error = out_of_memory_error(Untold(), heap_mib=1024, said=lambda: "", exit_status=lambda: 52)
    assert "ran out of memory" in str(error)


@pytest.mark.parametrize(("status", "said"), [(None, ""), (1, "java.lang.NullPointerException")])
def test_another_failure_is_not_one_of_memory(status: int | None, said: str) -> None:
    error = RuntimeError("no such column")
    assert out_of_memory_error(error, heap_mib=1024, said=lambda: said, exit_status=lambda: status) is None


@pytest.mark.parametrize(("asked", "mib"), [("4g", 4096), ("3000m", 3000), ("3G", 3072)])
def test_the_setting_names_the_heap(monkeypatch: pytest.MonkeyPatch, asked: str, mib: int) -> None:
    monkeypatch.setenv(SETTING, asked)
    assert heap_mib() == mib


def test_without_the_setting_the_heap_is_between_1_and_2_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SETTING, raising=False)
    assert 1024 <= heap_mib() <= 2048


@pytest.mark.parametrize("asked", ["much", "0g", "4", "-1g", "4t"])
def test_a_setting_that_is_no_size_is_refused(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    monkeypatch.setenv(SETTING, asked)
    with pytest.raises(UsageError, match="is not a size"):
        heap_mib()
