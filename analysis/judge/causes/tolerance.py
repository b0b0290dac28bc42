"""How many members of ISR and ELR may lose their logs at once before the protocol lets one of them lead.

KIP-966 promises min ISR - 1. The number is not written down here: the model is asked. It begins at the moment at
which tolerance is thinnest, the ISR shrunk to min ISR so that only its members must have every committed record,
and takes away the logs of k of them in every order in which they can be fenced and come back.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations

from analysis.judge.history.rules import NEWEST_VARIANT
from analysis.spec.partition import MV_ELR, NO_EPOCH, Cluster, Partition, mask_of
from analysis.spec.protocol import Protocol
from analysis.spec.variants import VARIANTS

_NEW_EPOCH = 100


@cache
def tolerated_losses(replication_factor: int, min_isr: int, variant: str = NEWEST_VARIANT, *, elr: bool = True) -> int:
    """The most unclean shutdowns with loss after which no broker that lost its log leads; 0 to min ISR.

    `variant` is a key of `VARIANTS`; `elr`: whether the feature is on. The variant of the KIP's text is none to ask:
    it leaves an empty ISR and ELR to the unclean recovery.
    """
    protocol = VARIANTS[variant]
    effective = min(min_isr, replication_factor)
    for losses in range(1, effective + 1):
        if any(
            _a_loser_leads(protocol, replication_factor, effective, order, elr)
            for lost in combinations(range(effective), losses)
            for order in permutations(lost)
        ):
            return losses - 1
    return effective


def _a_loser_leads(protocol: Protocol, replication_factor: int, min_isr: int, lost: tuple[int, ...], elr: bool) -> bool:
    """Whether one of `lost` leads once all holders were fenced, those in the order given, and they alone return."""
    holders = range(min_isr)
    everyone = mask_of(range(replication_factor))
    cluster = Cluster(
        registered=everyone,
        unfenced=mask_of(holders),
        epochs=tuple(range(replication_factor)),
        min_isr=min_isr,
        elr=elr,
        metadata_version=MV_ELR,
    )
    partition = Partition(replicas=tuple(range(replication_factor)), isr=mask_of(holders), leader=0)
    kept = [broker for broker in holders if broker not in lost]
    for broker in (*kept, *lost):
        partition, cluster, _ = protocol.fence(partition, cluster, broker)
    for broker in lost:
        epoch = _NEW_EPOCH + broker
        partition, cluster, _ = protocol.register(partition, cluster, broker, epoch=epoch, previous_epoch=NO_EPOCH)
        partition, cluster, _ = protocol.unfence(partition, cluster, broker)
    return partition.leader in lost
