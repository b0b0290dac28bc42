"""A volume that is frozen in turn, on a real file system: how long writes wait, and who thaws it whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.clean import clean
from cluster.host.ledger import Ledger
from cluster.host.slow_volume import Pulses, Slowness, thaw, timed_write
from cluster.host.volumes import Volume
from ebbtide.waiting import wait_until

pytestmark = pytest.mark.root

HARNESS = """
import sys, time
from cluster.host.slow_volume import Pulses, Slowness
assert Pulses(Slowness(folder=sys.argv[1], image=""), 60.0, 61.0).wait_frozen(20)
print("frozen", flush=True)
time.sleep(60)
"""


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    made = Volume(image=str(tmp_path / "node.img"), folder=str(tmp_path / "node"))
    made.create(32 << 20)
    made.mount()
    try:
        yield made
    finally:
        thaw(Path(made.folder), made.image)
        made.undo()


def slowest_s(volume: Volume, within_s: float, enough_s: float = 10.0) -> float:
    """The longest write within that time, or the first one of `enough_s`."""
    ends, slowest = time.monotonic() + within_s, 0.0
    while time.monotonic() < ends and slowest < enough_s:
        slowest = max(slowest, timed_write(Path(volume.folder), 10.0))
    return slowest


def test_a_write_waits_once_in_every_period_and_not_after_the_end(volume: Volume) -> None:
    pulses = Pulses(Slowness(folder=volume.folder, image=volume.image), delay_s=0.6, period_s=0.7)
    assert pulses.wait_frozen(20)
    assert (slowest_s(volume, 20, enough_s=0.4) >= 0.4, pulses.end_status()) == (True, None)
    pulses.end()
    assert not thaw(Path(volume.folder), volume.image)
    timed_write(Path(volume.folder), 20.0)
    assert volume.undo()


def test_reads_go_on_while_writes_wait(volume: Volume) -> None:
    file = Path(volume.folder) / "file"
    file.write_bytes(b"log")
    pulses = Pulses(Slowness(folder=volume.folder, image=volume.image), delay_s=60.0, period_s=61.0)
    assert pulses.wait_frozen(20)
    assert file.read_bytes() == b"log"
    with pytest.raises(TimeoutError):
        timed_write(Path(volume.folder), 0.3)
    pulses.end()


def test_a_killed_harness_leaves_no_volume_frozen(volume: Volume) -> None:
    with subprocess.Popen([sys.executable, "-c", HARNESS, volume.folder], stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"frozen\n"
        with pytest.raises(TimeoutError):
            timed_write(Path(volume.folder), 0.3)
        harness.send_signal(signal.SIGKILL)
        harness.wait()
    timed_write(Path(volume.folder), 20.0)
    assert not thaw(Path(volume.folder), volume.image)


def test_where_the_process_that_thaws_was_killed_too_the_ledger_thaws(volume: Volume, tmp_path: Path) -> None:
    slowness = Slowness(folder=volume.folder, image=volume.image)
    ledger = Ledger.open("slow", tmp_path, ledgers=tmp_path / "ledger")
    ledger.record(slowness)
    pulses = Pulses(slowness, delay_s=60.0, period_s=61.0)
    assert pulses.wait_frozen(20)
    os.kill(pulses._popen.pid, signal.SIGKILL)
    pulses._popen.wait()
    assert pulses.end_status() == -signal.SIGKILL
    with pytest.raises(TimeoutError):
        timed_write(Path(volume.folder), 0.3)
    ledger.close()
    timed_write(Path(volume.folder), 20.0)
    assert clean(tmp_path / "ledger") == []
    pulses.end()


def test_nothing_but_the_volume_is_ever_frozen(volume: Volume) -> None:
    pulses = Pulses(Slowness(folder=volume.folder, image=volume.image), delay_s=1.5, period_s=3.0)
    assert (slowest_s(volume, 20, enough_s=0.75) >= 0.75, pulses.end_status()) == (True, None)
    volume.unmount()
    wait_until(lambda: pulses.end_status() == 0, awaited="the pulses to end with their volume", timeout_s=60)
    timed_write(Path(volume.folder), 20.0)
    pulses.end()
