"""A container that shows another folder than this process sees: a power loss there would lose nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from harness.errors import HarnessError
from harness.ledger import Ledger
from harness.runtime.base import NodeInfo
from harness.runtime.docker_node import NodeContainer

pytestmark = pytest.mark.root


@pytest.fixture
def container(tmp_path: Path) -> Iterator[NodeContainer]:
    client = docker.DockerClient(base_url=f"unix://{tmp_path}/none", version="1.41")
    with Ledger.open("r", tmp_path, ledgers=tmp_path / "ledger") as ledger:
        node = NodeInfo(id=1, role="broker", name="broker-1", address="10.99.0.1")
        yield NodeContainer(client, ledger, node, tmp_path / "gates")
    client.close()


def test_the_same_folder_is_accepted(container: NodeContainer, tmp_path: Path) -> None:
    container.check_sees(tmp_path, os.getpid())


@pytest.mark.parametrize("below", [".", "new"])
def test_another_file_system_or_no_folder_at_all_is_refused(
    below: str, container: NodeContainer, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    (folder / below).mkdir(parents=True)
    script = f"mount -t tmpfs none {folder} && echo mounted && cat"
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as elsewhere:
        assert elsewhere.stdout is not None
        assert elsewhere.stdout.readline() == b"mounted\n"
        with pytest.raises(HarnessError, match="where this process can break them"):
            container.check_sees(folder / below, elsewhere.pid)
        assert elsewhere.stdin is not None
        elsewhere.stdin.close()
