"""Slow links in real namespaces: what passes when, in which direction, and what a heal leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.host.bridge import BridgeNetwork
from cluster.host.ledger import Ledger
from cluster.host.limits import burst_bytes
from cluster.host.namespaces import Cut, Namespace
from cluster.runtime.base import NodeInfo
from ebbtide.scenario.words import CLIENTS
from ebbtide.waiting import wait_until
from faults.network import cuts_between, heal, limit, one_way_cuts, partition

pytestmark = pytest.mark.root

RATE_BYTES_S = 32_000
SIZE_BYTES = 3 * burst_bytes(RATE_BYTES_S)
LIMITED_S = 0.9 * (SIZE_BYTES - burst_bytes(RATE_BYTES_S)) / RATE_BYTES_S
"""No transfer over a limited link takes less, however idle the host is."""

THERE, BACK = Cut(source=1, target=2), Cut(source=2, target=1)


class Cluster:
    """Two brokers, a controller and the clients: what network faults ask of a runtime."""

    def __init__(self, network: BridgeNetwork) -> None:
        self.network = network
        self.nodes = {
            1: NodeInfo(id=1, role="broker", name="broker-1", address=""),
            2: NodeInfo(id=2, role="broker", name="broker-2", address=""),
            100: NodeInfo(id=100, role="controller", name="controller-100", address=""),
        }


@pytest.fixture
def cluster(ledger: Ledger) -> Iterator[Cluster]:
    network = BridgeNetwork(ledger)
    network.open()
    for node in (CLIENTS, 1, 2, 100):
        network.add_namespace(node)
    yield Cluster(network)
    network.close()


def await_quicker_than_limited(network: BridgeNetwork, pair: Cut) -> None:
    """A busy host may be slow at times, and a limited link always is."""
    wait_until(
        lambda: network.transfer([pair], SIZE_BYTES, 2.0)[pair].took_s < LIMITED_S / 2,
        awaited=f"a transfer over {pair} that no limit slows down",
        timeout_s=30,
    )


def test_a_limited_direction_is_slow_and_every_other_is_not(cluster: Cluster) -> None:
    network = cluster.network
    network.limit([THERE], RATE_BYTES_S)
    beside = [BACK, Cut(source=CLIENTS, target=2), Cut(source=1, target=100)]
    seen = network.transfer([THERE, *beside], SIZE_BYTES, 2.0)
    assert seen[THERE].took_s > LIMITED_S
    assert all(seen[pair].arrived_bytes >= SIZE_BYTES for pair in beside)
    for pair in beside:
        await_quicker_than_limited(network, pair)
    assert network.limit_counts()[THERE].passed_bytes > SIZE_BYTES


def test_a_limit_is_proven_healed_and_gone(cluster: Cluster) -> None:
    effect = limit(cluster, cuts_between([[1], [2, CLIENTS]]), RATE_BYTES_S)  # type: ignore[arg-type]
    assert effect.why is None
    assert set(effect.proof["transfers"]) == {"1>2", "2>1", "1>0", "0>1"}
    healed = heal(cluster)  # type: ignore[arg-type]
    assert healed.why is None
    assert healed.proof["limited"]["0>1"]["passed_bytes"] > 0
    await_quicker_than_limited(cluster.network, THERE)


def test_a_limit_of_which_the_kernel_knows_nothing_is_not_proven(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.network, "limit", lambda _pairs, _rate: None)
    for rate_bytes_s in (1_000, 12_500_000):
        effect = limit(cluster, one_way_cuts([1], [2]), rate_bytes_s)  # type: ignore[arg-type]
        assert "more than the rate allows passes 1>2" in (effect.why or "")


def test_cuts_and_limits_stand_side_by_side(cluster: Cluster) -> None:
    assert partition(cluster, one_way_cuts([1], [2])).why is None  # type: ignore[arg-type]
    assert limit(cluster, cuts_between([[1], [2]]), RATE_BYTES_S).why is None  # type: ignore[arg-type]
    assert partition(cluster, one_way_cuts([CLIENTS], [2])).why is None  # type: ignore[arg-type]
    assert heal(cluster).why is None  # type: ignore[arg-type]


def test_a_node_that_is_plugged_in_again_is_as_slow_as_before(cluster: Cluster, ledger: Ledger) -> None:
    cluster.network.limit([THERE], RATE_BYTES_S)
    again = Namespace(name=f"ebbtide-{ledger.run_id}-again")
    ledger.make(again, again.create)
    cluster.network.attach(2, again.path)
    assert cluster.network.transfer([THERE], SIZE_BYTES, 2.0)[THERE].took_s > 0.2


SHAPES = {
    "every broker for itself": cuts_between([[1], [2]]),
    "brokers without the controller": cuts_between([[1, 2], [100]]),
    "clients without brokers": cuts_between([[CLIENTS], [1, 2]]),
    "a bridge": cuts_between([[1, CLIENTS], [100]]),
    "a node alone": cuts_between([[1], [2, 100, CLIENTS]]),
    "answers only": one_way_cuts([1], [2]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_proven_by_what_passes_and_what_does_not(cluster: Cluster, shape: str) -> None:
    effect = partition(cluster, SHAPES[shape])  # type: ignore[arg-type]
    assert effect.why is None
    assert len(effect.proof["cuts"]) == len(SHAPES[shape])
    assert heal(cluster).why is None  # type: ignore[arg-type]


def test_a_killed_run_leaves_no_limit_since_they_live_in_its_namespaces(ledger: Ledger, cluster: Cluster) -> None:
    cluster.network.limit([THERE], RATE_BYTES_S)
    cluster.network.close()
    ledger.close()
    assert not list(Path("/run/netns").glob(f"ebbtide-{ledger.run_id}*"))
