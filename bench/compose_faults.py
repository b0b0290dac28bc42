"""What breaks the cluster of compose/foreign.yaml from outside: each fault does what its name says, and heals it."""

from __future__ import annotations

from collections.abc import Callable

from bench.composed_cluster import BROKERS, ComposedCluster
from ebbtide.waiting import pause

Fault = Callable[[ComposedCluster, str, Callable[[str], None]], None]
"""Breaks the cluster and heals it; gets the topic, and what notes a mark."""


def _others(leader: int) -> list[int]:
    return [one for one in BROKERS if one != leader]


def _a_follower(cluster: ComposedCluster, topic: str) -> int:
    return _others(cluster.leader(topic))[0]


def _kill(cluster: ComposedCluster, broker: int, mark: Callable[[str], None]) -> None:
    mark(f"docker kill broker-{broker}")
    cluster.docker("kill", broker)
    pause(4)
    cluster.docker("start", broker)


def _pause(cluster: ComposedCluster, broker: int, mark: Callable[[str], None], *, for_s: float) -> None:
    mark(f"docker pause broker-{broker}")
    cluster.docker("pause", broker)
    pause(for_s)
    cluster.docker("unpause", broker)


def _empty_the_disk(cluster: ComposedCluster, broker: int, mark: Callable[[str], None]) -> None:
    mark(f"broker-{broker} gets an empty volume")
    cluster.docker("kill", broker)
    cluster.wipe(broker)
    cluster.docker("start", broker)


def kill_the_leader(cluster: ComposedCluster, topic: str, mark: Callable[[str], None]) -> None:
    _kill(cluster, cluster.leader(topic), mark)


def kill_a_follower(cluster: ComposedCluster, topic: str, mark: Callable[[str], None]) -> None:
    _kill(cluster, _a_follower(cluster, topic), mark)


def kill_two_at_once(cluster: ComposedCluster, topic: str, mark: Callable[[str], None]) -> None:
    leader = cluster.leader(topic)
    mark("docker kill of the leader and a follower")
    cluster.docker("kill", leader, _others(leader)[0])
    pause(4)
    cluster.docker("start", leader, _others(leader)[0])


def kill_all_at_once(cluster: ComposedCluster, topic: str, mark: Callable[[str], None]) -> None:
    mark("docker kill of all brokers")
    cluster.docker("kill", *BROKERS)
    pause(2)
    cluster.docker("start", *BROKERS)


def kill_a_controller(cluster: ComposedCluster, topic: str, mark: Callable[[str], None]) -> None:
    mark("docker kill controller-100")
    cluster.docker("kill", 100)
    pause(5)
    cluster.docker("start", 100)


def pause_the_leader(cluster: ComposedCluster, topic: str, mark: Callable[[str], None]) -> None:
    _pause(cluster, cluster.leader(topic), mark, for_s=13)


def pause_a_follower(cluster: ComposedCluster, topic: str, mark: Callable[[str], None]) -> None:
    _pause(cluster, _a_follower(cluster, topic), mark, for_s=12)


def cut_off_the_leader(cluster: ComposedCluster, topic: str, mark: Callable[[str], None]) -> None:
    leader = cluster.leader(topic)
    mark(f"docker network disconnect broker-{leader}")
    cluster.network("disconnect", leader)
    pause(13)
    cluster.network("connect", leader)


def restart_one_after_the_other(cluster: ComposedCluster, topic: str, mark: Callable[[str], None]) -> None:
    for one in BROKERS:
        mark(f"docker restart broker-{one}")
        cluster.docker("restart -t 30", one)
        cluster.await_brokers()
        cluster.await_isr(topic, *BROKERS)


def empty_the_disk_of_a_follower(cluster: ComposedCluster, topic: str, mark: Callable[[str], None]) -> None:
    _empty_the_disk(cluster, _a_follower(cluster, topic), mark)


def empty_the_disk_of_the_leader(cluster: ComposedCluster, topic: str, mark: Callable[[str], None]) -> None:
    _empty_the_disk(cluster, cluster.leader(topic), mark)


def cut_every_log(cluster: ComposedCluster, topic: str, mark: Callable[[str], None]) -> None:
    """What a power loss of the whole rack does: each log loses its second half."""
    cluster.docker("kill", *BROKERS)
    for one in BROKERS:
        cluster.cut_log(one, topic)
    cluster.docker("start", *BROKERS)


def cut_every_log_and_say_so(cluster: ComposedCluster, topic: str, mark: Callable[[str], None]) -> None:
    mark("power loss of the rack")
    cut_every_log(cluster, topic, mark)


def cut_the_log_of_the_last_replica(cluster: ComposedCluster, topic: str, mark: Callable[[str], None]) -> None:
    """Last replica standing: the leader is alone in the ISR when its log is cut."""
    leader = cluster.leader(topic)
    cluster.docker("pause", *_others(leader))
    cluster.await_isr(topic, leader)
    cluster.docker("kill", leader)
    # What the followers had too is at the front: it was committed.
    cluster.cut_log(leader, topic, keep=0)
    cluster.docker("start", leader)
    pause(8)
    cluster.docker("unpause", *_others(leader))


def kill_the_last_replica_with_unclean_elections(
    cluster: ComposedCluster, topic: str, mark: Callable[[str], None]
) -> None:
    leader = cluster.leader(topic)
    mark("the followers are paused, and the leader is killed")
    cluster.docker("pause", *_others(leader))
    cluster.await_isr(topic, leader)
    pause(2)
    cluster.docker("kill", leader)
    cluster.docker("unpause", *_others(leader))
    pause(12)
    cluster.docker("start", leader)


UNCLEAN = {kill_the_last_replica_with_unclean_elections}
FAULTS: dict[str, tuple[Fault, ...]] = {
    "4.3.1": (
        kill_the_leader,
        kill_two_at_once,
        kill_all_at_once,
        pause_the_leader,
        cut_off_the_leader,
        empty_the_disk_of_the_leader,
        cut_every_log,
        cut_every_log_and_say_so,
        cut_the_log_of_the_last_replica,
        kill_the_last_replica_with_unclean_elections,
        restart_one_after_the_other,
        kill_a_controller,
    ),
    "3.9.1": (
        cut_the_log_of_the_last_replica,
        cut_every_log,
        kill_the_leader,
        pause_the_leader,
        kill_the_last_replica_with_unclean_elections,
        empty_the_disk_of_a_follower,
        kill_a_follower,
        pause_a_follower,
    ),
}
