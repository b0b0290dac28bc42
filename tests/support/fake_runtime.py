"""A stand-in for a runtime whose every lie a fault's proof must see through."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterable, Mapping

from cluster.host.limits import burst_bytes
from cluster.host.namespaces import Cut, LimitCounts, Transfer
from cluster.runtime.base import NodeInfo, PowerLoss
from ebbtide.waiting import WaitExpired


class FakeNetwork:
    """A network whose packets pass unless cut.

    If `works` is False, a cut is accepted and does nothing. `deaf`: nothing reaches the node.
    """

    def __init__(self) -> None:
        self.cuts: set[Cut] = set()
        self.limits: dict[Cut, int] = {}
        self.works = True
        self.heals = True
        self.deaf: set[int] = set()

    def cut(self, cuts: Iterable[Cut]) -> None:
        self.cuts.update(cuts)

    def heal(self) -> None:
        if self.heals:
            self.cuts.clear()
            self.limits.clear()

    def limit(self, pairs: Iterable[Cut], rate_bytes_s: int) -> None:
        self.limits.update(dict.fromkeys(pairs, rate_bytes_s))

    def limit_counts(self) -> Mapping[Cut, LimitCounts]:
        return dict.fromkeys(self.limits, LimitCounts(passed_bytes=1, dropped_packets=0))

    def transfer(self, pairs: Iterable[Cut], size_bytes: int, timeout_s: float) -> Mapping[Cut, Transfer]:
        def took_s(pair: Cut) -> float:
            rate = self.limits.get(pair) if self.works else None
            return 0.001 if rate is None else (size_bytes - burst_bytes(rate)) / rate

        return {pair: Transfer(arrived_bytes=size_bytes, took_s=took_s(pair)) for pair in pairs}

    def passing_pairs(self, pairs: Iterable[Cut], timeout_s: float = 0.3) -> frozenset[Cut]:
        dead = self.cuts if self.works else set()
        return frozenset(pair for pair in pairs if pair not in dead and pair.target not in self.deaf)

    def dropped_packets(self) -> Mapping[Cut, int]:
        return dict.fromkeys(self.cuts, 1)


def process_of(command: list[str]) -> subprocess.Popen[bytes]:
    """The process, once it has written its first line (its trap stands then)."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
    return process


class FakeRuntime:
    """One real process stands for every node; `lazy`: signals are not sent."""

    def __init__(self, command: list[str]) -> None:
        self.nodes = {
            id: NodeInfo(id=id, role="broker", name=f"broker-{id}", address=f"10.99.0.{id}") for id in (1, 2, 3)
        }
        self.network = FakeNetwork()
        self.popen = process_of(command)
        self.lazy = False
        self.loss = PowerLoss(
            method="fs-shutdown", volume_down=True, unsynced_there=True, unsynced_gone=True, lost_bytes=5, logs={}
        )

    def _send(self, number: signal.Signals) -> None:
        if not self.lazy:
            self.popen.send_signal(number)

    def pid(self, node_id: int) -> int | None:
        return self.popen.pid if self.popen.poll() is None else None

    def exit_status(self, node_id: int) -> int | None:
        return self.popen.poll()

    def kill(self, node_id: int) -> None:
        self._send(signal.SIGKILL)
        if not self.lazy:
            self.popen.wait(60)

    def stop(self, node_id: int, timeout_s: float) -> None:
        self._send(signal.SIGTERM)
        try:
            self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise WaitExpired("broker-1 to end", timeout_s, "state S") from None

    def pause(self, node_id: int) -> None:
        self._send(signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        self._send(signal.SIGCONT)

    def lose_power(self, node_id: int) -> PowerLoss:
        self.kill(node_id)
        return self.loss
