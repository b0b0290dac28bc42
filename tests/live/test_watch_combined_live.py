"""A watched cluster whose nodes are brokers and controllers at once, and whose leader hangs."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_turn import HOST
from live.commands import ebbtide
from live.foreign_cluster import ForeignCluster
from live.single_node import free_ports
from live.test_watch_live import leader_of, watch_while

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.waiting import pause

pytestmark = [pytest.mark.live, pytest.mark.slow]

HANGS_S = 11


class CombinedCluster(ForeignCluster):
    """Nodes 1, 2 and 3, each a broker and a controller. A broker that hangs is fenced only after 30 s."""

    def __init__(self, folder: Path, kafka: str) -> None:
        self._voters = dict(zip((1, 2, 3), free_ports(3), strict=True))
        super().__init__(folder, kafka, brokers=3, controllers=0)

    @property
    def controllers(self) -> str:
        """The controllers' addresses, separated by commas."""
        return ",".join(f"127.0.0.1:{port}" for port in self._voters.values())

    def _settings(self, node: int) -> dict[str, str]:
        return {
            **super()._settings(node),
            "process.roles": "broker,controller",
            "controller.quorum.voters": ",".join(f"{one}@127.0.0.1:{port}" for one, port in self._voters.items()),
            "listeners": f"BROKER://{self.address(node)},CONTROLLER://127.0.0.1:{self._voters[node]}",
            "broker.session.timeout.ms": "30000",
        }


def test_a_leader_that_hangs_shows_as_a_time_in_which_no_broker_served(tmp_path: Path) -> None:
    with HOST.held():
        cluster = CombinedCluster(tmp_path / "foreign", "3.9.1")
        try:
            cluster.up()

            def hang(record: Path) -> None:
                pause(3)
                (topic,) = read_manifest(RecordFolder(record)).topics
                leader = leader_of(cluster, topic)
                cluster.pause(leader)
                pause(HANGS_S)
                cluster.resume(leader)
                pause(5)

            record = watch_while(cluster, tmp_path / "runs", hang)
        finally:
            cluster.down()
    told = ebbtide("analyze", record)
    manifest = read_manifest(RecordFolder(record))
    assert manifest.topology.brokers == manifest.topology.controllers == (1, 2, 3)
    assert "the metadata log had a leader; no broker served" in " ".join(told.stdout.split())
    page = (record / "report.html").read_text()
    assert "combined" in page
    assert "controller 1" not in page
