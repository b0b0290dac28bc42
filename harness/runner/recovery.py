"""Asks the protocol's rule which replica an unclean recovery elects.

The rule is the specification's (`analysis.spec.unclean_recovery`), so that the model and a recovery
of a real partition cannot differ in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.spec.partition import NO_LEADER, LogInfo
from analysis.spec.unclean_recovery import STRATEGIES, RecoveryChoice, choose_leader
from ebbtide.record.rows import PartitionState
from ebbtide.scenario.steps.recovery import Strategy
from faults.replica_replies import Choice, LogReply


def choose(
    strategy: Strategy,
    state: PartitionState,
    last_known_elr: frozenset[int],
    replies: Sequence[LogReply],
    broker_epochs: Mapping[int, int],
) -> Choice:
    """Return the choice of a strategy, and who comes next should the chosen replica be gone."""

    def ask(infos: Sequence[LogInfo], by: Strategy) -> RecoveryChoice:
        return choose_leader(
            STRATEGIES[by],
            state.replicas,
            last_known_elr,
            infos,
            broker_epochs=broker_epochs,
            leader_epoch=state.leader_epoch,
        )

    infos = [
        LogInfo(
            broker=reply.log.broker,
            broker_epoch=reply.broker_epoch,
            last_epoch=reply.log.last_epoch,
            log_end_offset=reply.log.log_end_offset,
            current_leader_epoch=reply.log.current_leader_epoch,
        )
        for reply in replies
    ]
    found = ask(infos, strategy)
    ranked: list[int] = []
    leader = found.leader
    while leader != NO_LEADER:
        ranked.append(leader)
        leader = ask([one for one in infos if one.broker not in ranked], "proactive").leader
    return Choice(
        ranked=tuple(ranked),
        awaited=tuple(sorted(found.awaited)),
        void={reply.broker: why for reply, why in found.void},
    )
