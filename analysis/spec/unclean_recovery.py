"""Chooses the leader of KIP-966's unclean recovery from the replies of the replicas.

No Kafka release has it. The functions are pure: the explorer's controller and a tool that recovers
a real partition from outside ask the same rule. The caller collects the replies, applies the
timeout, and begins again after a change of the controller, which stores none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from analysis.spec.partition import NO_LEADER, NOBODY, Brokers, LogInfo, UncleanElection

STRATEGIES: dict[str, UncleanElection] = {
    "balanced": UncleanElection.DISABLED,
    "proactive": UncleanElection.ENABLED,
    "manual": UncleanElection.MANUAL,
}
"""The KIP's recovery strategies by name, with the value of unclean.leader.election.enable."""


class RecoveryChoice(NamedTuple):
    """The leader that the replies elect, or why there is none yet.

    `leader` is `NO_LEADER` while the recovery waits. `awaited` are the LastKnownElr members that
    Balanced waits for. `void` has each reply that does not count, with the reason.
    """

    leader: int
    awaited: Brokers = NOBODY
    void: tuple[tuple[LogInfo, str], ...] = ()


def choose_leader(
    strategy: UncleanElection,
    replicas: Sequence[int],
    last_known: Collection[int],
    replies: Sequence[LogInfo],
    *,
    broker_epochs: Mapping[int, int],
    leader_epoch: int,
    last_known_first: bool = False,
) -> RecoveryChoice:
    """Return the choice of an unclean recovery (KIP-966, Unclean recovery).

    The highest last written leader epoch wins, then the longest log; the replica order breaks a
    tie. Balanced waits for a reply of every replica in `last_known`, Proactive for any reply. Manual
    elects nobody. `replicas` is the assignment in its order, `broker_epochs` has the present epoch
    of every live broker, `leader_epoch` is the partition's. A broker's last reply counts.

    `last_known_first` is no rule of the KIP: a reply of a LastKnownElr member then goes before all
    others (docs/findings/longest-log.md).
    """
    latest = {reply.broker: reply for reply in replies}
    why_void = {
        broker: void_reason(reply, replicas, broker_epochs=broker_epochs, leader_epoch=leader_epoch)
        for broker, reply in latest.items()
    }
    counted = [reply for broker, reply in latest.items() if not why_void[broker]]
    void = tuple((reply, why_void[broker]) for broker, reply in latest.items() if why_void[broker])
    awaited = NOBODY
    if strategy is UncleanElection.DISABLED:
        awaited = frozenset(last_known) & set(replicas) - {reply.broker for reply in counted}
    if strategy is UncleanElection.MANUAL or awaited or not counted:
        return RecoveryChoice(NO_LEADER, awaited, void)

    def rank(reply: LogInfo) -> tuple[bool, int, int, int]:
        known = last_known_first and reply.broker in last_known
        return known, reply.last_epoch, reply.log_end_offset, -replicas.index(reply.broker)

    return RecoveryChoice(max(counted, key=rank).broker, awaited, void)


def void_reason(reply: LogInfo, replicas: Sequence[int], *, broker_epochs: Mapping[int, int], leader_epoch: int) -> str:
    """Return why a reply does not count; empty if it counts.

    The broker epoch voids the reply of a broker that has registered again since it replied. The
    leader epoch voids a late reply, and the reply of a broker whose metadata is old.
    """
    if reply.broker not in replicas:
        return "not a replica"
    if reply.broker not in broker_epochs:
        return "fenced or not registered"
    if reply.broker_epoch != broker_epochs[reply.broker]:
        return f"broker epoch {reply.broker_epoch}, registered with {broker_epochs[reply.broker]}"
    if reply.current_leader_epoch != leader_epoch:
        return f"leader epoch {reply.current_leader_epoch}, the partition has {leader_epoch}"
    return ""
