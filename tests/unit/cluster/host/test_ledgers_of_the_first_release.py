"""Ledgers of release 0.1.0: what they name is undone, by what their processes and volumes show of their run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.clean import clean
from cluster.host.ledger import read_ledger
from cluster.host.processes import identify
from cluster.host.slow_volume import Slowness
from cluster.host.volumes import Volume

RUN = "20261123T010203-healthy-4.3.1-a1b2"
SLEEP = "import time\nprint(flush=True)\ntime.sleep(300)"


@pytest.fixture
def ledgers(tmp_path: Path) -> Path:
    folder = tmp_path / "ledger"
    folder.mkdir(0o755)
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "runs" / RUN).mkdir(parents=True)
    return tmp_path / "runs"


@pytest.fixture
def node(runs: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose command line names a file of the run, as Kafka's and the clients' do."""
    yield from started(f"{runs}/{RUN}/cluster/properties/broker-1.properties")


@pytest.fixture
def foreign(runs: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that names another run's file."""
    yield from started(f"{runs}/{RUN}-2/cluster/properties/broker-1.properties")


def started(argument: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", SLEEP, argument], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def write_first_ledger(ledgers: Path, runs: Path, *entries: dict[str, Any], owner: int | None = None) -> Path:
    """A ledger as release 0.1.0 wrote it, for a run whose harness is dead unless `owner` is its pid."""
    dead = {"pid": 1 << 22, "start_ticks": 0, "boot_id": "none"}
    process = dead if owner is None else process_of(owner)
    lines: list[dict[str, Any]] = [{"line": "opened", "run_id": RUN, "owner": process, "folder": str(runs / RUN)}]
    lines += [{"line": "made", "number": number, "entry": entry} for number, entry in enumerate(entries)]
    path = ledgers / f"{RUN}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    path.chmod(0o644)
    return path


def process_of(pid: int) -> dict[str, Any]:
    found = identify(pid)
    return {"pid": found.pid, "start_ticks": found.start_ticks, "boot_id": found.boot_id}


def process_entry(pid: int) -> dict[str, Any]:
    return {"kind": "process", "name": "broker-1", "process": process_of(pid)}


def test_a_process_that_names_a_file_of_its_run_is_killed(
    ledgers: Path, runs: Path, node: subprocess.Popen[bytes]
) -> None:
    path = write_first_ledger(ledgers, runs, process_entry(node.pid))
    [outcome] = clean(ledgers)
    assert outcome.undone == (f"process {node.pid} (broker-1)",)
    assert node.wait(5) < 0
    assert not path.exists()


def test_a_process_that_names_nothing_of_its_run_is_left_and_the_user_is_asked_to_look(
    ledgers: Path, runs: Path, foreign: subprocess.Popen[bytes]
) -> None:
    path = write_first_ledger(ledgers, runs, process_entry(foreign.pid))
    [outcome] = clean(ledgers)
    assert f"kill {foreign.pid}" in outcome.failed[0]
    assert foreign.poll() is None
    assert path.exists()


def test_a_live_run_is_left_alone(ledgers: Path, runs: Path) -> None:
    write_first_ledger(ledgers, runs, owner=os.getpid())
    [outcome] = clean(ledgers)
    assert outcome.live


def test_a_frozen_volume_has_the_image_of_its_volume(ledgers: Path, runs: Path) -> None:
    image, folder = f"{runs}/{RUN}/cluster/volumes/broker-1.img", f"{runs}/{RUN}/cluster/data/broker-1"
    path = write_first_ledger(
        ledgers, runs, {"kind": "volume", "image": image, "folder": folder}, {"kind": "slowness", "folder": folder}
    )
    volume, slowness = read_ledger(path).entries
    assert isinstance(volume, Volume)
    assert slowness == Slowness.of(volume)


def test_an_image_behind_a_link_is_known_by_its_inode(ledgers: Path, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(runs)
    image = runs / RUN / "broker-1.img"
    image.touch()
    path = write_first_ledger(
        ledgers, runs, {"kind": "volume", "image": f"{tmp_path}/link/{RUN}/broker-1.img", "folder": "/x"}
    )
    [volume] = read_ledger(path).entries
    assert isinstance(volume, Volume)
    assert volume.image_identity == f"{image.stat().st_dev}:{image.stat().st_ino}"
    (runs / RUN).chmod(0o777)  # now anybody could have put another file there
    [volume] = read_ledger(path).entries
    assert isinstance(volume, Volume)
    assert volume.image_identity == ""
