"""An interrupted `ebbtide analyze` says so and leaves no process, whenever the signal comes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from live.commands import EBBTIDE
from real_records import unpack_record

from ebbtide.waiting import pause, wait_until

pytestmark = pytest.mark.spark


def _has_jvm(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        children = psutil.Process(pid).children(recursive=True)
        return any("PythonGatewayServer" in " ".join(child.cmdline()) for child in children)
    return False


@pytest.mark.parametrize("after_s", [*(pytest.param(s, marks=pytest.mark.slow) for s in (0.5, 2.0)), None])
@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGTERM, signal.SIGHUP))],
)
def test_an_interrupted_judgement_says_so_and_leaves_no_process(
    after_s: float | None, number: signal.Signals, tmp_path: Path
) -> None:
    """`after_s` None: a second after Spark's JVM has started."""
    record = unpack_record("last-replica-standing-3.9.1", tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    judging = subprocess.Popen(
        [*EBBTIDE, "analyze", str(record)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(scratch)},
    )
    if after_s is None:
        wait_until(lambda: _has_jvm(judging.pid), awaited="Spark's JVM", timeout_s=30)
    pause(1.0 if after_s is None else after_s)
    children = psutil.Process(judging.pid).children(recursive=True)
    judging.send_signal(number)
    _, errors = judging.communicate(timeout=90)
    if judging.returncode != -number:  # it was past the interpreter's own start
        told = [line for line in errors.splitlines() if not line.startswith("judging ")]
        assert (judging.returncode, told) == (3, ["interrupted"])
    assert psutil.wait_procs(children, timeout=60)[1] == []
    assert list(scratch.iterdir()) == []


BETWEEN = """
import signal, sys, types
from ebbtide.command import main
from ebbtide.judging_process import JudgingProcess
from harness.cli import main as frame
from harness.cli.command import Command

def run(args):
    with JudgingProcess() as judge:
        judge.begin()
        while True:
            signal.pause()

module = types.ModuleType("harness.cli.clean")
module.command, module.run = Command, run
sys.modules["harness.cli.clean"] = module
frame_main = frame.main
frame.main = lambda: frame_main(["clean"])
sys.exit(main())
"""
"""A verb while its cluster ends: Spark starts already, and no block of its own handles signals."""


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_signal_as_judging_begins_leaves_neither_a_jvm_nor_a_folder(times: int, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", BETWEEN], env=os.environ | {"TMPDIR": str(tmp_path)}) as verb:
        wait_until(lambda: _has_jvm(verb.pid), awaited="Spark's JVM", timeout_s=60)
        children = psutil.Process(verb.pid).children(recursive=True)
        for _ in range(times):
            verb.send_signal(signal.SIGTERM)
        assert verb.wait(90) == 3
    assert psutil.wait_procs(children, timeout=60)[1] == []
    assert list(tmp_path.iterdir()) == []
