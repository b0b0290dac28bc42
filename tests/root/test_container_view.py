"""A container that shows another folder than this process sees: a power loss there would lose nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from cluster.host.ledger import Ledger
from cluster.runtime.base import NodeInfo
from cluster.runtime.docker_node import NodeContainer
from ebbtide.errors import HarnessError

pytestmark = pytest.mark.root


@pytest.fixture
def container(tmp_path: Path) -> Iterator[NodeContainer]:
    client = docker.DockerClient(base_url=f"unix://{tmp_path}/none", version="1.41")
    with Ledger.open("r", tmp_path, ledgers=tmp_path / "ledger") as ledger:
        node = NodeInfo(id=1, role="broker", name="broker-1", address="10.99.0.1")
        yield NodeContainer(client, ledger, node, tmp_path / "gates")
    client.close()


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A mounted file system with two folders. The mount is private: what a namespace mounts on it stays there."""
    folder = tmp_path / "volume"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    try:
        subprocess.run(["mount", "--make-private", folder], check=True)
        (folder / "data").mkdir()
        (folder / "other").mkdir()
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@contextlib.contextmanager
def elsewhere(mount: str) -> Iterator[int]:
    """A process in a mount namespace of its own, in which `mount` was done; yields its pid.

    The propagation of all other mounts is left alone: in a chroot `/` may be no mount point, and has none to change.
    """
    command = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", f"{mount} && echo mounted && cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            assert process.stdout.readline() == b"mounted\n"
            yield process.pid
        finally:
            process.stdin.close()


def test_the_same_folder_is_accepted(container: NodeContainer, volume: Path) -> None:
    container.check_sees(volume / "data", os.getpid())
    with elsewhere("true") as pid:
        container.check_sees(volume / "data", pid)


@pytest.mark.parametrize(
    ("mount", "seen"),
    [
        ("mount -t tmpfs none {volume}", "."),
        ("mount --bind {volume}/other {volume}/data", "data"),
        ("mount -t tmpfs none {volume}", "data"),
    ],
    ids=["another-file-system-with-the-same-inode", "another-folder-of-the-same-file-system", "no-folder"],
)
def test_another_folder_or_none_is_refused(mount: str, seen: str, container: NodeContainer, volume: Path) -> None:
    with elsewhere(mount.format(volume=volume)) as pid:
        assert sorted(path.name for path in volume.iterdir()) == ["data", "other"], "it was mounted here, too"
        with pytest.raises(HarnessError, match="where this process can break them"):
            container.check_sees(volume / seen, pid)
