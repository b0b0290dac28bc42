"""An interrupted `ebbtide analyze` says so and leaves no process, whenever the signal comes."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from live.commands import EBBTIDE
from real_records import unpack_record

from ebbtide.waiting import pause, wait_until

pytestmark = pytest.mark.spark


def _has_jvm(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return any(child.name() == "java" for child in psutil.Process(pid).children(recursive=True))
    return False


@pytest.mark.parametrize("after_s", [0.5, 2.0, None])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_judgement_says_so_and_leaves_no_process(
    after_s: float | None, number: signal.Signals, tmp_path: Path
) -> None:
    """`after_s` None: a second after Spark's JVM has started."""
    record = unpack_record("last-replica-standing-3.9.1", tmp_path)
    judging = subprocess.Popen(
        [*EBBTIDE, "analyze", str(record)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if after_s is None:
        wait_until(lambda: _has_jvm(judging.pid), awaited="Spark's JVM", timeout_s=30)
    pause(1.0 if after_s is None else after_s)
    children = psutil.Process(judging.pid).children(recursive=True)
    judging.send_signal(number)
    _, errors = judging.communicate(timeout=90)
    if judging.returncode != -number:  # it was past the interpreter's own start
        told = [line for line in errors.splitlines() if not line.startswith("judging 1 record")]
        assert (judging.returncode, told) == (3, ["interrupted"])
    assert psutil.wait_procs(children, timeout=10)[1] == []
