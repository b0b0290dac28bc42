"""An error of a published port says in one line why it does not lead to a broker."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from cluster.host import host_ports
from cluster.host.host_ports import LOOPBACK, HostPorts
from ebbtide.errors import HarnessError


def test_a_failure_of_several_lines_is_one_line_of_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> None:
        raise HarnessError("the namespace cannot be entered", where="/run/netns/x", got="permission denied")

    monkeypatch.setattr(host_ports, "enter_namespace", fail)
    with socket.create_server((LOOPBACK, 0)) as taken:
        free = int(taken.getsockname()[1])
    with closing(HostPorts(free, [1])) as ports, pytest.raises(HarnessError) as caught:
        ports.serve(tmp_path, {1: ("10.0.0.1", 9092)})
    assert caught.value.got is not None
    assert "\n" not in caught.value.got
    assert "the namespace cannot be entered" in caught.value.got
    assert "permission denied" in caught.value.got
