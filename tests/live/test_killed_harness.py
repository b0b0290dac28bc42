"""A harness that dies in the middle: its record can be judged as far as it goes, and `clean` removes the rest."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from host_state import HostState
from live import in_process
from live.commands import WatchedCommand, ebbtide, records_in

from ebbtide.errors import HarnessError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.verdict import read_verdict
from ebbtide.scenario import catalogue
from ebbtide.waiting import wait_until
from harness.runner import side_by_side
from harness.runner.launch import LaunchOptions, prepare
from harness.runner.side_by_side import run_side_by_side

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark

pytestmark = pytest.mark.live

LIMIT_S = 600.0
LOSS, CONTROL = "last-replica-standing", "healthy"
PHASES = {
    "while the volumes are made": (LOSS, "drawn: replicas"),
    "while the nodes start": (LOSS, "prepare:"),
    "while the clients start": (LOSS, "start cluster:"),
    "with the followers cut off": (LOSS, "partition broker"),
    "after the power loss": (LOSS, "power-loss broker"),
    "while the cluster settles": (LOSS, "steps:"),
    # The control has 100,000 records to read, which takes long enough to be met.
    "during the final read": (CONTROL, "settle:"),
}


QUICK = ("after the power loss",)
"""The phases of which `make test` kills a run."""

AS_TYPED = ("during the final read",)
"""The phases whose record the command judges. Of others it is judged in here."""

WITH_JUDGE = (*QUICK, *AS_TYPED)
"""The phases of runs beside which Spark starts. It takes as much CPU time as the rest of such a run."""


@pytest.mark.spark
@pytest.mark.parametrize(
    "phase", [pytest.param(phase, marks=() if phase in QUICK else pytest.mark.slow) for phase in PHASES]
)
def test_after_sigkill_the_record_can_be_judged_and_clean_leaves_nothing(
    phase: str, tmp_path: Path, spark_if_needed: Spark
) -> None:
    scenario, words = PHASES[phase]
    before = HostState.now()
    judges = () if phase in WITH_JUDGE else ("--no-judge",)
    run = WatchedCommand(tmp_path / "out", "run", scenario, "--kafka", "4.3.1", *judges, "--runs", tmp_path / "runs")
    assert run.signal_once_it_says(words, signal.SIGKILL) == -signal.SIGKILL
    cleaned = ebbtide("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    (record,) = records_in(tmp_path / "runs")
    assert HostState.now().left_since(before, record.name, str(tmp_path)) == []
    assert read_manifest(RecordFolder(record)).status == "interrupted"
    if phase in AS_TYPED:
        judged = ebbtide("analyze", record)
        assert judged.returncode == 2, judged.stdout + judged.stderr
    else:
        in_process.judge([record], spark_if_needed)
    verdict = read_verdict(RecordFolder(record))
    assert verdict is not None
    assert verdict.outcome == "inconclusive"


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, id="Ctrl-C"), pytest.param(signal.SIGTERM, id="SIGTERM", marks=pytest.mark.slow)],
)
def test_an_interrupted_run_undoes_everything_itself_and_keeps_what_it_saw(
    number: signal.Signals, tmp_path: Path
) -> None:
    before = HostState.now()
    # Spark starts beside one of them. `make test` has it beside a run that is killed.
    judges = () if number == signal.SIGTERM else ("--no-judge",)
    run = WatchedCommand(tmp_path / "out", "run", LOSS, "--kafka", "3.9.1", *judges, "--runs", tmp_path / "runs")
    assert run.signal_once_it_says("power-loss broker", number) != 0
    (record,) = records_in(tmp_path / "runs")
    assert HostState.now().left_since(before, record.name, str(tmp_path)) == []
    assert "Traceback" not in run.text()
    manifest = read_manifest(RecordFolder(record))
    assert manifest.status == "interrupted"
    assert manifest.features
    assert (record / "raw" / "broker-1" / "t-0").is_dir()


@pytest.mark.slow
def test_a_run_that_hangs_is_killed_at_its_limit_and_nothing_of_it_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "END_TIMEOUT_S", 1.0)
    before, log = HostState.now(), tmp_path / "runs.log"
    scenario = catalogue.find(LOSS)
    request = prepare(LaunchOptions(runs=tmp_path / "runs"), ["4.3.1"], print).request(scenario, "4.3.1", seed=1)

    def stop_once_cut_off() -> None:
        said = r"\(process (\d+)\): .*partition broker"
        wait_until(lambda: log.is_file() and re.search(said, log.read_text()), awaited=said, timeout_s=180)
        found = re.search(said, log.read_text())
        assert found is not None
        os.kill(int(found[1]), signal.SIGSTOP)

    with ThreadPoolExecutor(1) as watching:
        stopped = watching.submit(stop_once_cut_off)

        def wait_once_stopped(connections: Sequence[Connection], timeout: float) -> list[object]:
            """The limit of the run is over a second after it hangs: how long it is does not matter here."""
            stopped.result()
            return [*connection.wait(connections, min(timeout, 1.0))]

        monkeypatch.setattr(side_by_side, "wait", wait_once_stopped)
        [(_, end)] = run_side_by_side([(LOSS, request)], at_once=1, log=log, limit=lambda _: LIMIT_S)
    assert isinstance(end, HarnessError)
    assert end.what.startswith(f"the run did not end in {LIMIT_S:g} s and was ended")
    assert "did not clean up in 1 s: killed\n" in log.read_text()
    [record] = records_in(tmp_path / "runs")
    assert HostState.now().left_since(before, record.name, str(tmp_path)) == []
    assert read_manifest(RecordFolder(record)).status == "interrupted"
