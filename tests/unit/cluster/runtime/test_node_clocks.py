"""The agent that sets a node's clock, in a Java process with a class named as Kafka's clock."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.host.ledger import Ledger
from cluster.runtime import node_clocks
from cluster.runtime.base import NodeInfo
from cluster.runtime.node_clocks import NodeClocks
from ebbtide.errors import HarnessError
from ebbtide.java import require_java

NODE = NodeInfo(id=1, role="broker", name="broker-1", address="")
HOUR_MS = 3_600_000

SYSTEM_TIME = """
package org.apache.kafka.common.utils;

public class SystemTime {
    public static long milliseconds() { return System.currentTimeMillis(); }
    public static long nanoseconds() { return System.nanoTime(); }
    public String toString() { return "java/lang/SystemNotTheName"; }
}

class Show {
    public static void main(String[] words) throws Exception {
        while (System.in.read() >= 0) {
            System.out.println(SystemTime.milliseconds() + " " + System.currentTimeMillis() + " "
                + SystemTime.nanoseconds() + " " + System.nanoTime() + " " + new SystemTime());
            System.out.flush();
        }
    }
}
"""


class Asked:
    """What the process of a node says: its clock's time and the host's, in ms, then both again, in ns."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self) -> tuple[int, int, int, int, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("?")
        self._process.stdin.flush()
        clock, host, nano, host_nano, text = self._process.stdout.readline().split()
        return int(clock), int(host), int(nano), int(host_nano), text


@pytest.fixture
def clocks(ledger: Ledger, tmp_path: Path) -> NodeClocks:
    made = NodeClocks({1: NODE}, tmp_path / "clocks", ledger)
    made.enable()
    made.prepare(tmp_path / "agent.log")
    return made


@pytest.fixture
def ask(clocks: NodeClocks, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    source = tmp_path / "SystemTime.java"
    source.write_text(SYSTEM_TIME)
    monkeypatch.setattr(node_clocks, "_AGENT", source)
    packed = NodeClocks({1: NODE}, tmp_path / "kafka", ledger)
    packed.enable()
    packed.prepare(tmp_path / "kafka.log")
    (jar, _) = packed.files(1)
    command = [str(require_java().executable), *clocks.options(1), "-cp", str(jar)]
    command.append("org.apache.kafka.common.utils.Show")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Asked(process)
        assert process.stdin is not None
        process.stdin.close()


def test_only_the_wall_clock_of_kafka_follows_the_offset(clocks: NodeClocks, ask: Asked) -> None:
    for offset_ms in (0, HOUR_MS, -HOUR_MS, 0):
        clocks.set(1, offset_ms)
        clock, host, nano, host_nano, text = ask()
        assert clock - host == pytest.approx(offset_ms, abs=100)
        assert host == pytest.approx(time.time() * 1000, abs=2000)
        assert nano == pytest.approx(host_nano, abs=100_000_000)
        # A longer name that begins with the same letters is another name.
        assert text == "java/lang/SystemNotTheName"


def test_what_the_clock_returned_last_can_be_read(clocks: NodeClocks, ask: Asked) -> None:
    assert clocks.returned_ms(1) == 0
    clocks.set(1, HOUR_MS)
    clock, *_ = ask()
    assert clocks.returned_ms(1) == clock


def test_a_cluster_whose_steps_set_no_clock_has_no_agent(ledger: Ledger, tmp_path: Path) -> None:
    made = NodeClocks({1: NODE}, tmp_path / "clocks", ledger)
    made.prepare(tmp_path / "agent.log")
    assert (made.options(1), made.files(1)) == ((), ())
    assert not (tmp_path / "clocks").exists()


def test_an_agent_that_does_not_compile_is_one_clear_error(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "Broken.java"
    source.write_text("public class Broken {")
    monkeypatch.setattr(node_clocks, "_AGENT", source)
    made = NodeClocks({1: NODE}, tmp_path / "clocks", ledger)
    made.enable()
    with pytest.raises(HarnessError, match="could not be compiled"):
        made.prepare(tmp_path / "agent.log")
