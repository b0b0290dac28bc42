"""How runs end that do not go by the book: nodes killed last, a reader that goes away, an interrupted judgement."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from live.commands import EBBTIDE, Demo, command, ebbtide, records_in

from ebbtide.record.manifest import read_manifest
from ebbtide.record.verdict import read_verdict
from ebbtide.scenario import catalogue
from ebbtide.waiting import pause, wait_until

pytestmark = pytest.mark.live


def test_a_cluster_whose_leader_was_killed_last_settles_on_what_is_and_not_on_what_was(tmp_path: Path) -> None:
    steps = '[[steps]]\nstep = "kill"\ntarget = "leader(t-0)"\ntrigger = { acked = 2000 }\n\n'
    text = catalogue.text_of("last-replica-standing")
    head, _, rest = text.partition("[[steps]]")
    prediction = rest[rest.index("[[predictions]]") :].replace("elected_from_elr = true\n", "")
    scenario = tmp_path / "killed-last.toml"
    scenario.write_text(head + steps + prediction)
    ebbtide("run", scenario, "--kafka", "4.3.1", "--runs", tmp_path / "runs")
    (record,) = records_in(tmp_path / "runs")
    assert read_manifest(record).final_consumer is not None
    last = pq.read_table(record / "partitions.parquet").to_pylist()[-1]
    assert sorted(last["isr"]) == [1, 2, 3]
    # The broker that came back was fenced, registered anew and unfenced before the final read.
    assert last["leader_epoch"] > 0


def test_a_run_goes_on_when_the_reader_of_its_output_is_gone(tmp_path: Path) -> None:
    run = subprocess.Popen(
        command("run", "last-replica-standing", "--kafka", "4.3.1", "--runs", tmp_path / "runs"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.readline()
    run.stdout.close()
    assert run.wait(180) == 0, run.stderr.read()
    run.stderr.close()
    (record,) = records_in(tmp_path / "runs")
    verdict = read_verdict(record)
    assert verdict is not None
    assert verdict.outcome == "as-predicted"


def _has_jvm(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return any(child.name() == "java" for child in psutil.Process(pid).children(recursive=True))
    return False


@pytest.mark.parametrize("after_s", [0.5, 2.0, None])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_judgement_says_so_and_leaves_no_process(
    demo: Demo, after_s: float | None, number: signal.Signals, tmp_path: Path
) -> None:
    """`after_s` None: a second after Spark's JVM has started."""
    copy = tmp_path / "copy"
    shutil.copytree(demo.records["3.9.1"], copy)
    judging = subprocess.Popen(
        [*EBBTIDE, "analyze", str(copy)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
