"""Another user of the host makes root's `clean` neither wait, nor delete, nor unmount, nor kill."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.clean import clean
from cluster.host.ledger import Ledger
from cluster.host.slow_volume import thaw
from cluster.host.volumes import Volume
from ebbtide.errors import HarnessError
from ebbtide.ownership import Untrusted
from ebbtide.scratch import remove_abandoned

pytestmark = pytest.mark.root

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
HOLD = "import fcntl, os, sys\nfcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)\n"


def as_nobody(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python script as another user, who may enter the folders above."""
    for one in (folder, *folder.parents):
        if one.is_relative_to("/tmp") and one != Path("/tmp"):
            one.chmod(one.stat().st_mode | 0o011)
    words = [*NOBODY, "/usr/bin/env", "python3", "-I", "-c", script, *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd="/")


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    made = Volume.at(tmp_path / "disk.img", tmp_path / "node" / "disk")
    made.create(64 << 20)
    made.mount()
    yield made
    made.undo()


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of somebody else."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=False)


def test_another_user_cannot_hold_the_lock_of_clean(tmp_path: Path) -> None:
    ledgers = tmp_path / "ledger"
    Ledger.open("r", tmp_path, ledgers=ledgers).close()
    clean(ledgers)
    ledgers.chmod(0o711)
    refused = as_nobody(tmp_path, HOLD, str(ledgers / ".lock"))
    assert "PermissionError" in refused.stderr, refused


def test_a_ledger_that_another_user_planted_is_not_believed(tmp_path: Path) -> None:
    ledgers = tmp_path / "ledger"
    ledgers.mkdir()
    ledgers.chmod(0o777)
    planted = as_nobody(tmp_path, "import sys\nopen(sys.argv[1], 'w').write('x')", str(ledgers / "r.jsonl"))
    assert planted.returncode == 0, planted
    with pytest.raises(Untrusted, match="another user"):
        clean(ledgers)
    ledgers.chmod(0o700)
    [outcome] = clean(ledgers)
    assert "owned by user 65534" in outcome.failed[0]


def test_a_volume_folder_that_became_a_link_has_nothing_foreign_unmounted(
    tmp_path: Path, volume: Volume, foreign: Path
) -> None:
    volume.unmount()
    Path(volume.folder).rmdir()
    Path(volume.folder).symlink_to(foreign)
    assert not volume.undo()
    assert foreign.is_mount()


def test_a_volume_is_undone_where_it_is_even_if_its_folder_became_a_link(
    tmp_path: Path, volume: Volume, foreign: Path
) -> None:
    (tmp_path / "node").rename(tmp_path / "moved")
    (tmp_path / "node").mkdir()
    Path(volume.folder).symlink_to(foreign)
    assert volume.undo()
    assert foreign.is_mount()
    assert not (tmp_path / "moved" / "disk").is_mount()


def test_an_image_that_became_a_link_frees_no_foreign_loop_device(tmp_path: Path, volume: Volume) -> None:
    link = tmp_path / "link.img"
    link.symlink_to(volume.image)
    planted = Volume(image=str(link), folder=volume.folder)
    assert not planted.undo()
    assert volume.is_mounted()


def test_a_foreign_mount_over_a_volume_is_not_unmounted(volume: Volume) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "none", volume.folder], check=True)
    try:
        with pytest.raises(HarnessError, match="mounted over a volume"):
            volume.undo()
        assert "tmpfs" in Path("/proc/self/mountinfo").read_text().split(volume.folder)[2]
    finally:
        subprocess.run(["umount", volume.folder], check=True)


def test_no_foreign_file_system_is_thawed(foreign: Path, volume: Volume) -> None:
    assert not thaw(foreign, volume.image)
    assert not thaw(Path(volume.folder), "/no/such/image")


DIES_IN_A_TRIAL = """
import os, sys
from pathlib import Path
from cluster import trials
from cluster.host import ledger
from cluster.host.volumes import Volume
Volume.is_mounted = lambda self: os._exit(9)
ledger.ledgers_dir = lambda: Path(sys.argv[1], "ledger")
trials.mount_loop()
"""


def test_doctor_that_is_killed_leaves_nothing_that_clean_does_not_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    died = subprocess.run([sys.executable, "-c", DIES_IN_A_TRIAL, str(tmp_path)], check=False)
    assert died.returncode == 9
    [left] = scratch.iterdir()
    [outcome] = clean(tmp_path / "ledger")
    assert (len(outcome.undone), outcome.failed) == (1, ())
    assert remove_abandoned() == {left: ()}
    assert list(scratch.iterdir()) == []
