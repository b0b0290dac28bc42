"""The disks of a broker with two log directories: each fails and is replaced alone, and all lose power at once."""

from __future__ import annotations

import errno
from pathlib import Path

import evidence_builders as build
import pytest

from cluster.host.bridge import address_of
from cluster.host.ledger import Ledger
from cluster.runtime.disks import NodeDisks
from cluster.runtime.properties import plan_cluster
from ebbtide import run_clock
from ebbtide.errors import HarnessError
from ebbtide.scenario.model import ClusterSpec

pytestmark = pytest.mark.root

SPEC = ClusterSpec(controllers=1, brokers=1, log_dirs=2)


@pytest.fixture
def disks(ledger: Ledger, tmp_path: Path) -> NodeDisks:
    """Broker 1 has t-0 on its first disk, and t-1 on its second."""
    made = NodeDisks(tmp_path / "cluster", plan_cluster(SPEC, address_of).nodes, SPEC, ledger)
    made.make_volumes()
    for at, data in enumerate(made.make_data_dirs(1)):
        build.write_log(data / f"t-{at}", build.plain_batch(0, b"kept"))
    made.sync()
    made.write_unsynced(1)
    return made


def test_a_broker_has_a_volume_for_each_directory_and_a_controller_one(disks: NodeDisks) -> None:
    mounted = [Path(disks.volume(1, at).folder) for at in (1, 2)]
    assert [data.parent for data in disks.data_dirs(1)] == mounted
    assert len({folder.stat().st_dev for folder in mounted}) == 2
    assert len(disks.data_dirs(100)) == 1
    with pytest.raises(HarnessError, match="no log directory 3"):
        disks.volume(1, 3)


def test_one_volume_fails_alone(disks: NodeDisks) -> None:
    disks.volume(1, 2).shut_down()
    assert [disks.volume(1, at).write_error() for at in (1, 2)] == [None, errno.EIO]


def test_a_broker_may_start_without_its_second_volume_and_not_without_its_first(disks: NodeDisks) -> None:
    disks.volume(1, 2).shut_down()
    disks.write_unsynced(1)
    assert [disks.volume(1, at).has_unsynced() for at in (1, 2)] == [True, False]
    disks.volume(1, 1).shut_down()
    with pytest.raises(OSError, match="Input/output error"):
        disks.write_unsynced(1)


def test_a_power_loss_takes_what_no_directory_fsynced(disks: NodeDisks) -> None:
    for at, data in enumerate(disks.data_dirs(1)):
        build.write_log(data / f"t-{at}", build.plain_batch(0, b"kept"), build.plain_batch(1, b"lost"))
    began_ns = run_clock.now_ns()
    loss = disks.lose_power(1, "fs-shutdown", at_the_cut=False, look=lambda: None)
    assert loss.log_gone is not None
    assert began_ns < loss.log_gone.first_ns < loss.log_gone.last_ns < run_clock.now_ns()
    assert (loss.volume_down, loss.unsynced_there, loss.unsynced_gone) == (True, True, True)
    assert {name: log.lost_bytes > 0 for name, log in loss.logs.items()} == {"t-0": True, "t-1": True}


def test_a_replaced_disk_takes_only_the_logs_of_its_directory(disks: NodeDisks) -> None:
    replaced = disks.replace(1, 2, lambda: None)
    assert (set(replaced.logs), replaced.left) == ({"t-1"}, ())
    assert replaced.log_gone is not None
    first, second = disks.data_dirs(1)
    assert ((first / "t-0").is_dir(), list(second.iterdir())) == (True, [])
