"""What root's side of a helper container gives the command that it runs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from cluster.host.processes import identify
from cluster.privileges.helper_container import Order
from ebbtide.command import module_command

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may copy the files of another process")


def test_roots_python_writes_no_bytecode_into_the_users_checkout(tmp_path: Path) -> None:
    said = tmp_path / "said"
    code = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(str(sys.dont_write_bytecode))"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        order = Order(
            process=identify(os.getpid()),
            control=theirs.fileno(),
            command=(sys.executable, "-c", code, str(said)),
            folders=(),
            user=os.getuid(),
            group=os.getgid(),
        )
        words = [*module_command("cluster.privileges.helper_inside"), msgspec.json.encode(order).decode()]
        subprocess.run(words, check=True, timeout=60)
        assert ours.recv(1) == b"\0"
    assert said.read_text() == "True"
