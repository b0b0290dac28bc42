"""A run whose processes something outside of it ended or stopped ends early, and its manifest says why.

That such a record is inconclusive is tested in unit/analysis/judge/outcome/test_ended_early.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import psutil
import pytest
from host_state import HostState
from live.commands import WatchedCommand, records_in

from ebbtide.errors import ExitCode
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest

pytestmark = pytest.mark.live

SCENARIO = Path(__file__).with_name("disturbed.toml")


def _pid_of(word: str, command: int) -> int:
    """Return the process of a run that has this name, or this word in its command line."""
    [pid] = [one.pid for one in psutil.Process(command).children(recursive=True) if _is_named(one, word)]
    return pid


def _is_named(process: psutil.Process, word: str) -> bool:
    with contextlib.suppress(psutil.Error):  # it has just ended
        return process.name() == word or any(word in argument for argument in process.cmdline())
    return False


@pytest.mark.parametrize(
    ("word", "number", "says"),
    [
        ("producer-1", signal.SIGTERM, "ended the process of producer-1 (in order"),
        pytest.param(
            "broker-2.properties",
            signal.SIGSTOP,
            "stopped the process of broker-2 (SIGSTOP) for at least 3.",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["a producer by SIGTERM", "a broker by SIGSTOP"],
)
def test_a_disturbed_run_ends_early_and_says_who_was_hit(
    word: str, number: signal.Signals, says: str, tmp_path: Path
) -> None:
    before = HostState.now()
    options = ("--kafka", "4.3.1", "--no-judge", "--runs", tmp_path / "runs")
    run = WatchedCommand(tmp_path / "out", "run", SCENARIO, *options)
    hit = lambda: os.kill(_pid_of(word, run.process.pid), number)  # noqa: E731
    assert run.once_it_says("start clients:", hit) == ExitCode.INCONCLUSIVE, run.text()
    (record,) = records_in(tmp_path / "runs")
    assert HostState.now().left_since(before, record.name, str(tmp_path)) == []
    manifest = read_manifest(RecordFolder(record))
    assert manifest.failure is not None
    assert says in manifest.failure
    assert manifest.timings_s["steps"] < 110, "the trigger comes after 120 s"
