"""`clean` after a SIGKILL: everything of the dead run goes, everything foreign stays."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_state import HostState

from cluster.clean import clean
from cluster.host.ledger import Ledger
from cluster.host.namespaces import Namespace
from cluster.host.processes import identify
from cluster.host.slow_volume import Slowness
from cluster.host.volumes import Volume, loop_devices_of, mounts_of
from cluster.host.writeback import HELD_SETTINGS, WriteBackHold
from ebbtide.waiting import wait_until

pytestmark = pytest.mark.root

ORIGINAL = {"dirty_writeback_centisecs": "500", "dirty_expire_centisecs": "3000"}

_RUN = """
import sys
from pathlib import Path
from cluster.host.bridge import BridgeNetwork
from cluster.host.children import start_child
from cluster.host.volumes import Volume
from cluster.host.writeback import WriteBackHold
from cluster.host.ledger import Ledger
from ebbtide.waiting import pause
run_id, folder = sys.argv[1], Path(sys.argv[2])
with Ledger.open(run_id, folder, ledgers=folder / "ledger") as ledger:
    network = BridgeNetwork(ledger)
    network.open()
    inside = network.add_namespace(1)
    volume = Volume(image=str(folder / "disk.img"), folder=str(folder / "disk"))
    ledger.make(volume, lambda: volume.create(64 << 20))
    volume.mount()
    hold = WriteBackHold(run_id=run_id, shared=str(folder / "shared"), settings=str(folder / "vm"))
    ledger.make(hold, hold.acquire)
    holds_the_volume = ["sh", "-c", f"exec 3>{folder}/disk/open; exec sleep 300"]
    start_child(ledger, holds_the_volume, name="node", output=folder / "log", namespace=inside)
    print("up", flush=True)
    pause(300)
"""


@pytest.fixture
def foreign(run_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Namespace, Volume]]:
    """A namespace and a loop-mounted volume that look like a run's and are in no ledger."""
    folder = tmp_path_factory.mktemp("foreign")
    namespace = Namespace(name=f"ebbtide-{run_id}-foreign")
    volume = Volume(image=str(folder / "disk.img"), folder=str(folder / "disk"))
    namespace.create()
    volume.create(64 << 20)
    volume.mount()
    yield namespace, volume
    volume.undo()
    namespace.undo()


def _killed_run(run_id: str, folder: Path) -> None:
    """A harness that made one of everything and was SIGKILLed."""
    (folder / "vm").mkdir()
    for name, value in ORIGINAL.items():
        (folder / "vm" / name).write_text(value)
    with subprocess.Popen(
        [sys.executable, "-c", _RUN, run_id, str(folder)], stdout=subprocess.PIPE, text=True
    ) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "up\n"
        [live] = clean(folder / "ledger")
        assert live.live
        harness.kill()


def test_clean_leaves_nothing_of_a_killed_run_and_touches_nothing_foreign(
    run_id: str, tmp_path: Path, foreign: tuple[Namespace, Volume]
) -> None:
    before = HostState.now()
    _killed_run(run_id, tmp_path)
    left = HostState.now().left_since(before, run_id, str(tmp_path))
    assert any(thing.startswith("namespace") for thing in left)
    assert any(thing.startswith("loop device") for thing in left)

    [outcome] = clean(tmp_path / "ledger")

    assert outcome.failed == ()
    assert len([thing for thing in outcome.undone if "namespace" in thing]) == 2
    assert any("volume" in thing for thing in outcome.undone)
    assert any("write-back" in thing for thing in outcome.undone)
    assert HostState.now().left_since(before, run_id, str(tmp_path)) == []
    assert (tmp_path / "vm" / "dirty_writeback_centisecs").read_text() == "500"
    namespace, volume = foreign
    assert namespace.path.exists()
    assert volume.is_mounted()
    Path(volume.folder, "writable").touch()


def test_clean_again_finds_nothing(run_id: str, tmp_path: Path) -> None:
    _killed_run(run_id, tmp_path)
    clean(tmp_path / "ledger")
    assert clean(tmp_path / "ledger") == []


def test_clean_finds_a_volume_whose_run_folder_was_renamed(run_id: str, tmp_path: Path) -> None:
    folder, ledgers = tmp_path / run_id, tmp_path / "ledger"
    made = Volume(image=str(folder / "node.img"), folder=str(folder / "data" / "node"))
    with Ledger.open(run_id, folder, ledgers=ledgers) as ledger:
        made.create(64 << 20)
        volume = made.with_identity()
        ledger.make(volume, volume.mount)
        ledger.record(Slowness.of(volume))
        freeze(Path(volume.folder))
        renamed = folder.rename(tmp_path / "elsewhere")
        assert not made.undo(), "by its path alone, nothing is found"
        (left,) = mounts_of(volume.image, volume.image_identity)
        assert left == str(renamed / "data" / "node")
        ledger.close()
    assert mounts_of(volume.image, volume.image_identity) == []
    assert loop_devices_of(str(renamed / "node.img")) == {}


def freeze(folder: Path) -> None:
    subprocess.run(["fsfreeze", "--freeze", str(folder)], check=True)


HOLDER = """
import sys
from pathlib import Path
from cluster.host.containers import STARTED, labels_of
from cluster.host.ledger import Ledger
from cluster.host.writeback import WriteBackHold
from ebbtide.waiting import pause
run_id, folder = sys.argv[1], Path(sys.argv[2])
with Ledger.open(run_id, folder, ledgers=folder / "ledger") as ledger:
    hold = WriteBackHold(run_id=run_id, shared=str(folder / "shared"), settings=str(folder / "vm"))
    ledger.make(hold, hold.acquire)
    print(labels_of(run_id)[STARTED], flush=True)
    pause(300)
"""
OTHER_TIME = ("unshare", "--time", "--boottime", "86400", "--fork", "--kill-child", "--")


def test_a_run_in_another_time_namespace_is_live(run_id: str, tmp_path: Path) -> None:
    (tmp_path / "vm").mkdir()
    for name, value in ORIGINAL.items():
        (tmp_path / "vm" / name).write_text(value)
    command = [*OTHER_TIME, sys.executable, "-c", HOLDER, run_id, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        started = harness.stdout.readline().strip()
        [pid] = Path(f"/proc/{harness.pid}/task/{harness.pid}/children").read_text().split()
        assert started.partition("/")[2] == str(identify(int(pid)).start_ticks)
        [live] = clean(tmp_path / "ledger")
        assert live.live
        # A second run in this namespace ends: the first one still holds write-back.
        second = WriteBackHold(run_id="second", shared=str(tmp_path / "shared"), settings=str(tmp_path / "vm"))
        second.acquire()
        second.undo()
        assert {path.name: path.read_text() for path in (tmp_path / "vm").iterdir()} == HELD_SETTINGS
        harness.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), awaited="the child of unshare to end", timeout_s=5)
    [dead] = clean(tmp_path / "ledger")
    assert dead.undone
